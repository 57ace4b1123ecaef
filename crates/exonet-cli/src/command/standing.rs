//! A command whose node stands still, since its identity is to move.

use std::net::SocketAddr;
use std::time::Instant;

use exonet::Node;
use serde::Serialize;

use super::stop::Leave;
use crate::failure::Failure;
use crate::moving::{Undone, point};
use crate::settings::Settings;

/// How a command begins to run its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Begin {
    /// As it was started.
    First,
    /// The identity has moved here: its peers do not know.
    Arrived,
    /// The identity did not move after all, and goes on where it was.
    Again(SocketAddr),
}

impl Begin {
    /// Tells the peers of `node` where it is, if they cannot know.
    pub(super) fn greet(self, node: &Node) {
        if self != Self::First {
            node.greet();
            point("greeted");
        }
    }

    /// Where the node is to be, if that is not as it was asked for.
    pub(super) fn bind(self) -> Option<String> {
        match self {
            Self::Again(at) => Some(at.to_string()),
            Self::First | Self::Arrived => None,
        }
    }
}

/// What a command does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Its identity has moved, or was not to move.
    End,
    /// Its identity lives here: it goes on.
    GoOn,
}

/// Waits until it turns out that the identity lives elsewhere: that ends a command with an error.
pub(super) async fn superseded(node: &Node) -> Failure {
    let superseded = node.superseded().await;
    Failure::new(superseded.to_string()).hint(
        "this was a copy, or what a move left behind: it has stopped, and does not start here any more. If it certainly does not \
         live there: exon move --take-back",
    )
}

#[derive(Serialize)]
struct Stays {
    r#type: &'static str,
    error: String,
}

/// Moves the identity, whose node stands still since `began`, if `leave` has asked for that.
///
/// # Errors
/// It was ceded, and the other side may not know.
pub(super) async fn depart(settings: &Settings, leave: &Leave, began: Instant) -> Result<Next, Failure> {
    let Some(departure) = leave.take() else { return Ok(Next::End) };
    match departure.go_on(began).await {
        Ok(()) => Ok(Next::End),
        Err(Undone::Ceded(failure)) => Err(failure),
        Err(Undone::Stays(failure)) => {
            settings.note(failure.to_string());
            settings.output.line(&Stays { r#type: "stays", error: failure.in_parts().0 })?;
            leave.stay();
            Ok(Next::GoOn)
        }
    }
}
