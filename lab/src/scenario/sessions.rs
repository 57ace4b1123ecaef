//! Clients with a session each.

use super::{Cell, Invited, Scenario, Trouble, Wire, cell};
use crate::app::Work;

const PEERS: &[&str] = &["exonet", "tcp-cubic", "quinn-cubic", "grpc-streams", "nats-requests", "rsocket"];
const WHY: &str = "it is about conversations of many clients with one server";

/// As in the evaluation of FTSL: clients by the work that the server does on a request.
pub(super) fn sessions() -> Scenario {
    let mut cells: Vec<Cell> = Vec::new();
    for work_ms in [0, 1, 2] {
        for clients in [1, 10, 100] {
            let work = Work::Sessions { clients, work_ms };
            let many = if clients == 1 { "1 client".to_owned() } else { format!("{clients} clients") };
            let rank = if work_ms == 0 { 1 } else { 2 };
            let name = format!("{many}, {work_ms} ms");
            cells.push(cell(name, Wire::Cable, work).ranks(rank).takes([1.2, 5.0]));
        }
    }
    Scenario {
        name: "sessions",
        about: "clients with a session each, one request under way in it, by the work on a request, no emulator",
        cells,
        invited: Invited::Only(PEERS, WHY),
    }
}

/// What follows an outage.
pub(super) fn outages() -> Scenario {
    let work = Work::Sessions { clients: 1, work_ms: 0 };
    let name = "nothing for 0.2 s of each second";
    Scenario {
        name: "sessions-outages",
        about: "one client with a session, one request under way in it, 100 Mbit/s, RTT 10 ms, outages both ways",
        cells: vec![cell(name, Wire::Rough(Trouble::Outages), work).ranks(2).takes([6.0, 20.0])],
        invited: Invited::Only(PEERS, WHY),
    }
}
