//! Calls, from a client of one gateway to a client of another.

use serde_json::json;

use super::read;
use crate::support::{World, until};

#[test]
fn a_call_is_answered_by_a_client_of_another_gateway() {
    let world = World::new();
    let (near, far) = (world.gateway("near", &[]), world.gateway("far", &["--anyone"]));
    let call = json!({ "to": far.peer, "method": "price", "text": "tea", "deadline_ms": 60_000 });
    let long = json!({ "to": far.peer, "method": "price", "deadline_ms": 3_600_001 });
    assert_eq!(near.post("/v1/calls", &long).expect(400).code(), "bad_request");
    // No client is there: it certainly does not run.
    let told = near.post("/v1/calls", &call).expect(502);
    assert_eq!(
        (told.code().as_str(), &told.json()["error"]["details"]["has_not_run"]),
        ("no_such_method", &json!(true))
    );
    let ask = |lease: u64| {
        let mut asked = far.open(&format!("/v1/served?method=price&wait_ms=60000&lease_ms={lease}"));
        until("the method is served", || far.get("/v1/node").json()["methods"] == json!(["price"]));
        let mut called = near.begin_post("/v1/calls", &call);
        let told = read(&mut asked).expect(200).json();
        let got = told["calls"][0].clone();
        assert_eq!((&got["text"], &got["method"]), (&json!("tea"), &json!("price")), "{told}");
        let path = format!("/v1/served/{}", got["handle"].as_str().unwrap());
        if lease > 0 {
            let answer =
                if lease > 50_000 { json!({ "json": 2.5 }) } else { json!({ "text": "none", "status": 3 }) };
            far.post(&path, &answer).expect(200);
        }
        let told = read(&mut called);
        assert_eq!(far.post(&path, &json!({})).expect(404).code(), "no_such_handle");
        told
    };
    let told = ask(60_000).expect(200).json();
    assert_eq!((&told["outcome"], &told["text"]), (&json!("reply"), &json!("2.5")), "{told}");
    let told = ask(50_000).expect(502);
    let details = told.json()["error"]["details"].clone();
    assert_eq!(
        (told.code().as_str(), &details["status"], &details["text"]),
        ("call_failed", &json!(3), &json!("none"))
    );
    // One that is not answered in time is not handed out again.
    let told = ask(0).expect(502);
    assert_eq!(
        (told.code().as_str(), &told.json()["error"]["details"]["has_not_run"]),
        ("call_failed", &json!(false))
    );
    assert_eq!(far.get("/v1/served?method=price&wait_ms=0").expect(200).json(), json!({ "calls": [] }));
}

#[test]
fn a_call_and_its_reply_are_given_as_they_are_on_request() {
    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let world = World::new();
    let (near, far) = (world.gateway("near", &[]), world.gateway("far", &["--anyone"]));
    let raw = |gate: &super::Gateway| format!("{}Accept: application/octet-stream\r\n", gate.shown());
    far.ask("GET", "/v1/served?method=sum&wait_ms=0", &raw(&far), b"").expect(204);
    let path = format!("/v1/calls?to={}&method=sum&deadline_ms=60000", far.peer);
    let headers = format!("{}Traceparent: {PARENT}\r\n", raw(&near));
    let mut called = near.begin("POST", &path, &headers, b"\xff\x01");
    let got =
        far.ask("GET", "/v1/served?method=sum&wait_ms=60000&lease_ms=60000", &raw(&far), b"").expect(200);
    assert!(
        got.body == b"\xff\x01" && got.head.contains(&format!("traceparent: {PARENT}\r\n")),
        "{}",
        got.head
    );
    let handle = got.head.lines().find_map(|line| line.strip_prefix("exonet-handle: ")).unwrap();
    far.ask("POST", &format!("/v1/served/{handle}?status=0"), &far.shown(), b"\xfe").expect(200);
    let told = read(&mut called).expect(200);
    super::described::check("POST", "/v1/calls", &told);
    assert!(told.body == b"\xfe" && told.head.contains("exonet-id: "), "{}", told.head);
}

#[test]
fn a_trace_goes_on_through_gateways() {
    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let world = World::new();
    let (near, far) = (world.gateway("near", &[]), world.gateway("far", &["--anyone"]));
    let post = |path: &str, body: &serde_json::Value, parent: &str| {
        let headers = format!("{}Content-Type: application/json\r\nTraceparent: {parent}\r\n", near.shown());
        near.begin("POST", path, &headers, body.to_string().as_bytes())
    };
    for (parent, told) in [(PARENT, json!(PARENT)), ("00-0-0-0", json!(null))] {
        read(&mut post("/v1/messages", &json!({ "to": far.peer, "text": "x", "durable": true }), parent))
            .expect(202);
        let message = far.message("lease_ms=60000");
        assert_eq!(message["traceparent"], told, "{message}");
        let mut asked = far.open("/v1/served?method=price&wait_ms=60000&lease_ms=60000");
        until("the method is served", || far.get("/v1/node").json()["methods"] == json!(["price"]));
        let call = json!({ "to": far.peer, "method": "price", "deadline_ms": 60_000 });
        let mut called = post("/v1/calls", &call, parent);
        let got = read(&mut asked).expect(200).json()["calls"][0].clone();
        assert_eq!(got["traceparent"], told, "{got}");
        far.post(&format!("/v1/served/{}", got["handle"].as_str().unwrap()), &json!({})).expect(200);
        read(&mut called).expect(200);
    }
}
