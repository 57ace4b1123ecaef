//! Receiving: a message is taken for good when its client says so, and is given again otherwise.

use exonet::{Allow, Node, Outcome, PeerAddr};
use serde_json::{Value, json};

use super::{event, head};
use crate::support::{Running, World};

/// A client that asks has its answer in time, and what others send is not held up.
#[test]
fn a_body_that_is_slow_to_come_holds_up_no_request() {
    let world = World::new();
    let gate = world.gateway("shop", &["--anyone"]);
    let peer: PeerAddr = gate.peer.parse().unwrap();
    let (half, none) = (vec![b'x'; 2 << 20], json!({ "messages": [] }));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let node = runtime.block_on(Node::builder(Allow::anyone()).bind("127.0.0.1:0").build()).unwrap();
    let slow = runtime.block_on(async {
        let (receipt, mut writer) = node.peer(&peer).send_stream("", None).await.unwrap();
        writer.write_chunk(half.clone().into()).await.unwrap();
        let quick = node.peer(&peer).send("quick").await.unwrap();
        (receipt, writer, quick)
    });
    let (receipt, mut writer, quick) = slow;
    let ack = |message: &Value| {
        gate.post(&format!("/v1/inbox/{}/ack", message["handle"].as_str().unwrap()), &json!({})).expect(200)
    };
    let first = gate.message("");
    assert_eq!(first["text"], "quick");
    ack(&first);
    assert_eq!(runtime.block_on(quick).outcome, Outcome::Delivered);
    assert_eq!(gate.get("/v1/inbox?wait_ms=0").expect(200).json(), none);
    let mut events = gate.open("/v1/inbox/events");
    assert_eq!(head(&mut events).1, 200);
    drop(events);
    runtime.block_on(async {
        writer.write_chunk(half.into()).await.unwrap();
        writer.finish().unwrap();
    });
    // It was never given back, although those have left who asked while it came: what is written as it goes could not come again.
    let second = gate.message("");
    assert_eq!((second["text"].as_str().unwrap().len(), &second["attempt"]), (4 << 20, &json!(1)));
    ack(&second);
    assert_eq!(runtime.block_on(receipt).outcome, Outcome::Delivered);
}

#[test]
fn clients_have_no_more_messages_than_they_may() {
    let world = World::new();
    let gate = world.gateway("shop", &["--anyone"]);
    let input: String = (0..1_025).map(|n| format!("{n}\n")).collect();
    let lines = world.file("lines", input.as_bytes());
    let mut sender = world.command(&["send", "--json", &gate.peer]);
    sender.stdin(std::fs::File::open(lines).unwrap());
    let sender = Running::start(sender);
    let mut out = Vec::new();
    while out.len() < 1_024 {
        let told = gate.get("/v1/inbox?wait_ms=60000&max=256&lease_ms=3600000").expect(200).json();
        out.extend(told["messages"].as_array().unwrap().iter().cloned());
    }
    assert_eq!(out.len(), 1_024);
    for query in ["wait_ms=0", "wait_ms=60000"] {
        let told = gate.get(&format!("/v1/inbox?{query}")).expect(429);
        assert!(told.code() == "too_many_out" && told.head.contains("retry-after: 1\r\n"), "{}", told.head);
    }
    let ack = |message: &Value| {
        gate.post(&format!("/v1/inbox/{}/ack", message["handle"].as_str().unwrap()), &json!({})).expect(200)
    };
    ack(&out[0]);
    out[0] = gate.message("");
    out.iter().for_each(|message| drop(ack(message)));
    assert_eq!(sender.end().expect(0).summary()["delivered"], 1_025);
}

#[test]
fn a_message_that_is_not_acknowledged_in_time_is_given_again_and_flagged() {
    let world = World::new();
    let gate = world.gateway("shop", &["--anyone"]);
    let sender = Running::start(world.command(&["send", "--json", &gate.peer, "two teas"]));
    let first = gate.message("lease_ms=0");
    assert_eq!(
        (&first["text"], &first["attempt"], &first["redelivered"]),
        (&json!("two teas"), &json!(1), &json!(false))
    );
    let second = gate.message("lease_ms=60000");
    assert_eq!(
        (&second["id"], &second["attempt"], &second["redelivered"]),
        (&first["id"], &json!(2), &json!(true))
    );
    let ack = |handle: &serde_json::Value| {
        gate.post(&format!("/v1/inbox/{}/ack", handle.as_str().unwrap()), &json!({}))
    };
    assert_eq!(ack(&first["handle"]).expect(404).code(), "no_such_handle");
    assert_eq!(ack(&second["handle"]).expect(200).json(), json!({ "delivered": true }));
    assert_eq!(sender.end().expect(0).summary()["delivered"], 1);
    assert_eq!(gate.get("/v1/inbox?wait_ms=0").expect(200).json(), json!({ "messages": [] }));
}

#[test]
fn a_client_that_asks_for_no_message_is_told_so_at_once() {
    let world = World::new();
    let gate = world.gateway("shop", &[]);
    for path in ["/v1/inbox?max=0", "/v1/inbox/events?max=0"] {
        let told = gate.get(path).expect(400);
        assert_eq!(told.code(), "bad_request");
        assert!(told.json()["error"]["message"].as_str().unwrap().contains("give 1 to 256"), "{path}");
    }
    let raw = format!("{}Accept: application/octet-stream\r\n", gate.shown());
    assert_eq!(gate.ask("GET", "/v1/inbox?max=0", &raw, b"").expect(400).code(), "bad_request");
    assert_eq!(gate.get("/v1/inbox?max=257&wait_ms=0").expect(400).code(), "bad_request");
    for (path, most) in [
        ("/v1/inbox?wait_ms=60001", "`wait_ms` is 60000 at most"),
        ("/v1/inbox?wait_ms=0&lease_ms=3600001", "`lease_ms` is 3600000 at most"),
        ("/v1/inbox/events?lease_ms=3600001", "`lease_ms` is 3600000 at most"),
        ("/v1/served?method=price&lease_ms=18446744073709551615", "`lease_ms` is 3600000 at most"),
    ] {
        let told = gate.get(path).expect(400);
        assert_eq!(
            (told.code(), &told.json()["error"]["message"]),
            ("bad_request".to_owned(), &json!(most)),
            "{path}"
        );
    }
    let told = gate.post("/v1/inbox/HANDLE/retry", &json!({ "after_ms": 86_400_001 })).expect(400);
    assert_eq!(told.json()["error"]["message"], "`after_ms` is 86400000 at most");
    assert_eq!(gate.get("/v1/inbox?max=256&wait_ms=0").expect(200).json(), json!({ "messages": [] }));
}

#[test]
fn a_stream_of_events_that_ends_gives_back_what_it_has() {
    let world = World::new();
    let gate = world.gateway("shop", &["--anyone"]);
    let sender = Running::start(world.command(&["send", "--json", &gate.peer, "one tea"]));
    let mut events = gate.open("/v1/inbox/events?max=1");
    assert_eq!(head(&mut events).1, 200);
    let first = event(&mut events, "message");
    assert_eq!(first["attempt"], 1);
    drop(events);
    let mut events = gate.open("/v1/inbox/events?max=1");
    let second = event(&mut events, "message");
    assert_eq!((&second["id"], &second["redelivered"]), (&first["id"], &json!(true)));
    // With what it has in hand it gets no more, and the next one as soon as it has answered.
    let other = Running::start(world.command(&["send", "--json", &gate.peer, "three teas"]));
    gate.post(&format!("/v1/inbox/{}/ack", second["handle"].as_str().unwrap()), &json!({})).expect(200);
    let third = event(&mut events, "message");
    assert_eq!(third["text"], "three teas");
    gate.post(&format!("/v1/inbox/{}/ack", third["handle"].as_str().unwrap()), &json!({})).expect(200);
    sender.end().expect(0);
    other.end().expect(0);
}

#[test]
fn a_message_is_rejected_or_put_off() {
    let world = World::new();
    let gate = world.gateway("shop", &["--anyone"]);
    let sender =
        Running::start(world.command(&["send", "--json", "--confirm", "processed", &gate.peer, "no tea"]));
    let first = gate.message("");
    let answer = |handle: &serde_json::Value, word: &str, body| {
        gate.post(&format!("/v1/inbox/{}/{word}", handle.as_str().unwrap()), &body).expect(200)
    };
    answer(&first["handle"], "retry", json!({ "after_ms": 1 }));
    let second = gate.message("");
    assert_eq!(second["attempt"], 2);
    answer(&second["handle"], "reject", json!({ "reason": "we have only tea", "status": 7 }));
    let told = sender.end().expect(4);
    assert!(told.stdout.contains("we have only tea"), "{}", told.stdout);
    assert!(
        world.run(&["dead", "ls", "--as", "shop", "--json"]).expect(0).stdout.contains("we have only tea")
    );
}

#[test]
fn a_body_is_given_as_it_is_on_request() {
    let world = World::new();
    let gate = world.gateway("shop", &["--anyone"]);
    let noise = crate::support::noise(3 << 20, 7);
    let draft = json!({ "to": gate.peer, "base64": base64(&noise), "wait_ms": 0, "tag": "noise" });
    let other = world.gateway("other", &[]);
    other.post("/v1/messages", &draft).expect(202);
    let headers = format!("{}Accept: application/octet-stream\r\n", gate.shown());
    let told = gate.ask("GET", "/v1/inbox?wait_ms=60000", &headers, b"").expect(200);
    assert!(told.body == noise && told.head.contains("exonet-tag: noise\r\n"), "{}", told.head);
    let handle = told.head.lines().find_map(|line| line.strip_prefix("exonet-handle: ")).unwrap();
    gate.post(&format!("/v1/inbox/{handle}/ack"), &json!({})).expect(200);
    gate.ask("GET", "/v1/inbox?wait_ms=0", &headers, b"").expect(204);
}

fn base64(bytes: &[u8]) -> String {
    const SIGNS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let word = three.iter().fold(0, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        for at in 0..4 {
            let sign = SIGNS[(word >> (18 - 6 * at)) as usize & 63];
            text.push(if at <= three.len() { sign as char } else { '=' });
        }
    }
    text
}
