//! Whom the gateway answers, and how much at once.

use std::io::{BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;

use serde_json::json;

use super::head;
use crate::support::World;

#[test]
fn only_those_with_the_token_are_answered_and_by_a_name_of_this_machine() {
    let world = World::new();
    let gate = world.gateway("shop", &["--http-host", "box.lan"]);
    let token = gate.shown();
    let (at, wrong) = (gate.at.clone(), "Authorization: Bearer wrong-wrong-wrong\r\n");
    gate.get("/v1/node").expect(200);
    assert!(gate.ask("GET", "/openapi.json", "", b"").expect(200).json()["openapi"].is_string());
    let told = gate.ask("GET", "/v1/node", "", b"").expect(401);
    assert_eq!(told.code(), "unauthorized");
    assert!(told.head.contains("www-authenticate: Bearer"), "{}", told.head);
    assert!(
        !told.head.contains(&token)
            && !told.json().to_string().contains(token.split(' ').nth(2).unwrap().trim())
    );
    for (headers, status, code) in [
        (wrong.to_owned(), 401, "unauthorized"),
        (format!("{token}Origin: http://evil.example\r\n"), 403, "origin_not_allowed"),
        (format!("{token}Host: evil.example\r\n"), 421, "host_not_known"),
    ] {
        assert_eq!(gate.ask("GET", "/v1/node", &headers, b"").expect(status).code(), code, "{headers}");
    }
    gate.ask("GET", "/v1/node", &format!("{token}Origin: http://{at}\r\n"), b"").expect(200);
    // A path is told of only to those with the token.
    assert_eq!(gate.ask("GET", "/v2", "", b"").expect(401).code(), "unauthorized");
    assert_eq!(gate.get("/v2").expect(404).code(), "no_such_path");
    let told = gate.post("/v1/node", &json!({})).expect(405);
    assert!(told.code() == "method_not_allowed" && told.head.contains("allow: GET\r\n"), "{}", told.head);
    for (length, status) in [(60_000, 200), (66_000, 431), (300_000, 431)] {
        let long = format!("{token}X: {}\r\n", "x".repeat(length));
        gate.ask("GET", "/v1/node", &long, b"").expect(status);
    }
    let body = vec![b'x'; 24 << 20];
    assert_eq!(gate.ask("POST", "/v1/messages", &token, &body).expect(413).code(), "too_large");
}

#[test]
fn a_name_that_is_given_is_known_and_garbage_upsets_nothing() {
    let world = World::new();
    let gate = world.gateway("shop", &["--http-host", "Box.lan"]);
    for (host, status) in [("box.lan", 200), ("localhost:1", 200), ("evil.lan", 421)] {
        let mut stream = TcpStream::connect(&gate.at).unwrap();
        let shown = gate.shown();
        write!(stream, "GET /v1/node HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{shown}\r\n").unwrap();
        assert_eq!(head(&mut BufReader::new(stream)).1, status, "{host}");
    }
    for garbage in
        [&b"\x16\x03\x01\x02\x00"[..], b"GET\r\n\r\n", b"GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n"]
    {
        let mut stream = TcpStream::connect(&gate.at).unwrap();
        stream.write_all(garbage).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut told = String::new();
        let _ = stream.read_to_string(&mut told);
        assert!(told.is_empty() || told.starts_with("HTTP/1.1 400"), "{told}");
    }
    gate.get("/v1/node").expect(200);
}

#[test]
fn no_more_requests_wait_than_there_are_places() {
    let world = World::new();
    let gate = world.gateway("shop", &[]);
    let mut waiting: Vec<_> = (0..64).map(|_| gate.open("/v1/inbox/events")).collect();
    waiting.iter_mut().for_each(|stream| assert_eq!(head(stream).1, 200));
    let told = gate.get("/v1/inbox?wait_ms=0").expect(429);
    assert!(told.code() == "too_many_waiting" && told.head.contains("retry-after: 1\r\n"), "{}", told.head);
    gate.get("/v1/node").expect(200);
    drop(waiting);
    crate::support::until("places are free again", || gate.get("/v1/inbox?wait_ms=0").status == 200);
}

#[test]
fn a_head_has_no_more_lines_than_it_may() {
    let world = World::new();
    let gate = world.gateway("shop", &[]);
    // Three of these tests' own, and the token.
    let lines = |count| gate.shown() + &(4..count).map(|n| format!("X-{n}: y\r\n")).collect::<String>();
    gate.ask("GET", "/v1/node", &lines(64), b"").expect(200);
    gate.ask("GET", "/v1/node", &lines(65), b"").expect(431);
}

/// A client that keeps its connection.
fn keeps(gate: &super::Gateway) -> BufReader<TcpStream> {
    let stream = TcpStream::connect(&gate.at).unwrap();
    stream.set_read_timeout(Some(super::HANG)).unwrap();
    BufReader::new(stream)
}

fn asks(client: &mut BufReader<TcpStream>) {
    client.get_mut().write_all(b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
}

fn hears(client: &mut BufReader<TcpStream>) {
    let (head, status) = head(client);
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    let mut body = vec![0; length.parse().unwrap()];
    client.read_exact(&mut body).unwrap();
    assert_eq!(status, 200);
}

#[test]
fn no_more_connections_are_served_than_there_are_places() {
    let world = World::new();
    let gate = world.gateway("shop", &[]);
    let mut clients: Vec<_> = (0..128).map(|_| keeps(&gate)).collect();
    for client in &mut clients {
        asks(client);
        hears(client);
    }
    let mut further = keeps(&gate);
    asks(&mut further);
    // While all places are taken it is not served, however often others are.
    for client in &mut clients {
        asks(client);
        hears(client);
    }
    further.get_ref().set_nonblocking(true).unwrap();
    let mut byte = [0];
    assert_eq!(further.read(&mut byte).unwrap_err().kind(), ErrorKind::WouldBlock);
    further.get_ref().set_nonblocking(false).unwrap();
    drop(clients.pop());
    hears(&mut further);
}

#[test]
fn other_machines_are_let_in_on_request_only_and_what_is_wrong_is_said_first() {
    let world = World::new();
    let told = world.run(&["up", "--as", "shop", "--http", "0.0.0.0:0"]).expect(2);
    assert!(told.stderr.contains("--http-remote"), "{}", told.stderr);
    let gate = world.gateway("shop", &[]);
    let told = world.run(&["up", "--as", "other", "--http", &gate.at]).expect(1);
    assert!(told.stderr.contains("to use a free port"), "{}", told.stderr);
    let short = world.file("short", b"abc\n");
    let told = world
        .run(&["up", "--as", "third", "--http", "127.0.0.1:0", "--http-token", crate::support::arg(&short)])
        .expect(1);
    assert!(told.stderr.contains("chmod 600") || told.stderr.contains("has no token"), "{}", told.stderr);
    // The token comes before the address, so that whoever can connect can read the token.
    let told = world
        .run(&["up", "--as", "fifth", "--http", &gate.at, "--http-token", crate::support::arg(&short)])
        .expect(1);
    assert!(!told.stderr.contains("to use a free port"), "{}", told.stderr);
    world.run(&["up", "--as", "fourth", "--anyone"]).expect(2);
}
