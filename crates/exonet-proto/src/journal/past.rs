//! The newest outcomes: a node with a journal remembers them over its lives.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::id::{Incarnation, LetterId, NodeId, Slot};
use crate::level::DurabilityLevel;
use crate::message::{MAX_REASON, Outcome, Refusal};
use crate::wire::{Malformed, Take, put_varint};

/// How many outcomes a journal remembers. Messages that ended together count as one. They take less than 100 bytes each, and the
/// reason.
const MOST: usize = 1_024;

/// Messages to one peer that ended together, as the journal of their sender remembers them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastOutcome {
    /// The number of the first message. The others have those that follow.
    pub letter: LetterId,
    /// The node that they were for.
    pub peer: NodeId,
    /// The slot of the first message, and the incarnation of the slots; [`Incarnation::UNNAMED`] if it never was known. The
    /// others have the slots that follow. None: they never left.
    pub bound: Option<(Slot, Incarnation)>,
    /// How many messages there are.
    pub count: u32,
    /// The outcome of each.
    pub outcome: Outcome,
    /// The deadline had passed before.
    pub late: bool,
    /// The durability level of the receiver: see [`crate::node::Event::Outcome`].
    pub receiver_durability: Option<DurabilityLevel>,
    /// The reason that the receiving application gave, if it has processed or rejected the message.
    pub reason: Option<Arc<str>>,
}

impl PastOutcome {
    pub(crate) fn new(
        (letter, count): (LetterId, u32),
        peer: NodeId,
        bound: Option<(Slot, Incarnation)>,
        how: &How<'_>,
    ) -> Self {
        let How { outcome, late, receiver_durability, reason } = *how;
        let reason = Some(reason).filter(|reason| !reason.is_empty()).map(Arc::from);
        Self { letter, peer, bound, count, outcome, late, receiver_durability, reason }
    }

    pub(crate) fn how(&self) -> How<'_> {
        let Self { outcome, late, receiver_durability, ref reason, .. } = *self;
        How { outcome, late, receiver_durability, reason: reason.as_deref().unwrap_or_default() }
    }
}

/// The newest outcomes, the newest last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Past(VecDeque<PastOutcome>);

impl Past {
    /// Adds outcomes, each in the place of the oldest.
    pub(crate) fn extend(&mut self, outcomes: impl IntoIterator<Item = PastOutcome>) {
        for outcome in outcomes {
            if self.0.len() >= MOST {
                self.0.pop_front();
            }
            self.0.push_back(outcome);
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &PastOutcome> {
        self.0.iter()
    }
}

/// How messages ended. A message that was neither processed nor rejected has no reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct How<'a> {
    pub(crate) outcome: Outcome,
    pub(crate) late: bool,
    pub(crate) receiver_durability: Option<DurabilityLevel>,
    pub(crate) reason: &'a str,
}

const DELIVERED: u8 = 0;
const PROCESSED: u8 = 1;
const REJECTED: u8 = 2;
const EXPIRED: u8 = 3;
const CANCELLED: u8 = 4;
const REFUSED: u8 = 5;
const UNKNOWN: u8 = 6;

/// The bits of the first byte: three for the outcome, one for `late`, and the level above them: one more than its number, or zero.
const OUTCOME: u8 = 7;
const LATE: u8 = 8;
const LEVEL: u32 = 4;

impl<'a> How<'a> {
    pub(super) fn encode(&self, to: &mut Vec<u8>) {
        let Self { outcome, late, receiver_durability, reason } = *self;
        // There are fewer levels than the bits have room for.
        let level =
            receiver_durability.map_or(0, |level| u8::try_from(level.number() + 1).unwrap_or_default());
        let lead = level << LEVEL | if late { LATE } else { 0 };
        match outcome {
            Outcome::Delivered => to.push(lead | DELIVERED),
            Outcome::Processed { status } => {
                to.push(lead | PROCESSED);
                judged(to, [status], reason);
            }
            Outcome::Rejected { status, attempts } => {
                to.push(lead | REJECTED);
                judged(to, [status, attempts], reason);
            }
            Outcome::Expired => to.push(lead | EXPIRED),
            Outcome::Cancelled => to.push(lead | CANCELLED),
            Outcome::Refused(why) => to.extend([lead | REFUSED, refusal(why)]),
            // The core says nothing of messages that are kept.
            Outcome::Unknown | Outcome::Kept => to.push(lead | UNKNOWN),
        }
    }

    pub(super) fn decode(from: &mut Take<'a>) -> Result<Self, Malformed> {
        let lead = from.byte()?;
        let receiver_durability = match lead >> LEVEL {
            0 => None,
            level @ 1..=4 => Some(DurabilityLevel::of(u64::from(level) - 1)),
            _ => return Err(Malformed::Reserved),
        };
        let outcome = match lead & OUTCOME {
            DELIVERED => Outcome::Delivered,
            PROCESSED => Outcome::Processed { status: number(from)? },
            REJECTED => Outcome::Rejected { status: number(from)?, attempts: number(from)? },
            EXPIRED => Outcome::Expired,
            CANCELLED => Outcome::Cancelled,
            REFUSED => Outcome::Refused(match from.byte()? {
                0 => Refusal::Policy,
                1 => Refusal::Kind,
                2 => Refusal::Ended,
                _ => return Err(Malformed::Reserved),
            }),
            UNKNOWN => Outcome::Unknown,
            _ => return Err(Malformed::Reserved),
        };
        let reason = match outcome {
            Outcome::Processed { .. } | Outcome::Rejected { .. } => from.prefixed()?,
            _ => &[],
        };
        if reason.len() > MAX_REASON {
            return Err(Malformed::Length);
        }
        let reason = core::str::from_utf8(reason).map_err(|_| Malformed::Reserved)?;
        Ok(Self { outcome, late: lead & LATE > 0, receiver_durability, reason })
    }
}

fn judged<const N: usize>(to: &mut Vec<u8>, numbers: [u32; N], reason: &str) {
    numbers.into_iter().for_each(|number| put_varint(to, number.into()));
    put_varint(to, reason.len() as u64);
    to.extend_from_slice(reason.as_bytes());
}

fn number(from: &mut Take<'_>) -> Result<u32, Malformed> {
    u32::try_from(from.varint()?).map_err(|_| Malformed::Length)
}

const fn refusal(why: Refusal) -> u8 {
    match why {
        Refusal::Policy => 0,
        Refusal::Kind => 1,
        Refusal::Ended => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::Stamp;
    use crate::journal::{Heading, Record, Recovered};

    const HOW: How<'_> =
        How { outcome: Outcome::Delivered, late: false, receiver_durability: None, reason: "" };
    const NO: How<'_> = How {
        outcome: Outcome::Rejected { status: 7, attempts: 2 },
        late: true,
        receiver_durability: Some(DurabilityLevel::Sync),
        reason: "no such account",
    };

    fn read(records: &[Record<'_>]) -> Vec<PastOutcome> {
        let mut bytes = Vec::new();
        records.iter().for_each(|record| record.encode(&mut bytes));
        Recovered::read(&bytes).unwrap().past_outcomes().cloned().collect()
    }

    /// A journal in which messages end in each way, and the outcomes that each of its records adds.
    fn journal() -> (Vec<Record<'static>>, Vec<(usize, PastOutcome)>) {
        let (id, r, other) = (|n| LetterId::new(n).unwrap(), Incarnation(5), Incarnation(6));
        let [one, two] = [3, 4].map(|n| NodeId([n; 32]));
        let heading = Heading::PLAIN;
        let span = |letter, n, peer, entries| Record::PutSpan {
            letter: id(letter),
            n,
            peer,
            heading,
            body: 1,
            entries,
        };
        let put = |letter, peer| Record::Put { letter: id(letter), peer, heading, body: b"x" };
        let outcome = |letter, n, peer, how| Record::Outcome { letter: id(letter), n, peer, how };
        let past =
            |letter, n, peer, (s, r), how| PastOutcome::new((id(letter), n), peer, Some((Slot(s), r)), how);
        let records = vec![
            Record::Peer { peer: 1, id: one },
            Record::Peer { peer: 2, id: two },
            span(1, 4, 1, b"-a-b-c-d"),
            put(5, 2),
            put(6, 2),
            put(7, 1),
            put(8, 1),
            Record::Bind { letter: id(1), n: 4, s: Slot(20), r },
            outcome(2, 2, 1, HOW),
            Record::Early { letter: id(5), s: Slot(9), ts: Stamp(5) },
            Record::Early { letter: id(6), s: Slot(10), ts: Stamp(5) },
            Record::Convert { letter: id(5), r: other },
            outcome(5, 1, 2, NO),
            outcome(6, 1, 2, HOW),
            Record::Bind { letter: id(7), n: 1, s: Slot(24), r },
            Record::Back { letter: id(7), kept: None },
            Record::Bind { letter: id(7), n: 1, s: Slot(30), r: other },
            outcome(7, 1, 1, HOW),
            Record::End { letter: id(8), n: 1 },
            Record::End { letter: id(1), n: 1 },
            outcome(4, 1, 1, NO),
        ];
        let told = vec![
            (9, past(2, 2, one, (21, r), &HOW)),
            (13, past(5, 1, two, (9, other), &NO)),
            (14, past(6, 1, two, (10, Incarnation::UNNAMED), &HOW)),
            (18, past(7, 1, one, (30, other), &HOW)),
            (21, past(4, 1, one, (23, r), &NO)),
        ];
        (records, told)
    }

    #[test]
    fn each_prefix_of_a_journal_has_the_outcomes_that_it_says() {
        let (records, told) = journal();
        for len in 0..=records.len() {
            let expected: Vec<_> =
                told.iter().filter(|(at, _)| *at <= len).map(|(_, past)| past.clone()).collect();
            assert_eq!(read(&records[..len]), expected, "{len}");
        }
    }

    #[test]
    fn a_message_that_never_left_is_remembered_by_its_number() {
        let (mut records, _) = journal();
        records.truncate(7);
        let (letter, peer) = (LetterId::new(8).unwrap(), NodeId([3; 32]));
        records.push(Record::Outcome { letter, n: 1, peer: 1, how: NO });
        assert_eq!(read(&records), [PastOutcome::new((letter, 1), peer, None, &NO)]);
    }

    #[test]
    fn the_newest_outcomes_are_remembered() {
        let past = |number| {
            let letter = LetterId::new(number).unwrap();
            Record::Past { letter, n: 1, id: NodeId([3; 32]), bound: None, how: NO }
        };
        let all: Vec<_> = (1..=MOST as u64 + 9).map(past).collect();
        let kept = read(&all);
        let ends = [&kept[0], &kept[MOST - 1]].map(|past| past.letter.get());
        assert_eq!((kept.len(), ends), (MOST, [10, MOST as u64 + 9]));
        assert_eq!(kept[0].how(), NO);
    }
}
