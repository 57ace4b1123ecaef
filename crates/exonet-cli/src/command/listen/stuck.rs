//! Deliveries that this machine cannot store at the moment.

use std::collections::VecDeque;
use std::future::pending;
use std::io;
use std::time::Duration;

use exonet::{Delivery, NodeId};
use tokio::time::Instant;

use crate::settings::Settings;
use crate::units;

/// The pause before the first retry, and the longest pause.
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);

/// Deliveries that wait until storing is retried. Until then, their senders keep them.
#[derive(Debug, Default)]
pub(super) struct Stuck {
    /// The deliveries, nearly in the order of their times: pauses only get longer until something is stored.
    waiting: VecDeque<(Instant, Delivery)>,
    /// The next pause, or None while storing works.
    pause: Option<Duration>,
    /// A failure before this time is neither reported nor makes the pause longer.
    quiet_until: Option<Instant>,
}

impl Stuck {
    pub(super) fn put(&mut self, settings: &Settings, delivery: Delivery, error: &io::Error) {
        let until = self.failed(settings, delivery.from(), error);
        self.waiting.push_back((until, delivery));
    }

    /// Reports that storing failed, if that is new. Returns the time of the retry.
    pub(super) fn failed(&mut self, settings: &Settings, from: NodeId, error: &io::Error) -> Instant {
        let now = Instant::now();
        let pause = self.pause.unwrap_or(FIRST);
        if self.quiet_until.is_none_or(|until| now >= until) {
            let again = units::span(pause);
            settings.error(format!(
                "cannot store what {} sends: {error}; it was not taken, and will be tried again in {again}",
                from.short()
            ));
            self.pause = Some(pause.saturating_mul(2).min(LONGEST));
            self.quiet_until = Some(now + pause);
        }
        now + pause
    }

    /// Notes that something was stored.
    pub(super) fn work_again(&mut self, settings: &Settings) {
        if self.pause.take().is_some() {
            self.quiet_until = None;
            settings.note("messages can be stored again");
        }
    }

    /// Drops a delivery that has waited long enough, so that it is handed out again. Cancel-safe.
    pub(super) async fn over(&mut self) {
        match self.waiting.front() {
            Some((until, _)) => tokio::time::sleep_until(*until).await,
            None => pending().await,
        }
        self.waiting.pop_front();
    }
}
