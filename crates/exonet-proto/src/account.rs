//! Counts of things that are held. They never fall below zero.

/// A count of things that come and go.
pub(crate) trait Account: Copy {
    /// Takes `amount` out again. Taking out more than there is would be a bug in this crate: debug builds stop there.
    fn give_back(&mut self, amount: Self);
}

macro_rules! account {
    ($($number:ty),*) => {$(
        impl Account for $number {
            #[inline]
            fn give_back(&mut self, amount: Self) {
                debug_assert!(*self >= amount, "{amount} are given back of {self}");
                *self = self.saturating_sub(amount);
            }
        }
    )*};
}

account!(u32, u64, usize);
