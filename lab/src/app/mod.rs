//! The work of the applications at both ends of a connection, whatever carries their messages.
//!
//! A peer asks its application for messages while it can send ([`App::next`]) and hands it what arrives
//! ([`App::take`]). Every message has a number of its own and a check, so what is lost, doubled or damaged is seen.

mod calls;
mod cold;
mod contact;
mod crowd;
mod durable;
mod lanes;
mod ledger;
mod meter;
mod one_way;
mod stamp;
mod tally;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub(crate) use contact::{Answers, Asker, CLIENTS_APART};
pub(crate) use crowd::{CROWD_PART, Crowd, NUMBERS_APART};
pub(crate) use durable::{Acts, hand_over, lost_and_doubled};
pub(crate) use lanes::{Pacer, Taker, machine_time};
pub(crate) use meter::{Mark, Meter, Quantiles};
pub(crate) use stamp::Stamp;
pub(crate) use tally::Tally;

/// One end of a workload.
pub(crate) trait App: Send {
    /// Writes the next message, if one is to leave now. The length of `out` is that of every message.
    fn next(&mut self, out: &mut [u8]) -> bool;
    /// Takes a message that has arrived.
    fn take(&mut self, message: &[u8]);
}

/// The work that two applications do together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Work {
    /// Messages from the client to the server, as fast as the connection takes them.
    OneWay,
    /// The same in both directions at once, on one connection.
    BothWays,
    /// Requests and answers of equal size. Each actor at the client has one request under way.
    Calls { actors: u32 },
    /// Clients with connections of their own, each of which sends at a steady rate.
    Crowd { clients: u32, per_second: u32 },
    /// A steady rate of messages from the client to the server, on each lane in turn. Each lane keeps its order.
    Lanes { lanes: u32, per_second: u32 },
    /// A steady rate of messages, each to all members. A peer that sends each message to one member has this rate for each
    /// member.
    Fan { members: u32, per_second: u32 },
    /// A steady rate of messages, each to some of the members. Every member has its own link.
    Spread { per_second: u32 },
    /// The download of one file from servers that each have their own link.
    Download { megabytes: u32, servers: Servers },
    /// Messages, or calls, handed over at once to a server that the client has never met, and no more.
    Cold { messages: u32, calls: bool },
    /// Clients with a session each, in which one request after the other is answered. The server works this long on each
    /// request.
    Sessions { clients: u32, work_ms: u32 },
    /// Messages that outlive processes: this many wait at a time for whoever has promised to keep them. The receiver is
    /// killed so often.
    Durable { under_way: u32, kills: u32 },
    /// Clients that the server has never met, each of which makes its calls one after the other.
    Contact { clients: u32, calls: u32, leaves: Leaves, from: From },
}

/// The servers that a file is downloaded from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Servers {
    Fastest,
    Slowest,
    All,
    /// All servers; the fastest is killed after half of the file has arrived.
    FastestDies,
}

/// When a client that has been answered leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Leaves {
    AtOnce,
    /// It stays until the link is quiet, so that what leaving costs is seen apart.
    WhenTold,
}

/// Where clients are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum From {
    /// Each in a network of its own.
    Everywhere,
    OneAddress,
}

/// The end that opens the connection, or the end that waits for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Role {
    Client,
    Server,
}

/// The application at one end.
pub(crate) fn app(work: Work, role: Role, meter: &Arc<Meter>) -> Box<dyn App> {
    let meter = Arc::clone(meter);
    match (work, role) {
        (Work::OneWay, Role::Client) => Box::new(one_way::OneWay::new(meter, true)),
        (Work::OneWay | Work::Crowd { .. } | Work::Contact { .. } | Work::Sessions { .. }, _) => {
            Box::new(one_way::OneWay::new(meter, false))
        }
        (Work::Lanes { lanes, .. }, _) => Box::new(lanes::Taker::new(meter, Some(lanes))),
        (Work::Fan { .. } | Work::Spread { .. } | Work::Download { .. } | Work::Durable { .. }, _) => {
            Box::new(lanes::Taker::new(meter, None))
        }
        (Work::BothWays, _) => Box::new(one_way::OneWay::new(meter, true)),
        (Work::Calls { actors }, Role::Client) => Box::new(calls::Caller::new(meter, actors)),
        (Work::Cold { messages, calls }, Role::Client) => Box::new(cold::Source::new(meter, messages, calls)),
        (Work::Cold { messages, calls: false }, Role::Server) => Box::new(cold::Sink::new(meter, messages)),
        (Work::Cold { messages, calls: true }, Role::Server) => {
            Box::new(calls::Answerer::of(meter, messages))
        }
        (Work::Calls { .. }, Role::Server) => Box::new(calls::Answerer::new(meter)),
    }
}
