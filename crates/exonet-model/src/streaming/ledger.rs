//! The true history of all messages, and the history that the two applications were told.

use super::Scene;
use crate::half::Gap;
use crate::wire::StreamEnd;

/// A message: the index of its line in the script.
pub(super) type Message = u8;

/// An error names the promise that was broken.
pub(super) type Checked = Result<(), &'static str>;

/// The fate of a message as the sending application knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Fate {
    /// The application has not sent the message.
    Waits,
    Open,
    Delivered,
    Rejected,
    Cancelled,
    Unknown,
    /// The process that sent the message has died.
    Lost,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Letter {
    stream: u8,
    ends: bool,
    /// The number of the stream among those of its name, as the sending application counts, and the life of that application.
    of: (u8, u8),
    fate: Fate,
    taken: bool,
    rejected: bool,
    /// The reader has withdrawn the message.
    void: bool,
}

/// The reading application's view of the streams of one name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Heard {
    /// The last message that the application took or judged.
    last: Option<Message>,
    /// The application's process has died since then.
    forgot: bool,
    /// The application has heard that the stream of that message breaks.
    broken: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Ledger {
    letters: Vec<Letter>,
    heard: [Heard; 2],
    life: u8,
    /// A record of the reader may be lost, or a message was given up: messages may be in doubt.
    pub(super) doubt: bool,
    /// A message ended in its queue, or was withdrawn, at a place that is not used again: the reader may be told of more missing messages
    /// than there are.
    pub(super) counts_more: bool,
}

fn ensure(good: bool, what: &'static str) -> Checked {
    if good { Ok(()) } else { Err(what) }
}

impl Ledger {
    pub(super) fn new(scene: &Scene) -> Self {
        let mut ended = [0; 2];
        let letters = scene.script.iter().map(|line| {
            let ends = line.end != StreamEnd::Open;
            let of = (0, ended[line.stream]);
            ended[line.stream] += u8::from(ends);
            let (fate, stream) = (Fate::Waits, line.stream as u8);
            Letter { stream, ends, of, fate, taken: false, rejected: false, void: false }
        });
        Self {
            letters: letters.collect(),
            heard: [Heard::default(); 2],
            life: 0,
            doubt: false,
            counts_more: false,
        }
    }

    fn letter(&self, m: Message) -> &Letter {
        &self.letters[usize::from(m)]
    }

    fn letter_mut(&mut self, m: Message) -> &mut Letter {
        &mut self.letters[usize::from(m)]
    }

    pub(super) fn fate(&self, m: Message) -> Fate {
        self.letter(m).fate
    }

    /// The messages behind this one in the streams of its name.
    pub(super) fn behind(&self, m: Message) -> impl Iterator<Item = Message> {
        let stream = self.letter(m).stream;
        let all = (m + 1..).zip(&self.letters[usize::from(m) + 1..]);
        all.filter(move |(_, other)| other.stream == stream).map(|(other, _)| other)
    }

    pub(super) fn are_all_settled(&self) -> bool {
        self.letters.iter().all(|letter| !matches!(letter.fate, Fate::Waits | Fate::Open))
    }

    // --- the sending application ---

    pub(super) fn send(&mut self, m: Message) {
        let life = self.life;
        let letter = self.letter_mut(m);
        letter.fate = Fate::Open;
        letter.of.0 = life;
    }

    /// The application is told the outcome of a message.
    pub(super) fn tell(&mut self, m: Message, fate: Fate) -> Checked {
        let letter = *self.letter(m);
        ensure(letter.fate == Fate::Open, "two outcomes")?;
        match fate {
            Fate::Delivered => ensure(letter.taken, "Delivered, and not taken")?,
            Fate::Rejected => ensure(letter.rejected, "Rejected, and not rejected")?,
            Fate::Cancelled => {
                ensure(!letter.taken, "Cancelled, and taken")?;
                ensure(!letter.rejected, "Cancelled, and rejected")?;
            }
            Fate::Unknown => ensure(self.doubt, "Unknown, and nobody forgot")?,
            Fate::Waits | Fate::Open | Fate::Lost => {}
        }
        // It counts as missing, though it was withdrawn.
        self.counts_more |= letter.void && fate == Fate::Unknown;
        self.letter_mut(m).fate = fate;
        Ok(())
    }

    /// The application's process dies, and another one begins.
    pub(super) fn writer_dies(&mut self) {
        self.life += 1;
        for letter in self.letters.iter_mut().filter(|letter| letter.fate == Fate::Open) {
            letter.fate = Fate::Lost;
        }
    }

    // --- the reading application ---

    pub(super) fn reader_dies(&mut self) {
        self.heard.iter_mut().for_each(|heard| heard.forgot = true);
        // It forgets which were withdrawn.
        self.counts_more |= self.letters.iter().any(|letter| letter.void);
        self.doubt = true;
    }

    /// The application never sees the message.
    pub(super) fn withdraw(&mut self, m: Message) -> Checked {
        let letter = self.letter_mut(m);
        letter.void = true;
        ensure(!letter.taken && !letter.rejected, "withdrawn, and taken")
    }

    /// The application gets the message, and is told of the gap between it and the last one.
    pub(super) fn hear(&mut self, m: Message, gap: Gap) -> Checked {
        let letter = *self.letter(m);
        ensure(!letter.taken && !letter.rejected, "taken twice")?;
        ensure(!matches!(letter.fate, Fate::Cancelled | Fate::Rejected), "Cancelled, and taken later")?;
        let heard = self.heard[usize::from(letter.stream)];
        ensure(heard.last.is_none_or(|last| last < m), "out of order")?;
        let before = heard.last.filter(|_| !heard.forgot);
        match before.map(|last| (last, self.letter(last))) {
            Some((last, before)) if before.of == letter.of => self.check_next(gap, self.lost(last + 1, m))?,
            Some((_, before)) if !before.ends && !heard.broken => self.check_break(gap, before)?,
            _ => self.check_first(gap, self.lost(0, m), heard.forgot)?,
        }
        if gap == Gap::Breaks {
            self.heard[usize::from(letter.stream)].broken = true;
        }
        Ok(())
    }

    fn check_next(&self, gap: Gap, lost: u64) -> Checked {
        match gap {
            Gap::None => ensure(lost == 0, "a gap is not told"),
            Gap::Missing(said) => {
                ensure(said >= lost, "less is told missing than is")?;
                ensure(said == lost || self.counts_more, "more is told missing than is")
            }
            Gap::Opens => Err("a stream opens twice"),
            Gap::Breaks => Err("a break is told that is none"),
            Gap::Continues(_) => Err("a reader is told that it knows nothing"),
        }
    }

    /// The application has heard of no end after this message, which it took last. The next message is of another stream.
    fn check_break(&self, gap: Gap, before: &Letter) -> Checked {
        ensure(gap == Gap::Breaks, "a stream goes on as another")?;
        let withdrawn = |other: &Letter| other.void || other.fate == Fate::Cancelled;
        let its_end =
            |other: &&Letter| (other.stream, other.of, other.ends) == (before.stream, before.of, true);
        ensure(!self.letters.iter().filter(its_end).any(withdrawn), "an end is told as a break")
    }

    fn check_first(&self, gap: Gap, lost: u64, forgot: bool) -> Checked {
        match gap {
            Gap::Opens => ensure(lost == 0, "what came before is not told"),
            Gap::Continues(said) => {
                ensure(said > 0 && (forgot || self.counts_more || said == lost), "more came before than did")
            }
            Gap::None | Gap::Missing(_) => Err("it knows nothing of what came before"),
            Gap::Breaks => Err("a break of what nobody knows"),
        }
    }

    /// The number of messages in the stream of `m`, from `from` on and before `m`, that are not certainly withdrawn.
    fn lost(&self, from: Message, m: Message) -> u64 {
        let letter = self.letter(m);
        let between = self.letters[usize::from(from)..usize::from(m)].iter();
        let of_it = between.filter(|other| (other.stream, other.of) == (letter.stream, letter.of));
        of_it.filter(|other| !other.void && other.fate != Fate::Cancelled).count() as u64
    }

    /// The application takes the message, or rejects it.
    pub(super) fn take(&mut self, m: Message, rejects: bool) -> Checked {
        let letter = self.letter_mut(m);
        letter.taken |= !rejects;
        letter.rejected |= rejects;
        let (stream, fate) = (letter.stream, letter.fate);
        self.heard[usize::from(stream)] = Heard { last: Some(m), forgot: false, broken: false };
        ensure(fate != Fate::Cancelled, "Cancelled, and taken later")
    }
}
