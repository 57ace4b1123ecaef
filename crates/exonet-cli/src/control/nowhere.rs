//! Stubs for systems without Unix sockets, which have no control socket.

use std::path::Path;

use exonet::Node;

use super::Role;
use super::protocol::{Places, Reply, Request};
use crate::command::stop::Leave;
use crate::failure::Failure;
use crate::identity::Identity;
use crate::settings::Settings;

fn nowhere() -> Failure {
    Failure::new("this system has no control socket")
        .hint("end the process that runs the identity, and try again")
}

/// Fails, for commands that do nothing without a control socket.
pub(crate) fn available(command: &str) -> Result<(), Failure> {
    let failure =
        Failure::new(format!("`exon {command}` cannot run on this system, which has no control socket"));
    Err(failure.hint("exon send, listen and serve run the node of a stored identity themselves"))
}

/// Stub of the control socket of a node.
#[derive(Debug)]
pub(crate) struct Control(());

impl Control {
    pub(crate) fn open_leaving(_: &Settings, _: &Node, _: Role, _: &Leave) -> Result<Self, Failure> {
        Err(nowhere())
    }

    pub(crate) fn try_open(_: &Settings, _: &Node, _: Role) -> Self {
        Self(())
    }

    pub(crate) fn try_open_leaving(_: &Settings, _: &Node, _: Role, _: &Leave) -> Self {
        Self(())
    }

    pub(crate) fn path(&self) -> Option<&Path> {
        None
    }

    pub(crate) async fn close(self) {}
}

/// Stub of a client of the process that runs the identity. There is never such a process.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) command: String,
    pub(crate) pid: u32,
    pub(crate) id: String,
    pub(crate) durability: String,
    pub(crate) takes: bool,
    pub(crate) works: bool,
    pub(crate) places: Box<Places>,
}

impl Client {
    pub(crate) async fn find(_: &Identity) -> Result<Option<Self>, Failure> {
        Ok(None)
    }

    pub(crate) async fn ask(&self, _: Request) -> Result<Hearer, Failure> {
        Err(nowhere())
    }

    pub(crate) async fn give(&self, _: Request) -> Result<(Giver, Hearer), Failure> {
        Err(nowhere())
    }
}

#[derive(Debug)]
pub(crate) struct Hearer(());

impl Hearer {
    pub(crate) async fn next(&mut self) -> Result<Option<Reply>, Failure> {
        Err(nowhere())
    }

    pub(crate) async fn hear(&mut self) -> Heard {
        Heard::Gone
    }
}

/// A part of the answer, or its end.
#[derive(Debug)]
pub(crate) enum Heard {
    Reply(Reply),
    Done,
    Failed(Failure),
    Gone,
}

#[derive(Debug)]
pub(crate) struct Giver(());

impl Giver {
    pub(crate) async fn message(&mut self, _: Vec<u8>) -> Result<bool, Failure> {
        Err(nowhere())
    }

    pub(crate) async fn end(&mut self) -> bool {
        false
    }
}

pub(crate) fn too_long() -> Failure {
    nowhere()
}
