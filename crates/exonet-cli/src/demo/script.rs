//! The accidents of a run, and their times.

use std::time::Duration;

/// A kind of accident.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Accident {
    /// The network is down for this long.
    Outage(Duration),
    /// An address translator forgets its entry: the receiver sees the sender at another port.
    NewMapping,
    /// The process of the receiver is killed and started again.
    Crash,
    /// The process of the sender with a journal is killed and started again.
    SenderCrash,
    /// The sender moves to another address.
    Move,
}

/// The accidents in order, each at a share of the messages.
#[derive(Clone, Debug)]
pub(super) struct Script {
    coming: std::collections::VecDeque<(u64, Accident)>,
    messages: u64,
    /// How many messages may be offered ahead of the next accident, so that some are under way when it happens.
    ahead: u64,
}

impl Script {
    /// `crash` says whether the receiver is killed, and `sender` whether a sender is.
    pub(super) fn new(messages: u64, outage: Duration, (crash, sender): (bool, bool)) -> Self {
        let at = |twentieths: u64| messages.saturating_mul(twentieths) / 20;
        let all = [
            (at(4), Accident::Outage(outage)),
            (at(8), Accident::NewMapping),
            (at(11), Accident::Crash),
            (at(13), Accident::SenderCrash),
            (at(15), Accident::Move),
        ];
        let happens = |accident: &Accident| match accident {
            Accident::Outage(outage) => !outage.is_zero(),
            Accident::Crash => crash,
            Accident::SenderCrash => sender,
            Accident::NewMapping | Accident::Move => true,
        };
        Self {
            coming: all.into_iter().filter(|(_, accident)| happens(accident)).collect(),
            messages,
            ahead: (messages / 20).max(1),
        }
    }

    /// The accident that is due when this many messages have ended.
    pub(super) fn due(&mut self, through: u64) -> Option<Accident> {
        let (at, _) = self.coming.front()?;
        (through >= *at).then(|| self.coming.pop_front())?.map(|(_, accident)| accident)
    }

    /// How many messages may be offered before the next accident.
    pub(super) fn gate(&self) -> u64 {
        self.coming.front().map_or(self.messages, |(at, _)| at.saturating_add(self.ahead).min(self.messages))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// For any number of messages, all accidents happen in order, and none waits for a message that in turn waits
        /// for it.
        #[test]
        fn the_gate_never_locks(messages in 1_u64..100_000, outage in 0_u64..3, crash: bool, sender: bool) {
            let mut script = Script::new(messages, Duration::from_secs(outage), (crash, sender));
            let mut happened = 0;
            let mut through = 0;
            while through < messages {
                prop_assert!(script.gate() > through);
                through = script.gate();
                while script.due(through).is_some() {
                    happened += 1;
                }
            }
            let chosen = [outage > 0, crash, sender].map(usize::from).iter().sum::<usize>();
            prop_assert_eq!(happened, 2 + chosen);
        }
    }
}
