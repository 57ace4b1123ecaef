//! Messages that some of the members must have.

use std::sync::{Mutex, PoisonError};

/// How many members of the process have each message.
#[derive(Debug)]
pub(crate) struct Tally {
    required: u32,
    /// By the number of the message.
    copies: Mutex<Vec<u32>>,
}

impl Tally {
    /// `required` members must have each message.
    pub(crate) fn new(required: u32) -> Self {
        Self { required, copies: Mutex::default() }
    }

    /// Notes a copy of a message. Returns whether the required members have it with this copy.
    pub(super) fn completes(&self, number: u64) -> bool {
        let Ok(at) = usize::try_from(number) else { return false };
        let mut all = self.copies.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() <= at {
            all.resize(at + 1, 0);
        }
        all.get_mut(at).is_some_and(|copies| {
            *copies += 1;
            *copies == self.required
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_complete_once() {
        let tally = Tally::new(2);
        let told = [5, 0, 5, 5, 0, 1].map(|number| tally.completes(number));
        assert_eq!(told, [false, false, true, false, true, false]);
    }
}
