//! Keys, and whole datagrams under fixed keys.

use serde_json::{Value, json};

use super::*;
use crate::NodeId;
use crate::crypto::{Initiator, OpenKey, Opened, OpeningMac, RetryKey, SealKey, SecretKey, Suite};

fn array<const N: usize>(value: &Value) -> [u8; N] {
    unhex(value).try_into().unwrap()
}

/// The same vector with its results computed again from its inputs.
fn again(v: &Value) -> Value {
    let mut out = v.clone();
    match v["kind"].as_str().unwrap() {
        "id" => {
            let id = SecretKey::from_bytes(array(&v["secret"])).node_id();
            out["id"] = json!(hex(&id.0));
            out["text"] = json!(id.to_string());
        }
        "packet" => {
            let suite = Suite::from_u8(v["suite"].as_u64().unwrap() as u8).unwrap();
            let (number, header) = (v["number"].as_u64().unwrap(), unhex(&v["header"]));
            let mut sealed = [unhex(&v["frames"]), vec![0; TAG]].concat();
            SealKey::new(suite, &array(&v["k"])).seal_in_place(number, &header, &mut sealed).unwrap();
            out["sealed"] = json!(hex(&sealed));
            let opened = OpenKey::new(suite, &array(&v["k"])).open_in_place(number, &header, &mut sealed);
            assert_eq!(opened.map(|frames| hex(frames)).ok().as_deref(), v["frames"].as_str());
        }
        "mac1" => {
            let mac = OpeningMac::new(&NodeId(array(&v["receiver"]))).mac1(&unhex(&v["datagram"]));
            out["mac"] = json!(hex(&mac));
        }
        "retry" => {
            // Only its jar makes a cookie: here it comes from the sealed part.
            let key = RetryKey::new(&NodeId(array(&v["receiver"])));
            let (nonce, mac1) = (array(&v["nonce"]), array(&v["mac1"]));
            let retry = key.open(&nonce, &mac1, &array(&v["sealed"])).unwrap();
            out["time"] = json!(retry.time.0);
            out["sealed"] = json!(hex(&key.seal(&nonce, &retry, &mac1)));
            out["mac2"] = json!(hex(&OpeningMac::mac2(&retry.cookie, &unhex(&v["datagram"]))));
        }
        "handshake" => handshake(v, &mut out),
        other => panic!("{other}"),
    }
    out
}

fn handshake(v: &Value, out: &mut Value) {
    let suite = v["suite"].as_u64().unwrap() as u8;
    let (ours, theirs) =
        (SecretKey::from_bytes(array(&v["initiator"])), SecretKey::from_bytes(array(&v["responder"])));
    let index = |name: &str| ChannelIndex(u32::from_be_bytes(array(&v[name])));
    let header = opening_header(suite, index("initiator_index"));
    let mut initiator =
        Initiator::new(&ours, &theirs.node_id(), &header, array(&v["initiator_seed"])).unwrap();
    let mut noise = [0; 1300];
    let len = initiator.write_opening(&unhex(&v["opening_frames"]), &mut noise).unwrap();
    let mut opening = [&header[..], &noise[..len]].concat();
    opening.extend(OpeningMac::new(&theirs.node_id()).mac1(&opening));
    opening.extend([0; MAC]);
    out["opening"] = json!(hex(&opening));

    let mut payload = [0; 1300];
    let opened =
        Opened::read(&theirs, &header, &noise[..len], array(&v["responder_seed"]), &mut payload).unwrap();
    let header = answer_header(suite, index("initiator_index"), index("responder_index"));
    let mut noise = [0; 1300];
    let (server, len) = opened.answer(&header, &unhex(&v["answer_frames"]), &mut noise).unwrap();
    let mut answer = [&header[..], &noise[..len]].concat();
    answer.extend(OpeningMac::new(&ours.node_id()).mac1(&answer));
    out["answer"] = json!(hex(&answer));
    let (client, _) = initiator.read_answer(&header, &noise[..len], &mut payload).unwrap();

    for (name, keys, to) in [("data", client, "responder_index"), ("data_back", server, "initiator_index")] {
        let number = v[name]["number"].as_u64().unwrap();
        let (header, mut sealed) = (data_header(index(to), number), unhex(&v[name]["frames"]));
        sealed.extend([0; TAG]);
        keys.seal.seal_in_place(number, &header, &mut sealed).unwrap();
        out[name]["datagram"] = json!(hex(&[&header[..], &sealed].concat()));
    }
}

fn fresh() -> Vec<Value> {
    let mut out = vec![
        json!({ "kind": "mac1", "receiver": "07".repeat(32), "datagram": hex(b"an opening") }),
        json!({
            "kind": "retry", "receiver": "07".repeat(32), "nonce": "09".repeat(24), "mac1": "01".repeat(16),
            "sealed": "87c0d9991da3973c07fb4799efd2f276ab8bdc9e4eee9574905ea2475050a93f07ecae5dcafe8243",
            "cookie": "48f940415eb369ce5d1ce06696c9b7d6",
            "datagram": hex(b"an opening, mac1 included"),
        }),
    ];
    for secret in ["a1", "b0", "00", "ff"] {
        out.push(json!({ "kind": "id", "secret": secret.repeat(32) }));
    }
    for suite in [1, 2] {
        for (number, frames) in [(0, ""), (0x0102_0304_0506_0708_u64, "65786f6e6574")] {
            let header = hex(b"header");
            out.push(json!({
                "kind": "packet", "suite": suite, "k": "42".repeat(32), "number": number, "header": header, "frames": frames,
            }));
        }
        let padded = |name: &str| format!("{:0<2128}", hex(&super::super::document::example(name)));
        out.push(json!({
            "kind": "handshake", "suite": suite, "initiator": "a1".repeat(32), "responder": "b0".repeat(32),
            "initiator_seed": "51".repeat(32), "responder_seed": "52".repeat(32),
            "initiator_index": "a1b2c3d4", "responder_index": "0badf00d",
            "opening_frames": padded("opening-payload"),
            "answer_frames": hex(&super::super::document::example("answer-payload")),
            "data": { "number": 0, "frames": hex(&super::super::document::example("first-data-payload")) },
            "data_back": { "number": 0x1_0000_0001_u64, "frames": "0100" },
        }));
    }
    out.iter().map(again).collect()
}

#[test]
fn the_vectors_of_datagrams() {
    let vectors = vectors("datagrams", fresh);
    for v in &vectors {
        assert_eq!(v, &again(v), "{v}");
    }
    for kind in ["id", "packet", "mac1", "retry", "handshake"] {
        assert!(vectors.iter().any(|v| v["kind"] == kind), "{kind}");
    }
}
