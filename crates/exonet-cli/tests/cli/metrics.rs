//! Figures for Prometheus.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;

use crate::support::{Running, World, until};

/// What a scraper reads.
fn scrape(address: &str) -> (String, BTreeMap<String, f64>) {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut told = String::new();
    stream.read_to_string(&mut told).unwrap();
    let (head, body) = told.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200") && head.contains("text/plain; version=0.0.4"), "{head}");
    let samples = body.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let (name, value) = line.rsplit_once(' ').unwrap();
        (name.to_owned(), value.parse().unwrap_or_else(|e| panic!("{e}: {line}")))
    });
    (body.to_owned(), samples.collect())
}

/// Where a process says that its figures are.
fn place(running: &mut Running) -> String {
    let said = running.says("metrics for Prometheus at http://");
    said.split("http://").nth(1).unwrap().trim().trim_end_matches("/metrics").to_owned()
}

#[test]
fn every_command_that_stays_up_gives_its_figures() {
    let world = World::new();
    let mut till = world.listen(&["--as", "till", "--metrics", "127.0.0.1:0"]);
    let mut sorter = world.serve(&["--as", "sorter", "--echo", "--metrics", "127.0.0.1:0"]);
    std::fs::create_dir(world.path("films")).unwrap();
    let mut films = world.share("films-id", &world.path("films"), &["--anyone", "--metrics", "127.0.0.1:0"]);
    let mut up = world.up(&["--metrics", "127.0.0.1:0"]);
    let [till_at, sorter_at, films_at, up_at] =
        [&mut till, &mut sorter, &mut films, &mut up].map(|listener| place(&mut listener.running));
    world.run(&["send", "--as", "sender", "--json", &till.peer, "one"]).expect(0);
    world.run(&["call", &sorter.peer, "echo", "x"]).expect(0);
    for (at, command, node) in [
        (&till_at, "listen", &till.peer),
        (&sorter_at, "serve", &sorter.peer),
        (&films_at, "share", &films.peer),
        (&up_at, "up", &up.peer),
    ] {
        let (text, samples) = scrape(at);
        let id = node.split('@').next().unwrap();
        assert!(text.contains(&format!("command=\"{command}\"")), "{text}");
        assert!(samples.contains_key(&format!("exonet_uptime_seconds{{node=\"{id}\"}}")), "{text}");
        check_form(&text);
    }
    let of = |at: &str, name: &str| {
        let (_, samples) = scrape(at);
        samples
            .iter()
            .filter(|(known, _)| known.starts_with(&format!("{name}{{")))
            .map(|(_, value)| value)
            .sum::<f64>()
    };
    assert_eq!(of(&till_at, "exonet_messages_received_total"), 1.0);
    assert_eq!(of(&up_at, "exonet_messages_delivered_total"), 1.0);
    assert_eq!(of(&up_at, "exonet_peer_connected"), 1.0);
    assert!(of(&up_at, "exonet_peer_rtt_seconds") > 0.0 && of(&up_at, "exonet_out_bytes_total") > 100.0);
    assert_eq!(of(&up_at, "exonet_peer_messages_out_total"), 1.0);
    assert_eq!(of(&till_at, "exonet_peer_messages_in_total"), 1.0);
    for (at, name) in [(&up_at, "exonet_peer_out_bytes_total"), (&till_at, "exonet_peer_in_bytes_total")] {
        until(name, || of(at, name) > 0.0);
    }
    assert!(scrape(&up_at).0.contains("\nexonet_peer_oldest_in_doubt_seconds{"));
    until("times are told", || of(&up_at, "exonet_message_seconds_count") == 1.0);
    assert_eq!(of(&sorter_at, "exonet_serve_seconds_count"), 1.0);
}

/// Each series stands under its own HELP and TYPE, once each.
fn check_form(text: &str) {
    let (mut kinds, mut now) = (BTreeMap::new(), String::new());
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, about) = rest.split_once(' ').unwrap();
            assert!(!about.is_empty(), "{line}");
            now = name.to_owned();
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert_eq!(name, now);
            assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
            assert!(kinds.insert(name.to_owned(), kind.to_owned()).is_none(), "{name} twice");
        } else {
            let name = line.split('{').next().unwrap();
            let stem = if kinds[&now] == "histogram" { name.rsplit_once('_').unwrap().0 } else { name };
            assert_eq!(stem, now, "{line}");
        }
    }
    assert!(kinds.len() > 60);
}

#[test]
fn nothing_else_is_served_there() {
    let world = World::new();
    let mut till = world.listen(&["--metrics", "127.0.0.1:0"]);
    let at = place(&mut till.running);
    for (request, host, status) in [
        ("GET / HTTP/1.1", "localhost", 404),
        ("POST /metrics HTTP/1.1", &at, 405),
        ("GET /metrics HTTP/1.1", "localhost:1", 200),
        ("GET /metrics HTTP/1.1", "evil.example", 421),
        ("GET /metrics HTTP/1.0", &at, 200),
    ] {
        let mut stream = TcpStream::connect(&at).unwrap();
        write!(stream, "{request}\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
        let mut told = String::new();
        stream.read_to_string(&mut told).unwrap();
        assert!(told.starts_with(&format!("HTTP/1.{} {status}", request.chars().last().unwrap())), "{told}");
    }
    let told = world.run(&["listen", "--as", "other", "--bind", "127.0.0.1:0", "--metrics", &at]).expect(1);
    assert!(told.stderr.contains("--metrics"), "{}", told.stderr);
}
