//! Messages that outlive processes.

use super::{Invited, Scenario, Wire, cell};
use crate::app::Work;

pub(super) fn durable() -> Scenario {
    let of = |name: &str, under_way, kills| cell(name, Wire::Cable, Work::Durable { under_way, kills });
    Scenario {
        name: "durable",
        about: "messages that outlive the processes at both ends, no emulator",
        cells: vec![
            of("256 under way", 256, 0).ranks(1).takes([2.0, 8.0]),
            of("1 under way", 1, 0).ranks(1).takes([2.0, 8.0]),
            of("256 under way, the receiver killed 3 times", 256, 3).ranks(2).takes([4.0, 8.0]),
        ],
        invited: Invited::Only(
            &["exonet-process", "exonet-sync", "jetstream", "jetstream-always", "outbox-sqlite"],
            "it keeps nothing on the disk",
        ),
    }
}
