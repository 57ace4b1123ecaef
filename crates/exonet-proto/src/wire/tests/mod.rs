//! Tests of the formats. Frames are compared in an owned form, [`Spec`], which knows how to write itself.

#![allow(clippy::cast_possible_truncation, clippy::single_range_in_vec_init)]

mod acks;
mod datagrams;
mod document;
mod frames;
mod heads;
mod hostile;
mod kit;
mod messages;
mod rules;
mod vectors;

use core::ops::Range;
use core::time::Duration;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::*;
use crate::{Incarnation, MAX_NUMBER, Slot, Stamp, Wall};

/// A frame that owns its contents.
#[derive(Clone, Debug, PartialEq)]
enum Spec {
    Ping,
    Ack { delay: Duration, arrival: Duration, ecn: Option<Ecn>, ranges: Vec<Range<u64>> },
    Close(u64),
    Challenge([u8; 8]),
    Response([u8; 8]),
    Params(Params),
    Ask(Ask),
    Gone { b: Incarnation, r: Incarnation, taken: Option<(Stamp, Slot)> },
    Live { b: Incarnation, r: Incarnation, taken: Option<(Stamp, Slot)>, claim: Claim, free: Vec<Range<u64>> },
    Messages { r: Incarnation, s: Slot, entries: Vec<Vec<u8>> },
    Fragment { r: Incarnation, s: Slot, total: u64, offset: u64, data: Vec<u8> },
    Open { r: Incarnation, s: Slot, offset: u64, data: Vec<u8>, ends: bool },
    Token { r: Incarnation, s: Slot },
    Revoke { r: Incarnation, s: Slot, n: u64 },
    RevokeStream { r: Incarnation, s: Slot, n: u64, name: Vec<u8>, mark: StreamMark },
    Withdrawn { r: Incarnation, s: Slot, n: u64 },
    Have { r: Incarnation, s: Slot, prefix: u64, limit: u64, ranges: Vec<Range<u64>> },
    Early { ts: Stamp, s: Slot, entries: Vec<Vec<u8>> },
    Ahead { ts: Stamp, time: Wall },
    Reply { s: Slot, status: u32, body: Vec<u8> },
    ReplyAck(Slot),
    Probe(Slot),
    NoCall(Slot),
    Computing(Slot),
    Verdict { r: Incarnation, s: Slot, word: u8, status: u32, attempts: u32, reason: String },
    Unknown { kind: u8, body: Vec<u8> },
}

impl Spec {
    /// Writes the whole frame; `false` if it does not fit.
    fn write(&self, writer: &mut Writer<'_>) -> bool {
        match self {
            Self::Ping => writer.ping(),
            Self::Ack { delay, arrival, ecn, ranges } => {
                writer.ack(*delay, *arrival, *ecn, ranges.clone()) == Some(ranges.len())
            }
            Self::Close(code) => writer.close(*code),
            Self::Challenge(data) => writer.path_challenge(*data),
            Self::Response(data) => writer.path_response(*data),
            Self::Params(params) => writer.params(params),
            Self::Ask(ask) => writer.ask(*ask),
            Self::Gone { b, r, taken } => writer.state_gone(*b, *r, *taken),
            Self::Live { b, r, taken, claim, free } => {
                writer.state_live(*b, *r, *taken, *claim, free.clone(), u16::MAX) == Some(claim.up)
            }
            Self::Messages { r, s, entries } => {
                let Some(mut messages) = writer.messages(*r, *s) else {
                    return false;
                };
                entries.iter().all(|entry| messages.push(&entry[..1], &entry[1..]))
            }
            Self::Fragment { r, s, total, offset, data } => {
                let (first, second) = data.split_at(data.len() / 3);
                writer.part(*r, *s, *total, *offset, [first, second]) == data.len()
            }
            Self::Open { r, s, offset, data, ends } => {
                let (first, second) = data.split_at(data.len() / 3);
                let written = writer.open_part(*r, *s, *offset, [first, second], *ends);
                written == data.len() + usize::from(*ends)
            }
            Self::Token { r, s } => writer.token(*r, *s),
            Self::Revoke { r, s, n } => writer.revoke(*r, *s, *n),
            Self::RevokeStream { r, s, n, name, mark } => {
                writer.revoke_stream(RevokeStream { r: *r, s: *s, n: *n, name, mark: *mark })
            }
            Self::Withdrawn { r, s, n } => writer.withdrawn(*r, *s, *n),
            Self::Have { r, s, prefix, limit, ranges } => {
                writer.have(*r, *s, *prefix, *limit, ranges.clone())
            }
            Self::Early { ts, s, entries } => {
                let messages = writer.early(*ts, *s);
                messages.is_some_and(|mut m| entries.iter().all(|entry| m.push(&entry[..1], &entry[1..])))
            }
            Self::Ahead { ts, time } => writer.stamp_rejected(*ts, *time),
            Self::Reply { s, status, body } => writer.reply(Reply { s: *s, status: *status, body }),
            Self::ReplyAck(s) => writer.reply_ack(*s),
            Self::Probe(s) => writer.probe(*s),
            Self::NoCall(s) => writer.no_call(*s),
            Self::Computing(s) => writer.computing(*s),
            Self::Verdict { r, s, word, status, attempts, reason } => {
                let (r, s, word, status, attempts) = (*r, *s, *word, *status, *attempts);
                writer.verdict(Verdict { r, s, word, status, attempts, reason })
            }
            Self::Unknown { .. } => false,
        }
    }

    fn bytes(&self, bases: Bases) -> Vec<u8> {
        let mut buf = vec![0xee; 64 * 1024];
        let mut writer = Writer::new(&mut buf, bases);
        assert!(self.write(&mut writer), "{self:?}");
        writer.written().to_vec()
    }
}

/// Takes everything that a frame lends: of MESSAGES each part, and the whole messages together.
fn own(frame: &Frame<'_>) -> Vec<Spec> {
    let Frame::Messages(Messages { r, first, whole, last }) = *frame else {
        return vec![own_other(frame)];
    };
    let part = |Part { s, total, offset, data, ends }| {
        let data = data.to_vec();
        match total {
            Some(total) => {
                assert_eq!(ends, offset + data.len() as u64 == total);
                Spec::Fragment { r, s, total, offset, data }
            }
            None => Spec::Open { r, s, offset, data, ends },
        }
    };
    let slots: Vec<_> = whole.map(|(s, _)| s.0).collect();
    assert!(slots.len() == whole.len() && slots.iter().copied().eq(whole.slots()));
    let entries: Vec<_> = whole.map(|(_, message)| message.to_vec()).collect();
    let s = Slot(whole.slots().start);
    let whole = (!entries.is_empty()).then_some(Spec::Messages { r, s, entries });
    first.map(part).into_iter().chain(whole).chain(last.map(part)).collect()
}

fn own_other(frame: &Frame<'_>) -> Spec {
    match *frame {
        Frame::Ping => Spec::Ping,
        Frame::Ack(Ack { largest, delay, arrival, ecn, ranges }) => {
            let ranges: Vec<_> = ranges.collect();
            assert_eq!(ranges[0].end, largest + 1);
            Spec::Ack { delay, arrival, ecn, ranges }
        }
        Frame::Close { code } => Spec::Close(code),
        Frame::PathChallenge(data) => Spec::Challenge(data),
        Frame::PathResponse(data) => Spec::Response(data),
        Frame::Params(params) => Spec::Params(params),
        Frame::Ask(ask) => Spec::Ask(ask),
        Frame::State(State { b, r, taken, live: None, free }) => {
            assert_eq!(free.remaining(), 0);
            Spec::Gone { b, r, taken }
        }
        Frame::State(State { b, r, taken, live: Some(claim), free }) => {
            let announced = free.remaining();
            let free: Vec<_> = free.collect();
            assert_eq!(free.len() as u64, announced);
            Spec::Live { b, r, taken, claim, free }
        }
        Frame::Messages(_) => unreachable!(),
        Frame::Token { r, s } => Spec::Token { r, s },
        Frame::Revoke { r, s, n } => Spec::Revoke { r, s, n },
        Frame::RevokeStream(RevokeStream { r, s, n, name, mark }) => {
            Spec::RevokeStream { r, s, n, name: name.to_vec(), mark }
        }
        Frame::Withdrawn { r, s, n } => Spec::Withdrawn { r, s, n },
        Frame::Have(Have { r, s, prefix, limit, ranges }) => {
            Spec::Have { r, s, prefix, limit, ranges: ranges.collect() }
        }
        Frame::Early(Early { ts, s, entries }) => {
            Spec::Early { ts, s, entries: entries.map(|(_, message)| message.to_vec()).collect() }
        }
        Frame::StampRejected { ts, time } => Spec::Ahead { ts, time },
        Frame::Reply(Reply { s, status, body }) => Spec::Reply { s, status, body: body.to_vec() },
        Frame::ReplyAck(s) => Spec::ReplyAck(s),
        Frame::Probe(s) => Spec::Probe(s),
        Frame::NoCall(s) => Spec::NoCall(s),
        Frame::Computing(s) => Spec::Computing(s),
        Frame::Verdict(Verdict { r, s, word, status, attempts, reason }) => {
            Spec::Verdict { r, s, word, status, attempts, reason: reason.into() }
        }
        Frame::Unknown { kind, body } => Spec::Unknown { kind, body: body.to_vec() },
    }
}

fn read(payload: &[u8], bases: Bases) -> Result<Vec<Spec>, Malformed> {
    let frames: Result<Vec<_>, _> =
        Frames::new(payload, bases).map(|frame| frame.map(|frame| own(&frame))).collect();
    frames.map(|specs| specs.into_iter().flatten().collect())
}

const NO_BASES: Bases = Bases { sender: 0, receiver: 0 };

/// The first error in `payload`, with bases of zero.
fn error(payload: &[u8]) -> Option<Malformed> {
    read(payload, NO_BASES).err()
}

/// Numbers of 62 bits, of every length on the wire, and their limits.
fn number() -> impl Strategy<Value = u64> {
    let border = prop::sample::select(vec![0, 1, 63, 64, 16_383, 16_384, (1 << 30) - 1, 1 << 30, MAX_NUMBER]);
    prop_oneof![border, (0_u32..62, any::<u64>()).prop_map(|(bits, x)| x & (MAX_NUMBER >> bits))]
}

fn bases() -> impl Strategy<Value = Bases> {
    (number(), number()).prop_map(|(sender, receiver)| Bases { sender, receiver })
}

fn slot() -> impl Strategy<Value = Slot> {
    number().prop_map(Slot)
}

/// Slots of a record: at least one, and none above the highest number.
fn run() -> impl Strategy<Value = (Incarnation, Slot, u64)> {
    (incarnation(), 0..MAX_NUMBER, number())
        .prop_map(|(r, s, n)| (r, Slot(s), n.clamp(1, MAX_RUN.min(MAX_NUMBER - s))))
}

fn incarnation() -> impl Strategy<Value = Incarnation> {
    number().prop_map(Incarnation)
}

/// Ascending ranges from `from` on, and where the last ends; within 62 bits.
fn ranges(from: u64, gaps: &[(u64, u64)]) -> (Vec<Range<u64>>, u64) {
    let mut at = from;
    let mut ranges = Vec::new();
    for (gap, len) in gaps {
        let start = at.saturating_add(*gap);
        let end = start.saturating_add(*len + 1);
        if end <= MAX_NUMBER {
            ranges.push(start..end);
            at = end;
        }
    }
    (ranges, at)
}

fn gaps(max: usize) -> impl Strategy<Value = Vec<(u64, u64)>> {
    vec((0_u64..20_000, 0_u64..100), 0..=max)
}

fn ack() -> impl Strategy<Value = Spec> {
    let ecn = option::of((number(), number(), number()).prop_map(|(ect0, ect1, ce)| Ecn { ect0, ect1, ce }));
    (number(), vec((0_u64..20_000, 0_u64..100), 1..=64), number(), 0..ARRIVAL_SPAN, ecn).prop_map(
        |(largest, below, delay, arrival, ecn)| {
            let mut ranges: Vec<Range<u64>> = Vec::new();
            let mut end = largest + 1;
            for (len, gap) in below {
                let start = end.saturating_sub(len + 1);
                ranges.push(start..end);
                if start < gap + 2 {
                    break;
                }
                end = start - gap - 1;
            }
            Spec::Ack {
                delay: Duration::from_micros(delay),
                arrival: Duration::from_micros(arrival),
                ecn,
                ranges,
            }
        },
    )
}

fn live() -> impl Strategy<Value = Spec> {
    (incarnation(), incarnation(), taken(), slot(), slot(), gaps(40), 0_u64..100, any::<(bool, bool)>())
        .prop_map(|(b, r, taken, hi, lo, gaps, tail, (closed, part))| {
            let (free, end) = ranges(lo.0, &gaps);
            let up = Slot(end.saturating_add(tail).min(MAX_NUMBER));
            Spec::Live { b, r, taken, claim: Claim { hi, lo, up, closed, part }, free }
        })
}

fn taken() -> impl Strategy<Value = Option<(Stamp, Slot)>> {
    option::of((1..=MAX_NUMBER, number()).prop_map(|(ts, end)| (Stamp(ts), Slot(end))))
}

/// Any stamp, or none.
fn ts() -> impl Strategy<Value = Stamp> {
    prop_oneof![Just(Stamp::NONE), (1..=MAX_NUMBER).prop_map(Stamp)]
}

fn early() -> impl Strategy<Value = Spec> {
    (1..=MAX_NUMBER, 0..=MAX_NUMBER - 62, vec(vec(any::<u8>(), 1..80), 1..=63))
        .prop_map(|(ts, s, entries)| Spec::Early { ts: Stamp(ts), s: Slot(s), entries })
}

fn messages() -> impl Strategy<Value = Spec> {
    let entry = prop_oneof![3 => vec(any::<u8>(), 1..80), 1 => vec(any::<u8>(), 1..400)];
    (incarnation(), 0..=MAX_NUMBER - 99, vec(entry, 1..=100)).prop_map(|(r, s, entries)| Spec::Messages {
        r,
        s: Slot(s),
        entries,
    })
}

fn fragment() -> impl Strategy<Value = Spec> {
    (incarnation(), slot(), 0..=MAX_NUMBER - 300, 0_u64..100, vec(any::<u8>(), 1..200)).prop_map(
        |(r, s, offset, more, data)| {
            let total = offset + data.len() as u64 + more + u64::from(offset == 0);
            Spec::Fragment { r, s, total, offset, data }
        },
    )
}

fn open_part() -> impl Strategy<Value = Spec> {
    (incarnation(), slot(), 0..=MAX_NUMBER - 300, any::<bool>(), vec(any::<u8>(), 0..200)).prop_map(
        |(r, s, offset, ends, data)| {
            let ends = ends || data.is_empty();
            Spec::Open { r, s, offset: offset + u64::from(data.is_empty()), data, ends }
        },
    )
}

fn have() -> impl Strategy<Value = Spec> {
    (incarnation(), slot(), number(), number(), gaps(32)).prop_map(|(r, s, prefix, limit, gaps)| {
        let (ranges, _) = ranges(prefix, &gaps);
        Spec::Have { r, s, prefix, limit, ranges }
    })
}

fn params() -> impl Strategy<Value = Params> {
    let windows = (0x1_0000..=MAX_NUMBER, number(), number(), number());
    let rest = (number(), 0_u64..1 << 24, any::<[u8; 8]>(), number(), 1200..=MAX_NUMBER, number(), number());
    let reset = proptest::option::of(any::<[u8; 16]>());
    let lanes = (number(), number(), number());
    let stays = (number(), number(), number(), number());
    (windows, rest, reset, number(), lanes, stays, number()).prop_map(
        |(
            (pool_window, body_window, max_bodies, max_message),
            (base, delay, boot_id, time, max_datagram, idle, suites),
            reset,
            takes,
            (lane_window, lane_pool, lanes),
            (generation, met, lineage, met_lineage),
            durability,
        )| {
            Params {
                base,
                max_ack_delay: Duration::from_micros(delay),
                boot_id,
                time: Wall(time),
                max_datagram,
                pool_window,
                body_window,
                max_bodies,
                max_message,
                idle_timeout: Duration::from_millis(idle),
                suites,
                reset: reset.map(ResetToken),
                takes,
                lane_window,
                lane_pool,
                lanes,
                stay: crate::Stay {
                    generation: crate::Generation(generation),
                    lineage: crate::Lineage(lineage),
                },
                met: crate::Stay { generation: crate::Generation(met), lineage: crate::Lineage(met_lineage) },
                durability,
            }
        },
    )
}

/// Any frame that a writer writes, except one that may extend to the end of the packet.
fn bounded() -> impl Strategy<Value = Spec> {
    spec().prop_filter("it ends by itself", |spec| !matches!(spec, Spec::Messages { .. }))
}

/// Any frame that a writer writes.
fn spec() -> impl Strategy<Value = Spec> {
    let ask = (number(), number(), slot(), ts())
        .prop_map(|(s, n, l, ts)| Spec::Ask(Ask { s: Slot(s), n: n.min(MAX_NUMBER - s), l, ts }));
    prop_oneof![
        Just(Spec::Ping),
        ack(),
        number().prop_map(Spec::Close),
        any::<[u8; 8]>().prop_map(Spec::Challenge),
        any::<[u8; 8]>().prop_map(Spec::Response),
        params().prop_map(Spec::Params),
        ask,
        (incarnation(), incarnation(), taken()).prop_map(|(b, r, taken)| Spec::Gone { b, r, taken }),
        early(),
        (1..=MAX_NUMBER, number()).prop_map(|(ts, time)| Spec::Ahead { ts: Stamp(ts), time: Wall(time) }),
        live(),
        messages(),
        fragment(),
        open_part(),
        (incarnation(), slot()).prop_map(|(r, s)| Spec::Token { r, s }),
        run().prop_map(|(r, s, n)| Spec::Revoke { r, s, n }),
        run().prop_map(|(r, s, n)| Spec::Withdrawn { r, s, n }),
        (run(), vec(any::<u8>(), 1..=255), 0_u64..1 << 20, any::<u64>()).prop_map(
            |((r, s, n), name, age, any)| {
                let age = age.min(s.0);
                let n_of = if age == 0 { 0 } else { 1 + any % age };
                let mark = StreamMark { age, n: n_of, link: any % (s.0 + 1), ..StreamMark::OPEN };
                Spec::RevokeStream { r, s, n, name, mark }
            }
        ),
        have(),
        (slot(), any::<u32>(), vec(any::<u8>(), 0..200)).prop_map(|(s, status, body)| Spec::Reply {
            s,
            status,
            body
        }),
        slot().prop_map(Spec::ReplyAck),
        slot().prop_map(Spec::Probe),
        slot().prop_map(Spec::NoCall),
        slot().prop_map(Spec::Computing),
        (incarnation(), slot(), 0_u8..3, any::<u32>(), any::<u32>(), "\\PC{0,50}").prop_map(
            |(r, s, word, status, attempts, reason)| Spec::Verdict { r, s, word, status, attempts, reason }
        ),
    ]
}
