//! A wait that doubles each time.

use core::time::Duration;

/// The last wait; zero if there has been none since the start, or since [`Backoff::reset`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Backoff(Duration);

impl Backoff {
    /// The next wait: twice the last one, at least `least` and at most `most`.
    pub(crate) fn next(&mut self, least: Duration, most: Duration) -> Duration {
        self.0 = self.peek(least, most);
        self.0
    }

    /// What [`Backoff::next`] would return.
    pub(crate) fn peek(self, least: Duration, most: Duration) -> Duration {
        self.0.saturating_mul(2).max(least).min(most)
    }

    /// Sets the last wait to `wait`.
    pub(crate) const fn set(&mut self, wait: Duration) {
        self.0 = wait;
    }

    pub(crate) const fn reset(&mut self) {
        self.0 = Duration::ZERO;
    }

    pub(crate) const fn last(self) -> Duration {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_between_least_and_most_and_begin_anew() {
        let ms = Duration::from_millis;
        let mut backoff = Backoff::default();
        let waits = |backoff: &mut Backoff| core::array::from_fn(|_| backoff.next(ms(30), ms(200)));
        assert_eq!(waits(&mut backoff), [30, 60, 120, 200, 200].map(ms));
        assert_eq!(backoff.next(ms(300), ms(200)), ms(200), "never beyond");
        backoff.reset();
        assert_eq!((backoff.peek(ms(30), ms(200)), backoff.last()), (ms(30), ms(0)));
        assert_eq!(waits(&mut backoff), [30, 60, 120, 200, 200].map(ms));
    }
}
