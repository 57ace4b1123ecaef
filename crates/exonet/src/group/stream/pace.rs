//! Decides when the next message of a stream may be sent to its members, and which of them are too far behind. It
//! does no I/O.

/// What happens to a member of a stream that has reached its limit of open messages:
/// [`GroupStream::queue`](super::GroupStream::queue).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WhenFull {
    /// The member falls out of the stream. The application here gets a [`Departure`](super::Departure), and the
    /// member sees a reset. The stream runs at the pace of its fastest member, or with a quorum at that of the slowest
    /// of the `acks` fastest: it waits while fewer members have less than half of their limit open. So a member falls
    /// out when it is half of the limit behind those, as many stay as must have the message, and these wait for no
    /// other.
    #[default]
    FallOut,
    /// The whole stream waits for the member.
    Wait,
}

/// The decision about the next message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    /// It goes to all members except those at these places, which fall out.
    GoWithout(Vec<usize>),
    Wait,
}

/// Decides for members that have these numbers of `open` messages. Each may have `queue` of them, at least one. `need` of
/// the members set the pace.
pub(super) fn pace(when_full: WhenFull, queue: usize, open: &[usize], need: usize) -> Pace {
    let near = open.iter().filter(|open| **open < queue.div_ceil(2)).count();
    let full = || open.iter().enumerate().filter(|(_, open)| **open >= queue).map(|(at, _)| at);
    match when_full {
        WhenFull::FallOut if near < need => Pace::Wait,
        WhenFull::FallOut => Pace::GoWithout(full().collect()),
        WhenFull::Wait if full().next().is_some() => Pace::Wait,
        WhenFull::Wait => Pace::GoWithout(Vec::new()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_one_that_is_far_behind_falls_out() {
        assert_eq!(pace(WhenFull::FallOut, 8, &[0, 7, 3], 1), Pace::GoWithout(vec![]));
        assert_eq!(pace(WhenFull::FallOut, 8, &[0, 8, 3], 1), Pace::GoWithout(vec![1]));
        assert_eq!(pace(WhenFull::FallOut, 8, &[4, 8, 5], 1), Pace::Wait, "the fastest is waited for");
        assert_eq!(pace(WhenFull::Wait, 8, &[0, 8, 3], 1), Pace::Wait);
        assert_eq!(pace(WhenFull::Wait, 8, &[7, 7], 1), Pace::GoWithout(vec![]));
        assert_eq!(pace(WhenFull::FallOut, 1, &[1, 0], 1), Pace::GoWithout(vec![0]));
        assert_eq!(pace(WhenFull::FallOut, 1, &[1], 1), Pace::Wait, "a stream with one member waits for it");
        assert_eq!(pace(WhenFull::FallOut, 8, &[0, 8, 3], 2), Pace::GoWithout(vec![1]));
        assert_eq!(pace(WhenFull::FallOut, 8, &[0, 8, 4], 2), Pace::Wait, "the second is waited for");
    }

    proptest! {
        /// Members settle their messages at any speed, and messages are sent as fast as the pace allows.
        #[test]
        fn whatever_the_speeds_queues_are_bounded_and_the_fastest_stay(
            waits: bool,
            need in 1_usize..=3,
            queue in 1_usize..20,
            steps in proptest::collection::vec(proptest::collection::vec(0_usize..4, 5), 0..200),
        ) {
            let when_full = if waits { WhenFull::Wait } else { WhenFull::FallOut };
            let mut open = vec![0_usize; 5];
            let mut speeds: Vec<usize> = (0..5).collect();
            for step in steps {
                match pace(when_full, queue, &open, need) {
                    Pace::GoWithout(out) => {
                        prop_assert!(out.is_empty() || !waits, "nothing falls out of a stream that waits");
                        let mut fast = open.clone();
                        fast.sort_unstable();
                        for at in out.into_iter().rev() {
                            let behind = open[at] - fast[need - 1];
                            prop_assert!(behind >= queue / 2, "it was not far behind: {fast:?}");
                            open.remove(at);
                            speeds.remove(at);
                        }
                        prop_assert!(open.len() >= need, "too few stay");
                        open.iter_mut().for_each(|open| *open += 1);
                    }
                    Pace::Wait if waits => prop_assert!(open.iter().any(|open| *open >= queue)),
                    Pace::Wait => {
                        let near = open.iter().filter(|open| 2 * **open < queue).count();
                        prop_assert!(near < need, "those that have room are not held back");
                    }
                }
                prop_assert!(open.iter().all(|open| *open <= queue));
                for (open, speed) in open.iter_mut().zip(&speeds) {
                    *open -= step[*speed].min(*open);
                }
            }
        }
    }
}
