//! Frames that a peer chooses: any numbers, near those that its own channel uses.

use core::ops::Range;
use core::time::Duration;

use arbitrary::Arbitrary;
use exonet_proto::wire::{Ask, Bases, Claim, Ecn, Frame, Frames, Params, Writer};
use exonet_proto::{Incarnation, Slot, Stamp};

use crate::number::Number;

/// One frame to send.
#[derive(Debug, Arbitrary)]
pub(crate) enum Say<'a> {
    Ping,
    Ack {
        largest: Number,
        delay: Number,
        arrival: Number,
        ecn: Option<[Number; 3]>,
        ranges: &'a [u8],
    },
    Close(u8),
    Challenge([u8; 8]),
    Response {
        known: bool,
        data: [u8; 8],
    },
    Params {
        base: Number,
        delay: u32,
        datagram: u16,
        pool: Number,
        body: Number,
        bodies: u8,
        message: Number,
    },
    Ask {
        s: Number,
        n: Number,
        l: Number,
    },
    Gone {
        b: Number,
        r: Number,
    },
    State {
        b: Number,
        r: Number,
        hi: Number,
        lo: Number,
        span: Number,
        part: bool,
        free: &'a [u8],
    },
    /// Grants everything that was asked for.
    Grant {
        free: bool,
    },
    Messages {
        r: Number,
        s: Number,
        head: u8,
        bodies: &'a [u8],
    },
    Fragment {
        r: Number,
        s: Number,
        total: Number,
        offset: Number,
        head: u8,
        len: u16,
    },
    Token {
        r: Number,
        s: Number,
    },
    Have {
        r: Number,
        s: Number,
        prefix: Number,
        limit: Number,
        held: &'a [u8],
    },
    /// Any bytes.
    Raw(&'a [u8]),
}

/// The numbers that a peer has learned from its channel, near which others are chosen.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lore {
    /// The newest packet of the node.
    pub(crate) packet: u64,
    /// The node's incarnation for the peer's tokens, and the first slot that it has granted.
    pub(crate) their_r: u64,
    pub(crate) our_s: u64,
    /// The slots that the node asked for, and the newest message that it sent: slot, length.
    pub(crate) asked: (u64, u64),
    pub(crate) their_s: u64,
    pub(crate) total: u64,
    pub(crate) challenge: [u8; 8],
}

/// The incarnation under which a peer grants slots, unless it gives another.
const OUR_R: u64 = 5;

impl Lore {
    /// Learns from the node's frames under `bases`; returns the base that they declare.
    pub(crate) fn learn(&mut self, payload: &[u8], bases: Bases) -> Option<u64> {
        let (mut frames, mut declared) = (Frames::new(payload, bases), None);
        while let Some(frame) = frames.next() {
            let frame = frame.expect("a node writes what it can read");
            match frame {
                Frame::Params(params) => {
                    declared = Some(params.base);
                    frames.set_bases(Bases { sender: params.base, ..bases });
                }
                Frame::State(state) => {
                    self.their_r = state.r.0;
                    if let (Some(range), true) = ({ state.free }.next(), state.live.is_some()) {
                        self.our_s = range.start;
                    }
                }
                Frame::Ask(ask) if ask.n > 0 => self.asked = (ask.s.0, ask.s.0 + ask.n),
                Frame::Messages(messages) => {
                    self.their_s = messages.begin().0;
                    let part = messages.first.or(messages.last);
                    self.total = part.and_then(|part| part.total).unwrap_or(self.total);
                }
                Frame::PathChallenge(data) => self.challenge = data,
                _ => {}
            }
        }
        declared
    }
}

/// Writes as many of `says` as fit in `room` bytes.
pub(crate) fn speak(says: &[Say<'_>], lore: &Lore, bases: Bases, room: usize) -> Vec<u8> {
    let mut payload = Vec::new();
    for say in says {
        let mut bytes = vec![0; room - payload.len()];
        if let Say::Raw(raw) = say {
            payload.extend(raw.iter().take(bytes.len()));
            continue;
        }
        let mut writer = Writer::new(&mut bytes, bases);
        say.put(lore, &mut writer);
        let len = writer.len();
        payload.extend_from_slice(&bytes[..len]);
        if matches!(say, Say::Messages { .. }) && payload.len() < room {
            // The following frame is not part of it.
            payload.push(0);
        }
    }
    payload
}

impl Say<'_> {
    #[expect(clippy::too_many_lines, reason = "one arm for each frame")]
    fn put(&self, lore: &Lore, out: &mut Writer<'_>) {
        let ours = |s: &Number| Slot(s.at(lore.our_s));
        let their_r = |r: &Number| Incarnation(r.at(lore.their_r));
        let our_r = |r: &Number| Incarnation(r.at(OUR_R));
        match self {
            Self::Ping => {
                out.ping();
            }
            Self::Ack { largest, delay, arrival, ecn, ranges } => {
                let micros = |number: &Number| Duration::from_micros(number.at(1_000));
                let ecn = ecn.map(|[a, b, c]| Ecn { ect0: a.at(1), ect1: b.at(1), ce: c.at(1) });
                let ranges = descending(largest.at(lore.packet), ranges);
                out.ack(micros(delay), micros(arrival), ecn, ranges);
            }
            Self::Close(code) => {
                out.close(u64::from(*code));
            }
            Self::Challenge(data) => {
                out.path_challenge(*data);
            }
            Self::Response { known, data } => {
                out.path_response(if *known { lore.challenge } else { *data });
            }
            Self::Params { base, delay, datagram, pool, body, bodies, message } => {
                out.params(&Params {
                    base: base.at(0),
                    max_ack_delay: Duration::from_micros(u64::from(*delay)),
                    max_datagram: u64::from(*datagram),
                    pool_window: pool.at(1 << 16),
                    body_window: body.at(1 << 16),
                    max_bodies: u64::from(*bodies),
                    max_message: message.at(1 << 17),
                    ..Params::default()
                });
            }
            Self::Ask { s, n, l } => {
                out.ask(Ask { s: ours(s), n: n.at(8), l: ours(l), ts: Stamp::NONE });
            }
            Self::Gone { b, r } => {
                out.state_gone(our_r(b), our_r(r), None);
            }
            Self::State { b, r, hi, lo, span, part, free } => {
                let lo = lo.at(lore.asked.0);
                let up = lo.saturating_add(span.at(lore.asked.1.saturating_sub(lo)));
                let up = up.min(exonet_proto::MAX_NUMBER);
                let (hi, lo, up) = (Slot(hi.at(lore.asked.1)), Slot(lo), Slot(up));
                let claim = Claim { hi, lo, up, closed: false, part: *part };
                out.state_live(our_r(b), our_r(r), None, claim, ascending(lo.0, free), 256);
            }
            Self::Grant { free } => {
                let (lo, up) = lore.asked;
                let claim = Claim { hi: Slot(up), lo: Slot(lo), up: Slot(up), closed: false, part: false };
                let free = free.then_some(lo..up);
                out.state_live(Incarnation(0), Incarnation(OUR_R), None, claim, free, 256);
            }
            Self::Messages { r, s, head, bodies } => {
                if let Some(mut messages) = out.messages(their_r(r), ours(s)) {
                    bodies.iter().all(|len| messages.push(&[*head], &vec![*len; usize::from(*len)]));
                }
            }
            Self::Fragment { r, s, total, offset, head, len } => {
                let (total, offset) = (total.at(100_000), offset.at(0));
                out.part(their_r(r), ours(s), total, offset, [&[*head], &vec![7; usize::from(*len)]]);
            }
            Self::Token { r, s } => {
                out.token(their_r(r), ours(s));
            }
            Self::Have { r, s, prefix, limit, held } => {
                let prefix = prefix.at(0);
                let held = ascending(prefix, held);
                out.have(our_r(r), Slot(s.at(lore.their_s)), prefix, limit.at(lore.total), held);
            }
            Self::Raw(_) => {}
        }
    }
}

/// Ranges from `largest` down: alternating length and gap.
fn descending(largest: u64, steps: &[u8]) -> Vec<Range<u64>> {
    let (mut ranges, mut last) = (Vec::new(), Some(largest));
    for step in steps.chunks(2).chain([&[0][..]].into_iter().filter(|_| steps.is_empty())) {
        let Some(end) = last else { break };
        let start = end.saturating_sub(u64::from(step[0]));
        ranges.push(start..end + 1);
        last = start.checked_sub(u64::from(step.get(1).copied().unwrap_or(0)) + 2);
    }
    ranges
}

/// Ranges from `from` up: alternating gap and length.
fn ascending(from: u64, steps: &[u8]) -> Vec<Range<u64>> {
    let (mut ranges, mut at) = (Vec::new(), from);
    for step in steps.chunks_exact(2) {
        let start = at.saturating_add(u64::from(step[0]));
        at = start.saturating_add(u64::from(step[1]));
        ranges.push(start..at);
    }
    ranges
}
