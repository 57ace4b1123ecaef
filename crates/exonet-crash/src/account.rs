//! What both sides reported of messages, and whether the reports are consistent.

use std::collections::{BTreeMap, BTreeSet};

/// How often, and with which ids, a message was handed out.
#[derive(Clone, Debug, Default)]
struct Got {
    ids: BTreeSet<String>,
    attempts: Vec<u32>,
}

/// The losses that a world may have, given its faults.
#[derive(Clone, Copy)]
pub(crate) struct Bounds {
    /// Accepted messages may be lost.
    pub(crate) may_lose: bool,
    /// Messages may end Unknown.
    pub(crate) may_not_know: bool,
    /// A disk has forgotten what it said that it had forced, and no software can make up for that. The messages of this life
    /// of the sender and of later ones were accepted after that.
    pub(crate) sound_from: usize,
}

impl Bounds {
    /// Whether a message of this name was accepted before a disk had forgotten something. It may be lost, come twice, or
    /// count as delivered in the place of another.
    fn is_harmed(&self, name: &str) -> bool {
        let life = name.split('-').next().and_then(|life| life.parse::<usize>().ok());
        life.is_none_or(|life| life < self.sound_from)
    }
}

#[derive(Default)]
pub(crate) struct Account {
    accepted: Vec<String>,
    got: BTreeMap<String, Got>,
    delivered: BTreeSet<String>,
    unknown: usize,
    /// Errors in any case, whatever the faults.
    wrong: Vec<String>,
    /// A sender has settled all its messages.
    pub(crate) is_done: bool,
    /// The reasons for which parts have stopped by themselves.
    pub(crate) stopped: Vec<String>,
}

impl Account {
    pub(crate) fn hear(&mut self, line: &str) {
        let mut words = line.split(' ');
        match (words.next().unwrap_or_default(), words.next().unwrap_or_default()) {
            ("accepted", name) => self.accepted.push(name.to_owned()),
            ("got", name) => {
                let got = self.got.entry(name.to_owned()).or_default();
                got.ids.extend(words.next().map(str::to_owned));
                got.attempts.extend(words.next().and_then(|attempt| attempt.parse::<u32>().ok()));
            }
            ("delivered", "-") => {}
            ("delivered", name) => {
                self.delivered.insert(name.to_owned());
            }
            ("unknown", _) => self.unknown += 1,
            ("done", _) => self.is_done = true,
            ("at" | "recovered" | "full", _) => {}
            ("stopped", _) => self.stopped.push(line.to_owned()),
            _ => self.wrong.push(format!("an outcome that nobody caused: {line}")),
        }
    }

    pub(crate) fn accepted(&self) -> usize {
        self.accepted.len()
    }

    pub(crate) fn processed(&self) -> usize {
        self.got.len()
    }

    pub(crate) fn redelivered(&self) -> usize {
        self.got.values().map(|got| got.attempts.len() - 1).sum()
    }

    pub(crate) fn unknown(&self) -> usize {
        self.unknown
    }

    /// The inconsistencies.
    pub(crate) fn violations(&self, bounds: Bounds) -> Vec<String> {
        let mut wrong = self.wrong.clone();
        for (name, got) in self.got.iter().filter(|(name, _)| !bounds.is_harmed(name)) {
            if got.ids.len() > 1 {
                wrong.push(format!("doubled: {name} was handed out as {:?}", got.ids));
            }
            // The attempt that is reported may be too low, since it is not forced to the disk.
            let flagged = got.attempts.iter().skip(1).all(|attempt| *attempt > 1);
            if !bounds.may_lose && !flagged {
                wrong.push(format!(
                    "{name} was handed out again without the flag: attempts {:?}",
                    got.attempts
                ));
            }
        }
        let is_missing = |name: &&String| !self.got.contains_key(*name) && !bounds.is_harmed(name);
        for name in self.delivered.iter().filter(is_missing) {
            wrong.push(format!("{name} was called delivered, and nobody got it"));
        }
        if !bounds.may_lose {
            let lost = self.accepted.iter().filter(is_missing);
            wrong.extend(lost.map(|name| format!("lost: {name} was accepted, and nobody got it")));
        }
        if self.unknown > 0 && !bounds.may_not_know {
            wrong.push(format!("{} messages ended unknown", self.unknown));
        }
        wrong
    }
}
