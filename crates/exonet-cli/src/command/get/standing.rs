//! The state of each server.

use std::time::Instant;

use super::server::Out;
use crate::peers::Named;
use crate::share::Info;

#[derive(Clone, Debug)]
pub(super) enum State {
    /// The server has not answered yet.
    Asked,
    /// The server answers.
    Active,
    /// The server does not answer now, and is tried again.
    Silent,
    /// The server is no longer asked.
    Out(Out),
}

impl State {
    /// The state for text and JSON, and the reason for it.
    pub(super) fn words(&self) -> (&'static str, Option<&str>) {
        match self {
            Self::Asked => ("asked", None),
            Self::Active => ("active", None),
            Self::Silent => ("silent", None),
            Self::Out(out) => (out.state, Some(&out.reason)),
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Standing {
    pub(super) named: Named,
    pub(super) state: State,
    /// The information of the server on the file.
    pub(super) info: Option<Info>,
}

/// All servers, in the order in which they were named.
pub(super) struct Standings {
    all: Vec<Standing>,
    /// The time since which no server answers. None: at least one does.
    pub(super) nobody: Option<Instant>,
}

impl Standings {
    pub(super) fn new(servers: &[Named]) -> Self {
        let standing = |named: &Named| Standing { named: named.clone(), state: State::Asked, info: None };
        Self { all: servers.iter().map(standing).collect(), nobody: Some(Instant::now()) }
    }

    pub(super) fn all(&self) -> &[Standing] {
        &self.all
    }

    pub(super) fn set(&mut self, server: usize, state: State) {
        if let Some(standing) = self.all.get_mut(server) {
            standing.state = state;
        }
        let answers = self.all.iter().any(|standing| matches!(standing.state, State::Active));
        self.nobody = if answers { None } else { self.nobody.or_else(|| Some(Instant::now())) };
    }

    pub(super) fn met(&mut self, server: usize, info: Info) {
        if let Some(standing) = self.all.get_mut(server) {
            standing.info = Some(info);
        }
        self.set(server, State::Active);
    }

    pub(super) fn name(&self, server: usize) -> &str {
        self.all.get(server).map_or("", |standing| &standing.named.name)
    }

    /// Whether the state of each is known: it has answered, or does not answer.
    pub(super) fn are_known(&self) -> bool {
        self.all.iter().all(|standing| !matches!(standing.state, State::Asked))
    }

    /// Whether some node has answered.
    pub(super) fn have_answered(&self) -> bool {
        self.all.iter().any(|standing| matches!(standing.state, State::Active | State::Out(_)))
    }

    pub(super) fn are_out(&self) -> bool {
        self.all.iter().all(|standing| matches!(standing.state, State::Out(_)))
    }

    /// Whether a server has another version of the file.
    pub(super) fn have_another(&self) -> bool {
        self.all.iter().any(|standing| matches!(standing.state.words().0, "changed" | "differs"))
    }

    /// One line per server, with the reason why it delivers nothing.
    pub(super) fn reasons(&self) -> String {
        let reason = |standing: &Standing| match standing.state.words() {
            (_, Some(reason)) => format!("\n      {}: {reason}", standing.named.name),
            ("active", None) => String::new(),
            (_, None) => format!("\n      {}: it does not answer", standing.named.name),
        };
        self.all.iter().map(reason).collect()
    }
}
