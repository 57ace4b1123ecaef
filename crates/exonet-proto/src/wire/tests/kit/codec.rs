//! Frames and heads.

use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use super::*;

/// How many values of each strategy: enough for each form, and few enough for a reader of the file.
const EACH: usize = 160;

/// Payloads that the page calls malformed, and similar ones that it does not. Under the bases 0 and 0.
const NAMED: &[(&str, &str)] = &[
    ("PADDING before and behind PING", "000100"),
    ("a type that is not assigned", "0107"),
    ("REVOKE that is cut off", "16"),
    ("an ignorable type", "8002aabb01"),
    ("an ignorable type that ends beyond the payload", "8003aabb"),
    ("an ignorable type for experiments", "b000"),
    ("a type above the ignorable ones", "c000"),
    ("a varint in a longer form", "034005"),
    ("a varint that is cut off", "0340"),
    ("ACK with a reserved flag", "020205000000000000"),
    ("ACK with counts of ECN", "0201050a0b0001010203"),
    ("ACK whose first range is below 0", "02000500000006"),
    ("ACK whose first range begins at 0", "02000500000005"),
    ("ACK whose further range is below 0", "020005000001010202"),
    ("ACK whose further range begins at 0", "020005000001010200"),
    ("ACK with an arrival of 2^30", "02000500c0000000400000000000"),
    ("ACK with an arrival below 2^30", "02000500bfffffff0000"),
    ("PATH_CHALLENGE that is cut off", "0401020304050607"),
    ("empty PARAMS", "0600"),
    ("PARAMS that come twice", "06000600"),
    ("PARAMS with an unknown id", "0603210100"),
    ("PARAMS with a durability", "0603150102"),
    ("PARAMS with an id twice", "0606010100010100"),
    ("PARAMS with a value that a varint does not fill", "06040102000001"),
    ("PARAMS with a boot_id of 7 bytes", "0609030701020304050607"),
    ("PARAMS with a max_ack_delay of 2^24", "0606020481000000"),
    ("PARAMS with a max_datagram of 1,199", "0604050244af"),
    ("PARAMS with a max_datagram of 1,200", "0604050244b0"),
    ("PARAMS with a pool_window below 65,536", "0604060244b0"),
    ("PARAMS with a pool_window below 65,536, and a max_message as small", "0608060244b0090244b0"),
    ("ASK of nothing", "10050005"),
    (
        "EARLY with 64 messages",
        "180101400161016101610161016101610161016101610161016101610161016101610161016101610161016101610161016101610161016101610161016101610161016101610161016101610161016101610161016101610161016101610161016101610161016101610161016101610161016101610161016101610161016101610161",
    ),
    ("ASK beyond the last number", "10fffffffffffffffe0200"),
    ("ASK up to the last number", "10fffffffffffffffe0100"),
    ("ASK with a stamp of 0", "1701010100"),
    ("ASK with a stamp", "1701010105"),
    ("STATE with a reserved flag", "11200000"),
    ("STATE final and not live", "11040000"),
    ("STATE of a part and not live", "11100000"),
    ("STATE of a part", "11110000050203010102"),
    ("STATE with an end and no stamp", "110800000001"),
    ("STATE with a stamp of 0", "1102000000"),
    ("STATE with an end of 0", "110a0000010001"),
    ("STATE with an end", "110a00000107"),
    ("STATE with a range of no slots", "11010000050005010000"),
    ("STATE with a range that ends at up", "11010000050005010104"),
    ("STATE with a range that ends beyond up", "11010000050005010105"),
    ("STATE whose ranges touch", "110100000500050200010001"),
    ("HAVE without ranges", "150102030400"),
    (
        "HAVE with 33 ranges",
        "150102030421000100010001000100010001000100010001000100010001000100010001000100010001000100010001000100010001000100010001000100010001000100010001",
    ),
    ("HAVE with a range of no bytes", "1501020304010000"),
    ("EARLY with a stamp of 0", "180001010161"),
    ("EARLY of no messages", "18010100"),
    ("EARLY with an empty message", "1801010100"),
    ("EARLY with two messages", "1801010201610162"),
    ("EARLY at the last slot", "1801ffffffffffffffff010161"),
    ("EARLY beyond the last slot", "1801ffffffffffffffff0201610162"),
    (
        "EARLY with 63 messages",
        "1801013f016101610161016101610161016101610161016101610161016101610161016101610161016101610161016101610161016101610161016101610161016101610161016101610161016101610161016101610161016101610161016101610161016101610161016101610161016101610161016101610161016101610161",
    ),
    ("REPLY with a status of 2^32", "1a01c00000010000000000"),
    ("REPLY with a status of 2^32 - 1", "1a01c0000000ffffffff00"),
    ("VERDICT with a word of 3", "1f010103000000"),
    ("VERDICT with a reason that is not UTF-8", "1f010102000101ff"),
    ("VERDICT with attempts of 2^32", "1f01010200c00000010000000000"),
    ("MESSAGES without a message", "200101"),
    ("MESSAGES that begins with its end", "20010100"),
    ("MESSAGES with a length, and a 0 as the last byte", "2201010301610001"),
    ("MESSAGES with a length, and a 0 before the last byte", "220101040161000001"),
    ("MESSAGES without a length, and PING behind its 0", "20010101610001"),
    ("MESSAGES whose first message ends before its offset", "210101050561"),
    ("MESSAGES, unmeasured, of no bytes", "280101"),
    ("MESSAGES, unmeasured, the end", "28010161"),
    ("MESSAGES of both unmeasured kinds", "2c01010161"),
    ("REVOKE_STREAM of two messages", "8109010902016100030103"),
    ("REVOKE_STREAM of the message that opens the stream", "8109010901016100000000"),
    (
        "REVOKE_STREAM of 1,024 messages, of a name of 255 bytes",
        "8141090109440040ff61616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616100030103",
    ),
    ("REVOKE_STREAM up to the last number", "811001fffffffffffffffe01016100030103"),
    ("REVOKE_STREAM with bytes of a later version behind its place", "810b0109020161000301030707"),
    ("REVOKE_STREAM of no messages", "8109010900016100030103"),
    ("REVOKE_STREAM of 1,025 messages", "810a01094401016100030103"),
    ("REVOKE_STREAM beyond the last number", "811001fffffffffffffffe02016100030103"),
    ("REVOKE_STREAM without a name", "81080109020000030103"),
    (
        "REVOKE_STREAM of a name of 256 bytes",
        "81410901090241006161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616100030103",
    ),
    ("REVOKE_STREAM of a name that ends beyond the frame", "81050109020261"),
    ("REVOKE_STREAM of a message that ends its stream", "8109010902016101030103"),
    ("REVOKE_STREAM of a reset", "8109010902016103030103"),
    ("REVOKE_STREAM of a message that the next one goes on with", "8109010902016104030103"),
    ("REVOKE_STREAM of a place with a reserved flag", "8109010902016108030103"),
    ("REVOKE_STREAM with an age above its slot", "81090109020161000a0103"),
    ("REVOKE_STREAM with a link above its slot", "810901090201610003010a"),
    ("REVOKE_STREAM of a place with more before it than there are slots", "8109010902016100030403"),
    ("REVOKE_STREAM without a place", "81050109020161"),
    ("REVOKE_STREAM that ends within its place", "81080109020161000301"),
    ("REVOKE_STREAM that ends beyond the payload", "81090109020161000301"),
];

fn frame(spec: &Spec) -> Vec<Value> {
    let pairs = |ranges: &[Range<u64>]| ranges.iter().map(|x| json!([x.start, x.end])).collect::<Vec<_>>();
    let piece = |r: &Incarnation, s: u64, offset: u64, total: Option<u64>, data: &[u8], last: bool| json!({ "frame": "PIECE", "r": r.0, "s": s, "offset": offset, "total": total, "data": hex(data), "last": last });
    let one = match spec {
        Spec::Ping => json!({ "frame": "PING" }),
        Spec::Ack { delay, arrival, ranges, .. } => {
            let ranges: Vec<_> = ranges.iter().map(|x| json!([x.start, x.end - 1])).collect();
            let (delay, arrival) = (delay.as_micros() as u64, arrival.as_micros() as u64);
            json!({ "frame": "ACK", "delay": delay, "arrival": arrival, "ranges": ranges })
        }
        Spec::Close(code) => json!({ "frame": "CLOSE", "code": code }),
        Spec::Challenge(data) => json!({ "frame": "PATH_CHALLENGE", "data": hex(data) }),
        Spec::Response(data) => json!({ "frame": "PATH_RESPONSE", "data": hex(data) }),
        Spec::Params(p) => json!({
            "frame": "PARAMS", "base": p.base, "max_ack_delay": p.max_ack_delay.as_micros() as u64,
            "boot_id": hex(&p.boot_id), "time": p.time.0, "max_datagram": p.max_datagram,
            "pool_window": p.pool_window, "body_window": p.body_window, "max_bodies": p.max_bodies,
            "max_message": p.max_message, "idle_timeout": p.idle_timeout.as_millis() as u64,
            "suites": p.suites, "reset_token": p.reset.map(|token| hex(&token.0)), "takes": p.takes,
            "lane_window": p.lane_window, "lane_pool": p.lane_pool, "lanes": p.lanes,
            "generation": p.stay.generation.0, "met": p.met.generation.0,
            "lineage": p.stay.lineage.0, "met_lineage": p.met.lineage.0, "durability": p.durability,
        }),
        Spec::Ask(Ask { s, n, l, ts }) => json!({ "frame": "ASK", "s": s.0, "n": n, "l": l.0, "ts": ts.0 }),
        Spec::Gone { b, r, taken } => json!({
            "frame": "STATE", "b": b.0, "r": r.0, "live": false,
            "ts": taken.map(|taken| taken.0.0), "end": taken.map_or(0, |taken| taken.1.0),
        }),
        Spec::Live { b, r, taken, claim, free } => json!({
            "frame": "STATE", "b": b.0, "r": r.0, "live": true, "final": claim.closed, "part": claim.part, "hi": claim.hi.0,
            "lo": claim.lo.0, "up": claim.up.0, "free": pairs(free),
            "ts": taken.map(|taken| taken.0.0), "end": taken.map_or(0, |taken| taken.1.0),
        }),
        Spec::Messages { r, s, entries } => {
            let whole = |(s, entry): (u64, &Vec<u8>)| piece(r, s, 0, Some(entry.len() as u64), entry, false);
            return (s.0..).zip(entries).map(whole).collect();
        }
        Spec::Fragment { r, s, total, offset, data } => piece(r, s.0, *offset, Some(*total), data, false),
        Spec::Open { r, s, offset, data, ends } => piece(r, s.0, *offset, None, data, *ends),
        Spec::Revoke { r, s, n } => json!({ "frame": "REVOKE", "r": r.0, "s": s.0, "n": n }),
        Spec::RevokeStream { r, s, n, name, mark } => json!({
            "frame": "REVOKE_STREAM", "r": r.0, "s": s.0, "n": n, "name": hex(name),
            "age": mark.age, "place": mark.n, "link": mark.link,
        }),
        Spec::Withdrawn { r, s, n } => json!({ "frame": "WITHDRAWN", "r": r.0, "s": s.0, "n": n }),
        Spec::Token { r, s } => json!({ "frame": "TOKEN", "r": r.0, "s": s.0 }),
        Spec::Have { r, s, prefix, limit, ranges } => json!({
            "frame": "HAVE", "r": r.0, "s": s.0, "prefix": prefix, "limit": limit, "ranges": pairs(ranges),
        }),
        Spec::Early { ts, s, entries } => json!({
            "frame": "EARLY", "ts": ts.0, "s": s.0,
            "messages": entries.iter().map(|entry| hex(entry)).collect::<Vec<_>>(),
        }),
        Spec::Ahead { ts, time } => json!({ "frame": "STAMP_REJECTED", "ts": ts.0, "time": time.0 }),
        Spec::Reply { s, status, body } => {
            json!({ "frame": "REPLY", "s": s.0, "status": status, "body": hex(body) })
        }
        Spec::ReplyAck(s) => json!({ "frame": "REPLY_ACK", "s": s.0 }),
        Spec::Probe(s) => json!({ "frame": "PROBE", "s": s.0 }),
        Spec::NoCall(s) => json!({ "frame": "NOCALL", "s": s.0 }),
        Spec::Computing(s) => json!({ "frame": "COMPUTING", "s": s.0 }),
        Spec::Verdict { r, s, word, status, attempts, reason } => json!({
            "frame": "VERDICT", "r": r.0, "s": s.0, "word": word, "status": status, "attempts": attempts,
            "reason": reason,
        }),
        Spec::Unknown { kind, .. } => json!({ "frame": "IGNORED", "kind": kind }),
    };
    vec![one]
}

/// The result of reading a payload: the frames before the first malformed one, and whether there is one.
fn reading(payload: &[u8], bases: Bases) -> (Vec<Value>, bool) {
    let mut frames = Vec::new();
    for read in Frames::new(payload, bases) {
        let Ok(read) = read else { return (frames, true) };
        frames.extend(own(&read).iter().flat_map(frame));
    }
    (frames, false)
}

fn vector(name: &str, bases: Bases, payload: &[u8]) -> Value {
    let (frames, malformed) = reading(payload, bases);
    json!({
        "name": name, "sender_base": bases.sender, "receiver_base": bases.receiver, "payload": hex(payload),
        "frames": frames, "malformed": malformed,
    })
}

/// Frames of every kind under every kind of base, and altered bytes of them.
fn fresh() -> Vec<Value> {
    let mut out: Vec<_> =
        NAMED.iter().map(|(name, text)| vector(name, NO_BASES, &unhex(&json!(text)))).collect();
    let mut runner = TestRunner::deterministic();
    let drawn = (spec(), bases(), any::<prop::sample::Index>(), any::<u8>());
    for _ in 0..EACH {
        let (spec, bases, place, byte) = drawn.new_tree(&mut runner).unwrap().current();
        let mut bytes = spec.bytes(bases);
        if bytes.len() > 600 {
            continue;
        }
        out.push(vector("drawn", bases, &bytes));
        let place = place.index(bytes.len());
        bytes[place] ^= byte;
        out.push(vector("changed", bases, &bytes));
        bytes.truncate(place);
        out.push(vector("cut", bases, &bytes));
    }
    out
}

#[test]
fn the_vectors_of_frames() {
    let vectors = vectors("frames", fresh);
    for v in &vectors {
        let bases = Bases {
            sender: v["sender_base"].as_u64().unwrap(),
            receiver: v["receiver_base"].as_u64().unwrap(),
        };
        let (frames, malformed) = reading(&unhex(&v["payload"]), bases);
        assert_eq!((&v["frames"], &v["malformed"]), (&json!(frames), &json!(malformed)), "{v}");
    }
    let count = |what: &str| vectors.iter().filter(|v| v["frames"].to_string().contains(what)).count();
    for kind in [
        "PING",
        "ACK",
        "PARAMS",
        "ASK",
        "STATE",
        "TOKEN",
        "HAVE",
        "EARLY",
        "REPLY",
        "VERDICT",
        "PIECE",
        "REVOKE",
        "REVOKE_STREAM",
    ] {
        assert!(count(&format!("\"{kind}\"")) >= 3, "{kind}");
    }
    assert!(vectors.iter().filter(|v| v["malformed"] == true).count() >= 50);
}

fn head(message: &[u8]) -> Value {
    let Ok((head, at)) = Head::parse(message) else { return Value::Null };
    let Ok(role) = Role::of(&head) else { return Value::Null };
    let place = head.stream.map(|mark| {
        json!({
            "age": mark.age, "n": mark.n, "link": mark.link, "last": mark.end != StreamEnd::Open,
            "reset": mark.end == StreamEnd::Reset, "more": mark.more,
        })
    });
    let reply = if let Role::Reply { s, status } = role { Some((s.0, status)) } else { None };
    let trace = Traceparent::of(head.extensions).map(|trace| hex(&trace.to_bytes()));
    json!({
        "priority": head.priority.get(), "confirm": head.confirm, "tag": hex(head.tag), "place": place,
        "call": role == Role::Call, "reply": reply, "trace": trace, "body": hex(&message[at..]),
    })
}

/// Heads of every kind, and of no kind.
const HEADS: &[(&str, &str)] = &[
    ("a body alone", "016869"),
    ("no body", "01"),
    ("nothing at all", ""),
    ("bulk", "036869"),
    ("confirm", "216869"),
    ("a reserved bit", "416869"),
    ("a tag", "050174686921"),
    ("a tag of no bytes", "05006869"),
    ("a tag that is cut off", "05057468"),
    ("a call", "0d046563686f02010070696e67"),
    ("a call with a value", "0903010161"),
    ("a reply", "090b0209c0000001000000120768"),
    ("a reply with more in its value", "0906020403070168"),
    ("a reply with a status of 2^32", "090b020903c0000001000000006869"),
    ("a call that is a reply", "090601000202030768"),
    ("an extension that is not known", "0904210261616869"),
    ("extensions of no bytes", "09006869"),
    ("an extension that ends beyond the extensions", "0903210361616869"),
    ("a call twice: the first counts", "09050100010161"),
    ("a trace", "091b03194bf92f3577b34da6a3ce929d0e0e473600f067aa0ba902b7016869"),
    ("a call of a trace", "0d046563686f1d010003194bf92f3577b34da6a3ce929d0e0e473600f067aa0ba902b70070"),
    ("a trace of a stream", "1d036c6f67000301031b03194bf92f3577b34da6a3ce929d0e0e473600f067aa0ba902b701"),
    ("a trace of no id says nothing", "091b03190000000000000000000000000000000000f067aa0ba902b7016869"),
    (
        "a trace without a parent says nothing",
        "091b03194bf92f3577b34da6a3ce929d0e0e47360000000000000000016869",
    ),
    (
        "a trace that is too short says nothing",
        "091a03184bf92f3577b34da6a3ce929d0e0e473600f067aa0ba902b76869",
    ),
    (
        "a trace that is too long says nothing",
        "091c031a4bf92f3577b34da6a3ce929d0e0e473600f067aa0ba902b701026869",
    ),
    ("the first of a stream", "15036c6f6700000000"),
    ("a later one", "15036c6f6700030103"),
    ("the last", "15036c6f6701040201"),
    ("a reset without a last", "15036c6f6702040201"),
    ("a place with more before it than there are slots", "15036c6f6700010200"),
    ("the first of a stream, which has come back and leaves from another slot", "15036c6f6700030000"),
    ("a place without a tag", "1100000000"),
];

#[test]
fn the_vectors_of_heads() {
    let vectors = vectors("heads", || {
        let vector = |(name, text): &(&str, &str)| json!({ "name": name, "message": text, "head": head(&unhex(&json!(text))) });
        HEADS.iter().map(vector).collect()
    });
    for v in &vectors {
        assert_eq!(v["head"], head(&unhex(&v["message"])), "{v}");
    }
    assert!(vectors.len() >= HEADS.len() && vectors.iter().any(|v| v["head"].is_null()));
}
