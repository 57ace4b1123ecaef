//! A command whose node is frozen because its identity is about to move.

use std::net::SocketAddr;
use std::time::Instant;

use exonet::Node;
use serde::Serialize;

use super::stop::Leave;
use crate::failure::Failure;
use crate::moving::{Arrival, Undone, point};
use crate::settings::Settings;

/// The end of a life of the node.
pub(super) enum Over<T> {
    /// The command ends.
    Ended(T),
    /// The identity was about to move, and did not: it continues at this address.
    Stays(SocketAddr),
}

/// Runs one life of a node after the other until the command ends.
///
/// # Errors
/// The first error of a life.
pub(super) async fn lives<T>(
    mut live: impl AsyncFnMut(Begin) -> Result<Over<T>, Failure>,
) -> Result<T, Failure> {
    let mut begin = Begin::First;
    loop {
        match live(begin).await? {
            Over::Ended(end) => return Ok(end),
            Over::Stays(at) => begin = Begin::Again(at),
        }
    }
}

/// The circumstances in which a command starts its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Begin {
    /// The command has just been started.
    First,
    /// The identity did not move after all, and continues at its old address.
    Again(SocketAddr),
}

impl Begin {
    /// Tells the peers of `node` its address, if they cannot know it.
    pub(super) fn greet(self, settings: &Settings, node: &Node) {
        if self != Self::First || settings.identity.has_arrived() {
            node.greet();
            point("greeted");
        }
    }

    /// The address to bind, if it differs from the one of the command line.
    pub(super) fn bind(self) -> Option<SocketAddr> {
        match self {
            Self::Again(at) => Some(at),
            Self::First => None,
        }
    }
}

/// Notes that the node has greeted its peers and answers, and that its names are bound.
pub(super) fn answers(settings: &Settings, arrival: Option<&Arrival>) {
    settings.identity.forget_arrival();
    if let Some(arrival) = arrival {
        arrival.answers();
    }
}

/// The next action of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// The command ends: its identity has moved, or was not about to move.
    End,
    /// The command continues: its identity lives here.
    GoOn,
}

/// Waits until the node learns that the identity lives elsewhere. The result is the error that ends the command.
pub(super) async fn superseded(node: &Node) -> Failure {
    let superseded = node.superseded().await;
    Failure::new(superseded.to_string()).hint(
        "this was a copy, or what a move left behind: it has stopped, and can no longer start here. If the \
         identity certainly does not live there: exon move --take-back",
    )
}

#[derive(Serialize)]
struct Stays {
    r#type: &'static str,
    error: String,
}

/// Moves the identity, whose node has been frozen since `began`, if `leave` has asked for that.
///
/// # Errors
/// The identity was ceded, and the other side may not know that.
pub(super) async fn depart(settings: &Settings, leave: &Leave, began: Instant) -> Result<Next, Failure> {
    let Some(departure) = leave.take() else { return Ok(Next::End) };
    match departure.go_on(began).await {
        Ok(()) => Ok(Next::End),
        Err(Undone::Ceded(failure)) => Err(failure),
        Err(Undone::Stays(failure)) => {
            settings.note(failure.to_string());
            settings.output.line(&Stays { r#type: "stays", error: failure.in_parts().0 })?;
            leave.stay();
            point("stays");
            Ok(Next::GoOn)
        }
    }
}
