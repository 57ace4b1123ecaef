//! A command whose node is frozen because its identity is about to move.

use std::net::SocketAddr;
use std::time::Instant;

use exonet::Node;
use serde::Serialize;

use super::stop::Leave;
use crate::failure::Failure;
use crate::moving::{Arrival, Undone, point};
use crate::settings::Settings;

/// The circumstances in which a command starts its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Begin {
    /// The command has just been started.
    First,
    /// The identity has moved here, and its peers do not know that yet.
    Arrived,
    /// The identity did not move after all, and continues at its old address.
    Again(SocketAddr),
}

impl Begin {
    /// The circumstances after `arrival`, or after an arrival from a file.
    pub(super) fn after(settings: &Settings, arrival: &Arrival) -> Self {
        if arrival.is_new || settings.identity.has_arrived() { Self::Arrived } else { Self::First }
    }

    /// Notes that the node answers, and that its names are bound.
    pub(super) fn answers(self, settings: &Settings, arrival: &Arrival) {
        arrival.answers();
        if self == Self::Arrived {
            settings.identity.forget_arrival();
        }
    }

    /// Tells the peers of `node` its address, if they cannot know it.
    pub(super) fn greet(self, node: &Node) {
        if self != Self::First {
            node.greet();
            point("greeted");
        }
    }

    /// The address to bind, if it differs from the one of the command line.
    pub(super) fn bind(self) -> Option<String> {
        match self {
            Self::Again(at) => Some(at.to_string()),
            Self::First | Self::Arrived => None,
        }
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
