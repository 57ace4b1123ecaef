//! Receiving: a message is taken for good when its client says so, and is given again otherwise.

use serde_json::json;

use super::{event, head};
use crate::support::{Running, World};

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
