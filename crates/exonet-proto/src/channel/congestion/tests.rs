//! Common parts of the tests of controllers.

use super::*;

/// An ACK of `bytes` that have just left, on a path without a queue, with nothing else under way.
pub(super) fn ack(now: Mono, bytes: u64, path: &Rtt) -> AckInfo<'_> {
    AckInfo {
        now,
        bytes,
        packets: [0; TAGS],
        in_flight: 0,
        sent_at: now,
        app_limited: false,
        path,
        rtt: None,
        ack_delay: Duration::ZERO,
        forward: None,
        capacity: None,
        train: None,
        rate: None,
        delivered: 0,
        ce: 0,
    }
}
