//! Frames: a frame that parses is written again with the same meaning, nothing is allocated, and ranges keep their
//! order.

use exonet_proto::wire::{Bases, Frame, Frames, MAX_ACK_RANGES, Malformed, Messages, Part, Ranges, Writer};
use exonet_proto::{Incarnation, MAX_NUMBER, Slot};

use crate::memory;

/// Bases that cover different cases: zero, far from each other, near the end.
const BASES: [(u64, u64); 4] = [(0, 0), (1 << 32, 5 << 32), (MAX_NUMBER, 1), ((1 << 61) - 1, MAX_NUMBER - 2)];

/// A payload; its first byte chooses the bases.
pub fn frames(data: &[u8]) {
    let Some((choice, payload)) = data.split_first() else { return };
    let (sender, receiver) = BASES[usize::from(choice % 4)];
    let bases = Bases { sender, receiver };
    memory::none(|| Frames::new(payload, bases).for_each(|frame| walk(&frame)));
    let mut buffer = vec![0; payload.len() + 64];
    let mut ended = false;
    for frame in Frames::new(payload, bases) {
        assert!(!ended, "a frame follows what is malformed");
        let Ok(frame) = frame else {
            ended = true;
            continue;
        };
        let mut writer = Writer::new(&mut buffer, bases);
        if !put(&mut writer, &frame) {
            assert!(matches!(frame, Frame::Unknown { .. }), "not written again: {frame:?}");
            continue;
        }
        let len = writer.len();
        let mut again = Frames::new(&buffer[..len], bases);
        let same = match frame {
            Frame::Messages(messages) => parts(messages).eq(in_order(again.by_ref())),
            frame => again.next().is_some_and(|again| again.is_ok_and(|again| same(&frame, &again))),
        };
        assert!(same && again.next().is_none(), "{frame:?} came back as {:?}", &buffer[..len]);
    }
}

/// Reads everything in a frame, and checks order and bounds.
fn walk(frame: &Result<Frame<'_>, Malformed>) {
    match frame {
        Ok(Frame::Ack(ack)) => {
            let mut below = u64::MAX;
            for range in ack.ranges {
                assert!(range.start < range.end && range.end < below);
                below = range.start;
            }
        }
        Ok(Frame::State(state)) => {
            let (lo, up) = state.live.map_or((0, 0), |claim| (claim.lo.0, claim.up.0));
            assert!(lo <= up && up <= MAX_NUMBER);
            ascends(state.free, lo, up);
        }
        Ok(Frame::Have(have)) => ascends(have.ranges, have.prefix, MAX_NUMBER),
        Ok(Frame::Messages(messages)) => {
            for (s, message) in messages.whole {
                assert!(s.0 <= MAX_NUMBER && !message.is_empty());
            }
            for part in messages.first.iter().chain(&messages.last) {
                let end = part.offset + part.data.len() as u64;
                assert!(part.total.is_none_or(|total| end <= total) && end <= MAX_NUMBER);
                assert!(!part.data.is_empty() || part.total.is_none() && part.ends);
            }
        }
        Ok(Frame::Ask(ask)) => assert!(ask.s.0 + ask.n <= MAX_NUMBER && ask.l.0 <= MAX_NUMBER),
        _ => {}
    }
}

fn ascends(ranges: Ranges<'_>, from: u64, end: u64) {
    let mut at = from;
    for range in ranges {
        assert!(at <= range.start && range.start < range.end && range.end <= end);
        at = range.end;
    }
}

fn put(writer: &mut Writer<'_>, frame: &Frame<'_>) -> bool {
    match frame {
        Frame::Ping => writer.ping(),
        Frame::Ack(ack) => writer.ack(ack.delay, ack.arrival, ack.ecn, ack.ranges).is_some(),
        Frame::Close { code } => writer.close(*code),
        Frame::PathChallenge(data) => writer.path_challenge(*data),
        Frame::PathResponse(data) => writer.path_response(*data),
        Frame::Params(params) => {
            let before = writer.len();
            writer.params(params) && writer.len() - before == params.encoded_len()
        }
        Frame::Ask(ask) => writer.ask(*ask),
        Frame::State(state) => match state.live {
            Some(claim) => {
                writer.state_live(state.b, state.r, state.taken, claim, state.free, u16::MAX)
                    == Some(claim.up)
            }
            None => writer.state_gone(state.b, state.r, state.taken),
        },
        Frame::Messages(messages) => {
            let Messages { r, first, whole, last } = *messages;
            let mut part = |p: Part<'_>| match p.total {
                Some(total) => writer.part(r, p.s, total, p.offset, [p.data, &[]]) == p.data.len(),
                None => {
                    let written = writer.open_part(r, p.s, p.offset, [p.data, &[]], p.ends);
                    written == p.data.len() + usize::from(p.ends)
                }
            };
            first.is_none_or(&mut part) && last.is_none_or(part) && {
                let mut out = writer.messages(r, Slot(whole.slots().start));
                whole
                    .into_iter()
                    .all(|(_, m)| out.as_mut().is_some_and(|out| out.fits(m.len()) && out.push(&[], m)))
            }
        }
        Frame::Token { r, s } => writer.token(*r, *s),
        Frame::Revoke { r, s, n } => writer.revoke(*r, *s, *n),
        Frame::RevokeStream(revoke) => writer.revoke_stream(*revoke),
        Frame::Withdrawn { r, s, n } => writer.withdrawn(*r, *s, *n),
        Frame::Have(have) => writer.have(have.r, have.s, have.prefix, have.limit, have.ranges),
        Frame::Early(early) => {
            let Some(mut out) = writer.early(early.ts, early.s) else { return false };
            early.entries.into_iter().all(|(_, m)| out.fits(m.len()) && out.push(&[], m))
        }
        Frame::StampRejected { ts, time } => writer.stamp_rejected(*ts, *time),
        Frame::Reply(reply) => writer.reply(*reply),
        Frame::ReplyAck(s) => writer.reply_ack(*s),
        Frame::Probe(s) => writer.probe(*s),
        Frame::NoCall(s) => writer.no_call(*s),
        Frame::Computing(s) => writer.computing(*s),
        Frame::Verdict(verdict) => writer.verdict(*verdict),
        Frame::Unknown { .. } => false,
    }
}

/// The content of MESSAGES for each message: its slot, its length, and its bytes with their places.
fn parts(messages: Messages<'_>) -> impl Iterator<Item = (Incarnation, Part<'_>)> {
    let Messages { r, first, whole, last } = messages;
    let whole =
        whole.map(|(s, data)| Part { s, total: Some(data.len() as u64), offset: 0, data, ends: true });
    first.into_iter().chain(whole).chain(last).map(move |part| (r, part))
}

/// The parts of several frames, in the order of slots.
fn in_order<'a>(
    frames: impl Iterator<Item = Result<Frame<'a>, Malformed>>,
) -> impl Iterator<Item = (Incarnation, Part<'a>)> {
    let mut all: Vec<_> = frames
        .flat_map(|frame| match frame {
            Ok(Frame::Messages(messages)) => parts(messages),
            other => panic!("{other:?} in place of messages"),
        })
        .collect();
    all.sort_by_key(|(_, part)| part.s);
    all.into_iter()
}

/// Whether both frames have the same meaning, whatever the length of their numbers.
fn same(a: &Frame<'_>, b: &Frame<'_>) -> bool {
    match (a, b) {
        (Frame::Ack(a), Frame::Ack(b)) => {
            (a.largest, a.delay, a.arrival, a.ecn) == (b.largest, b.delay, b.arrival, b.ecn)
                && a.ranges.take(MAX_ACK_RANGES).eq(b.ranges)
        }
        (Frame::State(a), Frame::State(b)) => {
            (a.b, a.r, a.taken, a.live) == (b.b, b.r, b.taken, b.live) && a.free.eq(b.free)
        }
        (Frame::Have(a), Frame::Have(b)) => {
            (a.r, a.s, a.prefix, a.limit) == (b.r, b.s, b.prefix, b.limit) && a.ranges.eq(b.ranges)
        }
        (Frame::Early(a), Frame::Early(b)) => (a.ts, a.s) == (b.ts, b.s) && a.entries.eq(b.entries),
        (a, b) => a == b,
    }
}
