//! The page of `--ui`, and what it is fed with.

use serde_json::json;

use super::{event, head};
use crate::support::World;

#[test]
fn the_page_is_whole_and_is_fed_with_peers_and_what_is_in_doubt() {
    let world = World::new();
    let plain = world.gateway("plain", &[]);
    assert_eq!(plain.ask("GET", "/", "", b"").expect(404).code(), "no_page");
    assert_eq!(plain.get("/v1/watch").expect(404).code(), "no_page");
    let gate = world.gateway("shop", &["--ui"]);
    let told = gate.ask("GET", "/", "", b"").expect(200);
    assert!(told.head.contains("content-security-policy: default-src 'none'"), "{}", told.head);
    assert!(told.body.starts_with(b"<!doctype html>"));
    assert_eq!(gate.ask("GET", "/v1/watch", "", b"").expect(401).code(), "unauthorized");
    let mut pictures = gate.open("/v1/watch");
    assert_eq!(head(&mut pictures).1, 200);
    let first = event(&mut pictures, "picture");
    assert_eq!(
        (&first["identity"], &first["known"], &first["open"]),
        (&json!("shop"), &json!(0), &json!([]))
    );
    // A gateway whose client does not acknowledge: the message stays in doubt, and the picture says why.
    let till = world.gateway("till", &["--anyone"]);
    let draft = json!({ "to": till.peer, "text": "pay", "tag": "order", "wait_ms": 0 });
    gate.post("/v1/messages", &draft).expect(202);
    let picture = loop {
        let picture = event(&mut pictures, "picture");
        if picture["open"][0]["state"] == "in doubt" && picture["peers"][0]["connected"] == true {
            break picture;
        }
    };
    let open = &picture["open"][0];
    assert!(open["why"].as_str().unwrap().contains("application has not taken it yet"), "{open}");
    assert_eq!((&open["tag"], &open["size"]), (&json!("order"), &json!(3)));
    let peer = &picture["peers"][0];
    assert_eq!((&peer["id"], &peer["messages_in_doubt"]), (&open["peer"], &json!(1)));
    assert!(peer["address"].is_string() && peer["rtt_seconds"].as_f64().unwrap() > 0.0, "{peer}");
    let handle = till.message("")["handle"].as_str().unwrap().to_owned();
    till.post(&format!("/v1/inbox/{handle}/ack"), &json!({})).expect(200);
    while event(&mut pictures, "picture")["figures"]["messages_delivered"] != 1 {}
}
