//! `-L`, `-R`, `-D` and `--stdio`.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};

use super::{BYE, Target, break_off, client, entrance, forward, is_reset, port, proxy, say, say_all, why};
use crate::support::{World, free_address, noise};

#[test]
fn each_way_of_a_connection_ends_by_itself() {
    let world = World::new();
    let target = Target::echo();
    let mut far = proxy(&world, &["--allow-to", &target.at.to_string()]);
    let (mut near, at) = entrance(&world, target.at, &far.peer);
    let bytes = noise(1_000_000, 1);
    say_all(client(at), &bytes);
    let opened = near.line_of("opened");
    assert_eq!((&opened["way"], &opened["to"]), (&"local".into(), &target.at.to_string().into()));
    for closed in [near.line_of("closed"), far.running.line_of("closed")] {
        assert_eq!(closed["why"], "ended", "{closed}");
        let (there, back) = (bytes.len(), bytes.len() + BYE.len());
        let ways = [(&closed["sent"], &closed["received"]), (&closed["received"], &closed["sent"])];
        assert!(ways.contains(&(&there.into(), &back.into())), "{closed}");
    }
    // A client that waits hears what the target says first.
    let speaks = Target::new("127.0.0.1:0", |mut socket| drop(socket.write_all(b"220 ready\r\n")));
    let far = proxy(&world, &["--allow-to", "127.0.0.1:*", "--as", "other"]);
    let (_near, at) = entrance(&world, speaks.at, &far.peer);
    let mut said = String::new();
    client(at).read_to_string(&mut said).unwrap();
    assert_eq!(said, "220 ready\r\n");
}

#[test]
fn a_reset_is_passed_on_as_a_reset_both_ways() {
    let world = World::new();
    let (tell, heard) = std::sync::mpsc::channel();
    let target = Target::new("127.0.0.1:0", move |mut socket| {
        let mut word = [0; 4];
        socket.read_exact(&mut word).unwrap();
        if &word == b"hurt" {
            return break_off(socket);
        }
        socket.write_all(b"well").unwrap();
        tell.send(socket.read(&mut word).map_err(|error| error.kind())).unwrap();
    });
    let far = proxy(&world, &["--allow-to", "127.0.0.1:*"]);
    let (mut near, at) = entrance(&world, target.at, &far.peer);
    let mut hurt = client(at);
    hurt.write_all(b"hurt").unwrap();
    is_reset(hurt);
    assert_eq!(why(&mut near), "reset_there");
    let mut hurts = client(at);
    hurts.write_all(b"hey!").unwrap();
    let mut word = [0; 4];
    hurts.read_exact(&mut word).unwrap();
    break_off(hurts);
    assert_eq!(why(&mut near), "reset_here");
    assert_eq!(heard.recv().unwrap(), Err(std::io::ErrorKind::ConnectionReset));
}

#[test]
fn connections_come_from_the_far_end() {
    let world = World::new();
    let target = Target::echo();
    let mut far = proxy(&world, &["--allow-listen", "127.0.0.1:*"]);
    let to = format!("127.0.0.1:0:{}", target.at);
    let mut near = forward(&world, &["-R", &to, "-R", &format!("0:{}", target.at), &far.peer]);
    let at = port(&mut near);
    say_all(client(at), b"from there");
    let opened = near.line_of("opened");
    assert_eq!((&opened["way"], &opened["to"]), (&"remote".into(), &target.at.to_string().into()));
    assert_eq!((why(&mut near), why(&mut far.running)), ("ended".into(), "ended".into()));
    // Nothing listens at the near end's target.
    let free = free_address();
    let mut near = forward(&world, &["-R", &format!("0:{free}"), &far.peer]);
    is_reset(client(port(&mut near)));
    assert_eq!(why(&mut near), "refused");
    assert_eq!(why(&mut far.running), "refused");
    let told = forward(&world, &["-R", "127.0.0.2:0:db:1", &far.peer]).end().expect(4);
    assert!(told.stderr.contains("exon proxy serve --allow-listen 127.0.0.2:0"), "{}", told.stderr);
}

/// A client of a SOCKS5 server: what it is told, and its connection.
fn socks(at: SocketAddr, address: &[u8], port: u16) -> (u8, TcpStream) {
    let mut socket = client(at);
    socket.write_all(&[5, 1, 0]).unwrap();
    let mut chosen = [0; 2];
    socket.read_exact(&mut chosen).unwrap();
    assert_eq!(chosen, [5, 0]);
    socket.write_all(&[&[5, 1, 0], address, &port.to_be_bytes()].concat()).unwrap();
    let mut reply = [0; 10];
    socket.read_exact(&mut reply).unwrap();
    assert_eq!((reply[0], &reply[2..]), (5, &[0, 1, 0, 0, 0, 0, 0, 0][..]));
    (reply[1], socket)
}

#[test]
fn socks_clients_say_where_they_want_to_go() {
    let world = World::new();
    let target = Target::echo();
    let free = free_address().port();
    let allowed = ["--allow-to", "127.0.0.1:*", "--allow-to", "[::1]:*", "--allow-to", "*.invalid:80"];
    let far = proxy(&world, &allowed);
    let mut near = forward(&world, &["-D", "0", &far.peer]);
    let at = port(&mut near);
    let local = [1, 127, 0, 0, 1];
    let mut ways =
        vec![(local.to_vec(), target.at.port()), (b"\x03\x09localhost".to_vec(), target.at.port())];
    if TcpListener::bind("[::1]:0").is_ok() {
        let six = Target::new("[::1]:0", super::echo);
        ways.push(([&[4][..], &[0; 15], &[1]].concat(), six.at.port()));
    }
    for (address, port) in ways {
        let (reply, socket) = socks(at, &address, port);
        assert_eq!(reply, 0, "{address:?}");
        say_all(socket, b"over there");
        assert_eq!(why(&mut near), "ended");
    }
    for (address, port, reply, expected) in [
        (&local[..], free, 5, "refused"),
        (&[1, 127, 0, 0, 2], 80, 2, "denied"),
        (b"\x03\x06db.com", 80, 2, "denied"),
        (b"\x03\x0adb.invalid", 80, 4, "no_such_host"),
    ] {
        let (told, mut socket) = socks(at, address, port);
        assert_eq!((told, why(&mut near)), (reply, expected.into()));
        assert_eq!(socket.read(&mut [0]).unwrap(), 0, "it ends well: the client has its reply");
    }
    // A client that speaks something else is left.
    let mut other = client(at);
    other.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    assert!(matches!(other.read(&mut [0]), Ok(0) | Err(_)));
}

/// The near end passes names on: it looks up none, and the far end decides by the name itself.
#[test]
fn a_socks_client_reaches_a_name_by_its_name_alone() {
    let world = World::new();
    let target = Target::echo();
    let port_there = target.at.port();
    let far = proxy(&world, &["--allow-to", &format!("localhost:{port_there}")]);
    let mut near = forward(&world, &["-D", "0", &far.peer]);
    let at = port(&mut near);
    let (reply, socket) = socks(at, b"\x03\x09LocalHost", port_there);
    assert_eq!(reply, 0);
    say_all(socket, b"by name");
    let closed = near.line_of("closed");
    assert_eq!(
        (closed["why"].as_str(), closed["to"].as_str()),
        (Some("ended"), Some(&*format!("localhost:{port_there}")))
    );
    for (address, port) in [(&[1, 127, 0, 0, 1][..], port_there), (b"\x03\x09localhost", port_there ^ 1)] {
        let (reply, _) = socks(at, address, port);
        assert_eq!((reply, why(&mut near)), (2, "denied".into()), "{address:?}");
    }
}

#[test]
fn standard_input_and_output_are_a_connection() {
    let world = World::new();
    let target = Target::echo();
    let far = proxy(&world, &["--allow-to", "127.0.0.1:*"]);
    let bytes = noise(300_000, 2);
    let text: String = bytes.iter().map(|byte| char::from(b'a' + byte % 26)).collect();
    let to = target.at.to_string();
    let told = world.feed(&["forward", "--stdio", &to, &far.peer], text.as_bytes()).expect(0);
    assert!(told.stdout == format!("{text}that is all") && told.stderr.is_empty(), "{}", told.stderr);
    let free = free_address().to_string();
    let told = world.feed(&["forward", "--stdio", &free, &far.peer], b"").expect(1);
    assert!(told.stderr.contains("Connection refused"), "{}", told.stderr);
    let told = world.feed(&["forward", "--stdio", "db:5432", &far.peer], b"").expect(4);
    let words = "does not allow db:5432; its owner can allow it: exon proxy serve --allow-to db:5432";
    assert!(told.stderr.contains(words), "{}", told.stderr);
}

#[test]
fn what_is_not_allowed_is_told_with_the_remedy() {
    let world = World::new();
    let target = Target::echo();
    let far = proxy(&world, &["--allow-to", "*.internal:443", "--allow-to", "10.0.0.0/8:*"]);
    let (mut near, at) = entrance(&world, target.at, &far.peer);
    let mut denied = client(at);
    // It does not matter what has been said already.
    let _ = denied.write_all(&noise(100_000, 3));
    assert_eq!(why(&mut near), "denied");
    let mut byte = [0];
    assert!(denied.read(&mut byte).is_err());
    let told = near.says("does not allow");
    assert!(
        told.contains(&format!("its owner can allow it: exon proxy serve --allow-to {}", target.at)),
        "{told}"
    );
    // It goes on.
    assert_eq!(
        {
            drop(client(at));
            why(&mut near)
        },
        "denied"
    );
    let strict = ["proxy", "serve", "--json", "--bind", "127.0.0.1:0", "--as", "strict", "--allow"];
    let some =
        world.run(&["id", "some", "--new", "--json"]).expect(0).lines()[0]["id"].as_str().unwrap().to_owned();
    let closed = world
        .listener_of("listening", world.command(&[&strict, &[&*some, "--allow-to", "*:*"][..]].concat()));
    let told = forward(&world, &["-L", "0:db:1", &closed.peer]).end().expect(4);
    assert!(told.stderr.contains("--allow"), "{}", told.stderr);
    let (mut near, at) = {
        let mut near = forward(&world, &["-L", &format!("0:{}", target.at), "--as", "some", &closed.peer]);
        let at = port(&mut near);
        (near, at)
    };
    let mut allowed = client(at);
    say(&mut allowed, b"hello");
    near.line_of("ready");
    let calls = world.serve(&["--echo"]);
    let told = forward(&world, &["-L", "0:db:1", &calls.peer]).end().expect(4);
    assert!(told.stderr.contains("does not take messages of this kind"), "{}", told.stderr);
    for (wrong, words) in [
        (&["forward", &calls.peer][..], "required"),
        (&["forward", "-L", "80:db", &calls.peer], "[BIND:]PORT:HOST:PORT"),
        (&["forward", "-L", "80:127.1:80", &calls.peer], "not a host"),
        (&["proxy", "serve", "--anyone"], "--allow-to"),
        (&["proxy", "serve", "--allow-to", "db:80"], "--allow"),
        (&["proxy", "serve", "--anyone", "--allow-to", "10.0.0.1/8:80"], "not a network"),
    ] {
        let told = world.run(wrong).expect(2);
        assert!(told.stderr.contains(words), "{}", told.stderr);
    }
}
