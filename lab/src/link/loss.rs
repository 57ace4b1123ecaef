//! Which packets are lost.

use fastrand::Rng;

/// A model of loss.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Loss {
    None,
    /// Each packet by itself, with this probability.
    Random(f64),
    /// Runs of lost packets (Gilbert's model: in the bad state all are lost): the share of all packets that are lost,
    /// below 1, and the mean length of a run on a busy line, in full packets, at least 1. The state also changes while
    /// nothing is sent: a lone packet that is repeated later does not meet the same run again and again.
    Bursts {
        share: f64,
        length: f64,
    },
}

/// A model at work.
#[derive(Debug)]
pub(super) struct Losing {
    model: Loss,
    bad: bool,
    /// When the last packet passed.
    last: u64,
    /// How long a full packet takes on the line.
    slot: u64,
}

impl Losing {
    /// `slot`: how long a full packet takes on the line, in ns.
    pub(super) const fn new(model: Loss, slot: u64) -> Self {
        Self { model, bad: false, last: 0, slot: if slot == 0 { 1 } else { slot } }
    }

    /// Whether the next packet is lost, which passes now.
    pub(super) fn next(&mut self, now: u64, dice: &mut Rng) -> bool {
        match self.model {
            Loss::None => false,
            Loss::Random(share) => dice.f64() < share,
            Loss::Bursts { share, length } => {
                #[allow(clippy::cast_precision_loss)] // far below 2^53
                let steps = (now.saturating_sub(self.last) as f64 / self.slot as f64).max(1.0);
                self.last = now;
                // In balance the bad state has its share: enter x (1 - share) = leave x share. What is left of the
                // present state after some steps is (1 - enter - leave) to their power.
                let leave = 1.0 / length.max(1.0);
                let memory = (1.0 - leave / (1.0 - share)).max(0.0).powf(steps);
                let bad = share * (1.0 - memory) + if self.bad { memory } else { 0.0 };
                self.bad = dice.f64() < bad;
                self.bad
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The share of lost packets and the mean length of their runs, with a packet in each `every`th slot.
    fn observe(model: Loss, every: u64) -> (f64, f64) {
        const PACKETS: u32 = 1_000_000;
        let (mut losing, mut dice) = (Losing::new(model, 10), Rng::with_seed(1));
        let (mut lost, mut runs, mut before) = (0_u32, 0_u32, false);
        for packet in 0..u64::from(PACKETS) {
            let gone = losing.next(packet * every * 10, &mut dice);
            lost += u32::from(gone);
            runs += u32::from(gone && !before);
            before = gone;
        }
        (f64::from(lost) / f64::from(PACKETS), f64::from(lost) / f64::from(runs.max(1)))
    }

    #[test]
    fn nothing_is_lost_unless_asked() {
        assert_eq!(observe(Loss::None, 1).0, 0.0);
    }

    #[test]
    fn random_loss_has_its_share_and_no_memory() {
        let (share, run) = observe(Loss::Random(0.05), 1);
        assert!((share - 0.05).abs() < 0.001, "{share}");
        assert!((run - 1.0 / 0.95).abs() < 0.01, "{run}");
    }

    #[test]
    fn bursts_have_their_share_and_their_length() {
        let (share, run) = observe(Loss::Bursts { share: 0.05, length: 10.0 }, 1);
        assert!((share - 0.05).abs() < 0.003, "{share}");
        assert!((run - 10.0).abs() < 0.3, "{run}");
    }

    #[test]
    fn bursts_end_while_nothing_is_sent() {
        let (share, run) = observe(Loss::Bursts { share: 0.05, length: 10.0 }, 1_000);
        assert!((share - 0.05).abs() < 0.001, "{share}");
        assert!((run - 1.0 / 0.95).abs() < 0.01, "{run}");
    }
}
