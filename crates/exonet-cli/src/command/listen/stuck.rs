//! What this machine cannot store just now.

use std::collections::VecDeque;
use std::future::pending;
use std::io;
use std::time::Duration;

use exonet::{Delivery, NodeId};
use tokio::time::Instant;

use crate::settings::Settings;
use crate::units;

/// The pause before the first try again, and the longest.
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);

/// Deliveries that wait until storing is tried again. Meanwhile their senders keep them.
#[derive(Debug, Default)]
pub(super) struct Stuck {
    /// In the order of their times, nearly: pauses only get longer until something is stored.
    waiting: VecDeque<(Instant, Delivery)>,
    /// The next pause; none while storing works.
    pause: Option<Duration>,
    /// Only a failure after that time is worth a word, and a longer pause.
    quiet_until: Option<Instant>,
}

impl Stuck {
    pub(super) fn put(&mut self, settings: &Settings, delivery: Delivery, error: &io::Error) {
        let until = self.failed(settings, delivery.from(), error);
        self.waiting.push_back((until, delivery));
    }

    /// Says that storing failed, if that is news. Gives when it is to be tried again.
    pub(super) fn failed(&mut self, settings: &Settings, from: NodeId, error: &io::Error) -> Instant {
        let now = Instant::now();
        let pause = self.pause.unwrap_or(FIRST);
        if self.quiet_until.is_none_or(|until| now >= until) {
            let again = units::span(pause);
            settings.error(format!(
                "cannot store what {} sends: {error}; it was not taken, and is tried again in {again}",
                from.short()
            ));
            self.pause = Some(pause.saturating_mul(2).min(LONGEST));
            self.quiet_until = Some(now + pause);
        }
        now + pause
    }

    /// Something was stored.
    pub(super) fn work_again(&mut self, settings: &Settings) {
        if self.pause.take().is_some() {
            self.quiet_until = None;
            settings.note("storing works again");
        }
    }

    /// Lets go what has waited long enough: it is handed out again. Cancel-safe.
    pub(super) async fn over(&mut self) {
        match self.waiting.front() {
            Some((until, _)) => tokio::time::sleep_until(*until).await,
            None => pending().await,
        }
        self.waiting.pop_front();
    }
}
