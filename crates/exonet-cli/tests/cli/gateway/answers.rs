//! Answers: a message is taken for good and its answer is sent in one step, or neither.

use exonet::{Allow, Node, PeerAddr};
use serde_json::{Value, json};

use super::{Gateway, event, head};
use crate::support::{Running, World};

impl Gateway {
    /// The path of an answer to a message.
    fn answer_to(message: &Value) -> String {
        format!("/v1/inbox/{}/answer", message["handle"].as_str().unwrap())
    }

    /// Fails unless an answer has failed with this status and code; returns whether its client still has the message.
    fn fails(&self, message: &Value, answer: &Value, (status, code): (u16, &str)) -> Value {
        let told = self.post(&Self::answer_to(message), answer).expect(status);
        assert_eq!(told.code(), code);
        told.json()["error"]["details"]["held"].clone()
    }
}

/// More than a tag may have.
fn refused() -> Value {
    json!({ "text": "answer", "tag": "t".repeat(256) })
}

#[test]
fn the_sender_of_a_message_gets_its_answer_and_both_are_delivered() {
    const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let world = World::new();
    let (till, shop) = (world.gateway("till", &[]), world.gateway("shop", &["--anyone"]));
    let ask = |text: &str| {
        let draft = json!({ "to": shop.peer, "text": text, "wait_ms": 0 });
        let told = till.post("/v1/messages", &draft).expect(202).json();
        format!("/v1/messages/{}?wait_ms=60000", told["id"].as_str().unwrap())
    };
    let outcome = |gate: &Gateway, path: &str| gate.get(path).expect(200).json()["outcome"].clone();

    let asked = ask("how much is a tea?");
    let question = shop.message("");
    let answer = json!({ "json": 2.5, "tag": "price", "confirm": "processed" });
    let told = shop.post(&Gateway::answer_to(&question), &answer).expect(200).json();
    assert_eq!((&told["answered"], &told["to"], &told["size"]), (&json!(true), &question["from"], &json!(3)));
    assert_eq!(outcome(&till, &asked), "delivered");
    assert_eq!(shop.post(&Gateway::answer_to(&question), &answer).expect(404).code(), "no_such_handle");
    let got = till.message("");
    assert_eq!((&got["text"], &got["tag"]), (&json!("2.5"), &json!("price")), "{got}");
    assert_eq!(got["from"], shop.peer.split('@').next().unwrap());
    // An answer is a message, which can be answered.
    let path = format!("{}?tag=raw&priority=urgent", Gateway::answer_to(&got));
    let headers = format!("{}Traceparent: {TRACE}\r\n", till.shown());
    till.ask("POST", &path, &headers, b"\xff\x00raw").expect(200);
    let got = shop.message("");
    let own = ["base64", "tag", "priority", "traceparent"].map(|name| got[name].as_str().unwrap());
    assert_eq!(own, ["/wByYXc=", "raw", "urgent", TRACE]);
    let path = format!("/v1/messages/{}?wait_ms=60000", told["id"].as_str().unwrap());
    assert_eq!(outcome(&shop, &path), "processed");
    assert_eq!(shop.fails(&got, &json!({}), (400, "bad_request")), true);
    shop.post(&Gateway::answer_to(&got), &json!({ "text": "" })).expect(200);
    assert_eq!(till.message("")["text"], "");

    // A stream of events gives the next one as soon as this one is answered.
    let mut events = shop.open("/v1/inbox/events?max=1");
    assert_eq!(head(&mut events).1, 200);
    let asked = ["first", "second"].map(ask);
    for text in ["first", "second"] {
        let question = event(&mut events, "message");
        assert_eq!(question["text"], text);
        shop.post(&Gateway::answer_to(&question), &json!({ "text": text })).expect(200);
    }
    assert_eq!(asked.map(|path| outcome(&till, &path)), ["delivered"; 2]);
    let node = shop.get("/v1/node").expect(200).json();
    assert_eq!(node["messages_out"], 0, "{node}");
}

#[test]
fn a_message_whose_answer_is_not_sent_stays_with_its_client() {
    let world = World::new();
    let (till, shop) = (world.gateway("till", &[]), world.gateway("shop", &["--anyone"]));
    let draft = json!({ "to": shop.peer, "text": "question", "wait_ms": 0 });
    let asked = till.post("/v1/messages", &draft).expect(202).json();
    let nothing = json!({ "handle": "nothing" });
    assert_eq!(shop.fails(&nothing, &json!({ "text": "x" }), (404, "no_such_handle")), Value::Null);

    let question = shop.message("");
    for (answer, status, code) in [
        (refused(), 400, "bad_request"),
        (json!({ "text": "x", "to": till.peer }), 400, "bad_request"),
        (json!({ "text": "x", "base64": "eA==" }), 400, "bad_request"),
        (json!({ "text": "x".repeat((16 << 20) + 1) }), 413, "too_large"),
    ] {
        assert_eq!(shop.fails(&question, &answer, (status, code)), true);
    }
    assert_eq!(shop.get("/v1/inbox?wait_ms=0").expect(200).json(), json!({ "messages": [] }));
    // It can still be put off, and what comes then be answered.
    let retry = format!("/v1/inbox/{}/retry", question["handle"].as_str().unwrap());
    shop.post(&retry, &json!({})).expect(200);
    assert_eq!(shop.fails(&question, &json!({ "text": "x" }), (404, "no_such_handle")), Value::Null);
    let again = shop.message("");
    assert_eq!((&again["id"], &again["attempt"]), (&question["id"], &json!(2)));
    assert_eq!(shop.fails(&again, &refused(), (400, "bad_request")), true);
    shop.post(&Gateway::answer_to(&again), &json!({ "text": "in short" })).expect(200);
    assert_eq!(till.message("")["text"], "in short");
    let path = format!("/v1/messages/{}?wait_ms=60000", asked["id"].as_str().unwrap());
    assert_eq!(till.get(&path).expect(200).json()["outcome"], "delivered");
    // Nothing but that answer was sent.
    let node = shop.get("/v1/node").expect(200).json();
    assert_eq!(node["figures"]["messages_sent"], 1, "{node}");
}

#[test]
fn an_answer_that_comes_too_late_is_not_sent() {
    let world = World::new();
    let shop = world.gateway("shop", &["--anyone"]);
    world.run(&["id", "till", "--new"]).expect(0);
    let ask = |text| {
        let args = ["send", "--as", "till", "--durability", "memory", "--json", &shop.peer, text];
        Running::start(world.command(&args))
    };
    let late = json!({ "text": "late" });

    // Its lease is over.
    let mut till = ask("first");
    let first = shop.message("lease_ms=0");
    assert_eq!(shop.fails(&first, &late, (404, "no_such_handle")), Value::Null);
    let again = shop.message("");
    assert_eq!((&again["id"], &again["attempt"]), (&first["id"], &json!(2)));

    // Its sender has died, and knows it no more.
    till.kill();
    till.wait();
    let till = ask("second");
    let second = shop.message("");
    assert_eq!(second["text"], "second");
    assert_eq!(shop.fails(&again, &late, (409, "not_delivered")), false);
    assert_eq!(shop.fails(&again, &late, (404, "no_such_handle")), Value::Null);
    shop.post(&format!("/v1/inbox/{}/ack", second["handle"].as_str().unwrap()), &json!({})).expect(200);
    till.end().expect(0);
    let node = shop.get("/v1/node").expect(200).json();
    assert_eq!((&node["figures"]["messages_sent"], &node["messages_out"]), (&json!(0), &json!(0)), "{node}");
}

#[test]
fn a_message_that_was_answered_does_not_come_again_after_kill_9() {
    let world = World::new();
    let mut shop = world.gateway("shop", &["--anyone"]);
    let peer: PeerAddr = shop.peer.parse().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let node = runtime.block_on(Node::builder(Allow::anyone()).bind("127.0.0.1:0").build()).unwrap();
    drop(runtime.block_on(async { node.peer(&peer).send("question").await }).unwrap());
    let question = shop.message("");
    shop.post(&Gateway::answer_to(&question), &json!({ "text": "answer" })).expect(200);
    shop.up.kill();
    shop.up.wait();
    // Where the node that waits for the answer looks for it.
    let shop = world.gateway_at(shop.peer.split('@').nth(1).unwrap(), "shop", &["--anyone"]);
    let answer = runtime.block_on(async { node.recv().await.unwrap().take().unwrap().body.bytes(100).await });
    assert_eq!(answer.unwrap(), "answer");
    assert_eq!(shop.get("/v1/inbox?wait_ms=0").expect(200).json(), json!({ "messages": [] }));
}
