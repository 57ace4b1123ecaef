//! Streams beside each other, one message to many, and one file from many.

use super::{Cell, Invited, Scenario, Spoke, Wire, cell, percent};
use crate::app::{Servers, Work};

/// The load is about half of the link's capacity.
pub(super) fn head_of_line() -> Scenario {
    let on = |loss, lanes, per_second| {
        let name = match lanes {
            1 => format!("a stream alone, {loss} %"),
            lanes => format!("{lanes} streams, {loss} %"),
        };
        cell(name, Wire::link(20.0, 40, percent(loss)), Work::Lanes { lanes, per_second })
    };
    let cells = [0, 1, 5].map(|loss| on(loss, 100, 1_200).ranks(2));
    // At twelve messages a second, a 99th percentile needs a long run.
    let alone = on(5, 1, 12).ranks(3).takes([20.0, 60.0]);
    Scenario {
        name: "head-of-line",
        about: "1,200 messages a second in turn on 100 streams, 20 Mbit/s, RTT 40 ms, loss each way",
        cells: cells.into_iter().chain([alone]).collect(),
        invited: Invited::Only(
            &["exonet", "tcp-cubic", "tcp-bbr", "http2", "quinn-cubic", "quinn-bbr", "sctp"],
            "the scenario compares transports with streams, and TCP with one stream for all",
        ),
    }
}

/// The number of copies a second is the same for 10 members and more, and in every mode, if no copy is withdrawn.
pub(super) fn fan_out() -> Scenario {
    let cells = [(1, 1_000), (10, 500), (100, 50), (500, 10)].map(|(members, per_second)| {
        let name = if members == 1 { "1 member".into() } else { format!("{members} members") };
        cell(name, Wire::Cable, Work::Fan { members, per_second }).ranks(2).takes([3.0, 8.0])
    });
    Scenario {
        name: "fan-out",
        about: "one message to 1 to 500 members, 5,000 copies a second (to one member 1,000), no emulator",
        cells: cells.into(),
        invited: Invited::Only(
            &[
                "exonet",
                "exonet-balanced",
                "exonet-any",
                "exonet-quorum",
                "tcp-cubic",
                "zmq-pub",
                "zmq-dealer",
                "nats",
                "udp-multicast",
            ],
            "it is about one message for many",
        ),
    }
}

/// One near member, one far member, and one on a lossy link.
pub(super) fn spread() -> Scenario {
    let spoke = |rtt, loss| Spoke { mbit: 20.0, rtt, loss: percent(loss) };
    let star = |far, loss| Wire::Star([spoke(20, 0), spoke(far, 0), spoke(20, loss)]);
    let work = Work::Spread { per_second: 200 };
    Scenario {
        name: "spread",
        about: "200 messages a second, each for some of three members on links of their own, 20 Mbit/s, RTT 20 ms",
        cells: vec![
            cell("all alike", star(20, 0), work).ranks(2),
            cell("one at 200 ms, one loses 10 %", star(200, 10), work).ranks(2),
        ],
        invited: Invited::Only(
            &["exonet-balanced", "exonet-round-robin", "exonet-any", "exonet-quorum", "exonet-all"],
            "it is about the modes of a group",
        ),
    }
}

/// One fast server, one at half of its rate, and a slow one on a lossy link.
pub(super) fn download() -> Scenario {
    let spoke = |mbit, loss| Spoke { mbit, rtt: 40, loss: percent(loss) };
    let star = Wire::Star([spoke(40.0, 0), spoke(20.0, 0), spoke(10.0, 1)]);
    let of = |name: &str, servers| -> Cell {
        cell(name, star, Work::Download { megabytes: 32, servers }).ranks(2).takes([0.0, 0.0])
    };
    Scenario {
        name: "download",
        about: "`exon get` of 32 MB from servers on links of 40, 20 and 10 Mbit/s, RTT 40 ms; the slowest loses 1 %",
        cells: vec![
            of("the fastest alone", Servers::Fastest),
            of("the slowest alone", Servers::Slowest),
            of("all three", Servers::All),
            of("all three, one killed at half", Servers::FastestDies),
        ],
        invited: Invited::Only(&["exonet"], "it is about `exon get`"),
    }
}
