//! Sending.

use serde_json::{Value, json};

use crate::support::{World, arg, until};

#[test]
fn a_message_is_delivered_and_its_outcome_is_the_answer() {
    let world = World::new();
    let gate = world.gateway("shop", &[]);
    let mut till = world.listen(&["--as", "till"]);
    let draft = json!({ "to": till.peer, "text": "pay 10", "tag": "order", "wait_ms": 60_000 });
    let told = gate.post("/v1/messages", &draft).expect(200).json();
    assert_eq!((&told["outcome"], &told["state"]), (&json!("delivered"), &json!("settled")), "{told}");
    assert_eq!(told["receiver_durability"], "process", "{told}");
    let got = till.running.line_of("message");
    assert_eq!((&got["text"], &got["id"]), (&json!("pay 10"), &told["message_id"]), "{got}");
    // Known by its id, until the node ends.
    let path = format!("/v1/messages/{}", told["id"].as_str().unwrap());
    assert_eq!(gate.get(&path).expect(200).json(), told);
    // As it is, with options in the query.
    let path = format!("/v1/messages?to={}&tag=raw&priority=urgent", till.peer);
    let token = gate.shown();
    gate.ask("POST", &path, &token, b"\xff\x00raw").expect(200);
    assert_eq!(till.running.line_of("message")["size"], 5);
    let peers = gate.get("/v1/peers").expect(200).json();
    assert_eq!((&peers["known"], &peers["peers"][0]["connected"]), (&json!(1), &json!(true)), "{peers}");
    let node = gate.get("/v1/node").expect(200).json();
    assert_eq!(node["figures"]["messages_delivered"], 2, "{node}");
}

#[test]
fn a_peer_is_found_by_its_name() {
    let world = World::new();
    let names = format!("file:{}", arg(&world.path("names")));
    let mut till = world.listen(&["--as", "till", "--name", "till", "--names", &names]);
    let gate = world.gateway("shop", &["--names", &names]);
    let draft = json!({ "to": "name:till", "text": "pay 10", "wait_ms": 60_000 });
    assert_eq!(gate.post("/v1/messages", &draft).expect(200).json()["outcome"], "delivered");
    assert_eq!(till.running.line_of("message")["text"], "pay 10");
    let call = |to: &str| gate.post("/v1/calls", &json!({ "to": to, "method": "m", "text": "x" }));
    // `exon listen` serves no methods.
    assert_eq!(call("name:till").expect(502).code(), "no_such_method");
    assert_eq!(call("name:other").expect(400).code(), "no_such_name");
    assert_eq!(call("name:").expect(400).code(), "bad_peer");
    let alone = world.gateway("alone", &[]);
    assert_eq!(alone.post("/v1/messages", &draft).expect(400).code(), "no_name_service");
}

#[test]
fn json_arrives_as_it_is_written_and_no_message_is_empty_by_mistake() {
    let world = World::new();
    let gate = world.gateway("shop", &[]);
    let mut till = world.listen(&["--as", "till"]);
    let post = |fields: &str| {
        let draft = format!(r#"{{"to": "{}", "wait_ms": 60000{fields}}}"#, till.peer);
        let headers = format!("{}Content-Type: application/json\r\n", gate.shown());
        gate.ask("POST", "/v1/messages", &headers, draft.as_bytes())
    };
    for lacking in ["", r#", "text": null"#, r#", "base64": null"#] {
        let told = post(lacking).expect(400).json();
        assert!(told["error"]["message"].as_str().unwrap().contains(r#"`"text": ""`"#), "{told}");
    }
    let values = ["null", r#"{"z": 18446744073709551617,"a":1, "a" : 1e400}"#, r#""""#];
    for value in values {
        post(&format!(r#", "json": {value} "#)).expect(200);
    }
    post(r#", "text": """#).expect(200);
    // What was refused has not been sent.
    let mut next = || till.running.line_of("message")["text"].clone();
    assert_eq!([next(), next(), next(), next()], [values[0], values[1], values[2], ""]);
}

#[test]
fn what_is_wrong_with_a_message_is_said() {
    let world = World::new();
    let gate = world.gateway("shop", &[]);
    let peer = format!("{}@127.0.0.1:9", gate.peer.split('@').next().unwrap());
    for (draft, status, code) in [
        (json!({ "text": "x" }), 400, "bad_request"),
        (json!({ "to": "nobody", "text": "x" }), 400, "bad_peer"),
        (json!({ "to": peer, "text": "x" }), 400, "bad_request"),
        (json!({ "to": peer, "text": "x", "base64": "eA==" }), 400, "bad_request"),
        (json!({ "to": peer, "base64": "?" }), 400, "bad_request"),
        (json!({ "to": peer, "txt": "x" }), 400, "bad_request"),
        (
            json!([peer, "x", null, null, "", "normal", null, "delivered", false, null, null]),
            400,
            "bad_request",
        ),
        (json!({ "to": peer, "text": "x", "id": "a/b" }), 400, "bad_request"),
        (json!({ "to": peer, "text": "x".repeat((16 << 20) + 1) }), 413, "too_large"),
    ] {
        assert_eq!(gate.post("/v1/messages", &draft).expect(status).code(), code);
    }
    // The body of a request that is not JSON is the message, also when it is empty: fields of JSON are refused in the query.
    for field in ["text", "base64", "json"] {
        let path = format!("/v1/messages?to={peer}&{field}=eA");
        let told = gate.ask("POST", &path, &gate.shown(), b"").expect(400);
        assert!(told.json()["error"]["message"].as_str().unwrap().contains("fields of JSON"), "{field}");
    }
    // A reason belongs to a rejection.
    let told = gate.post("/v1/inbox/none/ack", &json!({ "reason": "x" })).expect(400);
    assert!(told.json()["error"]["message"].as_str().unwrap().contains("`reason`"));
    assert_eq!(gate.get("/v1/messages/none").expect(404).code(), "no_such_message");
}

#[test]
fn a_durable_message_is_known_by_its_id_after_kill_9() {
    let world = World::new();
    let mut till = world.listen(&["--as", "till"]);
    let (peer, at) = (till.peer.clone(), till.peer.split('@').nth(1).unwrap().to_owned());
    till.running.kill();
    till.running.wait();
    let draft = json!({ "to": peer, "text": "pay 20", "durable": true, "id": "order-17" });
    let mut gate = world.gateway("shop", &[]);
    let told = gate.post("/v1/messages", &draft).expect(202).json();
    assert!(told["id"] == "order-17" && told["state"] != "settled" && told["number"].is_u64(), "{told}");
    gate.up.kill();
    gate.up.wait();
    let gate = world.gateway("shop", &[]);
    let again = gate.get("/v1/messages/order-17").expect(200).json();
    assert_eq!((&again["number"], &again["size"]), (&told["number"], &json!(6)));
    assert_ne!(again["state"], "settled");
    // The same request sends nothing again, and the same id is not used for something else.
    gate.post("/v1/messages", &draft).expect(202);
    let other = json!({ "to": peer, "text": "pay 2000", "durable": true, "id": "order-17" });
    assert_eq!(gate.post("/v1/messages", &other).expect(409).code(), "id_in_use");
    let mut till = world.listen_at(&at, &["--as", "till"]);
    let told = gate.get("/v1/messages/order-17?wait_ms=60000").expect(200).json();
    assert_eq!(told["outcome"], "delivered", "{told}");
    assert_eq!(till.running.line_of("message")["text"], "pay 20");
    let node = gate.get("/v1/node").expect(200).json();
    assert_eq!(node["figures"]["open_messages"], 0, "{node}");
    // The outcome too.
    drop(gate);
    let gate = world.gateway("shop", &[]);
    assert_eq!(gate.get("/v1/messages/order-17").expect(200).json()["outcome"], "delivered");
    assert_eq!(gate.post("/v1/messages", &draft).expect(202).json()["outcome"], "delivered");
}

#[test]
fn what_is_not_taken_is_an_error_that_says_why() {
    let world = World::new();
    let gate = world.gateway("shop", &[]);
    let deaf = world.serve(&["--as", "deaf", "--echo"]);
    let draft = json!({ "to": deaf.peer, "text": "x", "wait_ms": 60_000 });
    let told = gate.post("/v1/messages", &draft).expect(502);
    assert_eq!(told.code(), "not_delivered");
    assert_eq!(told.json()["error"]["details"]["outcome"], "refused");
}

#[test]
fn outcomes_that_come_late_are_waited_for() {
    let world = World::new();
    let gate = world.gateway("shop", &[]);
    let other = world.gateway("till", &["--anyone"]);
    let draft = json!({ "to": other.peer, "text": "x", "wait_ms": 0 });
    let told = gate.post("/v1/messages", &draft).expect(202).json();
    let id = told["id"].as_str().unwrap();
    let handle = other.message("")["handle"].as_str().unwrap().to_owned();
    until("it has left", || {
        let now: Value = gate.get(&format!("/v1/messages/{id}")).expect(200).json();
        now["state"] == "in_doubt" && now["message_id"].is_string()
    });
    let path = format!("/v1/inbox/{handle}/ack");
    other.post(&path, &json!({})).expect(200);
    let told = gate.get(&format!("/v1/messages/{id}?wait_ms=60000")).expect(200).json();
    assert_eq!(told["outcome"], "delivered");
    assert_eq!(other.post(&path, &json!({})).expect(404).code(), "no_such_handle");
}
