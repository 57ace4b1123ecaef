//! The steps of a message, as `exon trace` prints them.

mod step;
mod timeline;

pub(crate) use step::{Happened, said};
pub(crate) use timeline::Timeline;

use crate::units::counted;

/// The text for steps that a follower had no room for.
pub(crate) fn too_much(steps: u64, messages: u64) -> String {
    let (steps, messages) = (counted(steps, "step"), counted(messages, "message"));
    format!("too much at once: {steps} are not shown, and {messages} not followed")
}
