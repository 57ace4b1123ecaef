//! The real fate of every message, beside the outcome that the sender was told.

use crate::config::Config;
use crate::violation::{Checked, Kind, ensure};

/// A message: its place among those of the configuration, flow by flow.
pub type Letter = u8;

/// The outcome that the sending application was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Outcome {
    Delivered,
    /// A call has its reply.
    Replied,
    Unknown,
    /// The receiving application does not take it.
    Rejected,
    /// The message never left as a token.
    Cancelled,
    /// The sender's node forgot the message in a crash, gave it up, or heard that its stamp is refused.
    LetGo,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Fate {
    Unsent,
    Open,
    Told(Outcome),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Entry {
    delivered: bool,
    /// The message is a call and was answered.
    answered: bool,
    /// The message is a call that was delivered; since then its server has crashed or has forgotten the reply.
    lost: bool,
    /// The number of the call that this reply answers.
    answers: Option<u64>,
    fate: Fate,
}

/// The judge of the model.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Ledger {
    entries: Vec<Entry>,
}

impl Ledger {
    pub(crate) fn new(config: &Config) -> Self {
        let unsent =
            Entry { delivered: false, answered: false, lost: false, answers: None, fate: Fate::Unsent };
        Self { entries: vec![unsent; config.letters().count()] }
    }

    /// The next message from `at` to `to`, which is sent now.
    pub(crate) fn send(&mut self, config: &Config, at: usize, to: usize) -> Option<Letter> {
        let next = self.next(config, at, to)?;
        self.entries[usize::from(next)].fate = Fate::Open;
        Some(next)
    }

    /// The next message from `at` to `to` that is not sent yet.
    pub(crate) fn next(&self, config: &Config, at: usize, to: usize) -> Option<Letter> {
        let mut flow = config.letters().filter(|(_, from, until)| (*from, *until) == (at, to));
        flow.find(|(letter, ..)| self.fate(*letter) == Fate::Unsent).map(|(letter, ..)| letter)
    }

    /// How many messages from `at` to `to` are not sent yet.
    pub(crate) fn left(&self, config: &Config, at: usize, to: usize) -> u8 {
        let flow = config.letters().filter(|(letter, from, until)| {
            (*from, *until) == (at, to) && self.fate(*letter) == Fate::Unsent
        });
        flow.count() as u8
    }

    pub(crate) fn fate(&self, letter: Letter) -> Fate {
        self.entries[usize::from(letter)].fate
    }

    pub(crate) fn is_delivered(&self, letter: Letter) -> bool {
        self.entries[usize::from(letter)].delivered
    }

    /// **E**: a message is delivered at most once. **F**: it is not delivered after Cancelled or Rejected was reported.
    pub(crate) fn deliver(&mut self, letter: Letter) -> Checked {
        let entry = &mut self.entries[usize::from(letter)];
        ensure(!entry.delivered, Kind::E, || format!("m{letter} is delivered again"))?;
        let withdrawn = entry.fate == Fate::Told(Outcome::Cancelled);
        ensure(!withdrawn, Kind::F, || format!("m{letter} is delivered, and was reported Cancelled"))?;
        let rejected = entry.fate == Fate::Told(Outcome::Rejected);
        ensure(!rejected, Kind::F, || format!("m{letter} is delivered, and was reported Rejected"))?;
        entry.delivered = true;
        Ok(())
    }

    /// The application rejects a message that it has not taken.
    pub(crate) fn reject(&mut self, letter: Letter) -> Checked {
        let entry = &self.entries[usize::from(letter)];
        ensure(!entry.delivered, Kind::E, || format!("m{letter} is rejected, and was delivered"))
    }

    /// **F**: Delivered means delivered, and Cancelled that it was not; one outcome each.
    pub(crate) fn tell(&mut self, letter: Letter, outcome: Outcome) -> Checked {
        let entry = &mut self.entries[usize::from(letter)];
        let open = entry.fate == Fate::Open;
        ensure(open, Kind::F, || format!("m{letter} is reported {outcome:?} after {:?}", entry.fate))?;
        entry.fate = Fate::Told(outcome);
        let true_word = match outcome {
            Outcome::Delivered => entry.delivered,
            Outcome::Replied => entry.delivered && entry.answered,
            Outcome::Cancelled | Outcome::Rejected => !entry.delivered,
            Outcome::Unknown | Outcome::LetGo => true,
        };
        ensure(true_word, Kind::F, || format!("m{letter} is reported {outcome:?}, which is not so"))
    }

    // --- calls ---

    /// The application has answered a call.
    pub(crate) fn answer(&mut self, letter: Letter) {
        self.entries[usize::from(letter)].answered = true;
    }

    /// The server of a call has crashed, or forgotten its reply.
    pub(crate) fn lose(&mut self, letter: Letter) {
        let entry = &mut self.entries[usize::from(letter)];
        entry.lost |= entry.delivered && entry.fate == Fate::Open;
    }

    /// Whether the server of a call has forgotten that it ran.
    pub(crate) fn is_lost(&self, letter: Letter) -> bool {
        self.entries[usize::from(letter)].lost
    }

    /// The reply to the call `s`, which is `letter`, leaves as a message. Returns that message.
    pub(crate) fn reply(&mut self, config: &Config, letter: Letter, s: u64) -> Option<Letter> {
        let of = |reply: &Letter| config.answered_by(*reply) == Some(letter);
        let mut all = config.letters().map(|(reply, ..)| reply).filter(of);
        let next = all.find(|reply| self.fate(*reply) == Fate::Unsent)?;
        let entry = &mut self.entries[usize::from(next)];
        (entry.fate, entry.answers) = (Fate::Open, Some(s));
        Some(next)
    }

    /// The number of the call that a message is the reply to.
    pub(crate) fn answers(&self, letter: Letter) -> Option<u64> {
        self.entries[usize::from(letter)].answers
    }

    /// The sender's node has forgotten the outcome that it told, or never stored it.
    pub(crate) fn reopen(&mut self, letter: Letter) {
        self.entries[usize::from(letter)].fate = Fate::Open;
    }
}
