//! A system on which no connection is kept.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use exonet::Peer;
use exonet::stream::Stream;
use tokio::net::TcpStream;

use super::Link;
use super::say::{About, Key, Order, Token, Told};
use crate::settings::Settings;
use crate::tunnel::carry::Course;
use crate::tunnel::event::Tell;
use crate::tunnel::life::Life;
use crate::tunnel::wire::{Names, Run};

/// There is none.
#[derive(Debug)]
pub(crate) struct Keeper(Infallible);

#[derive(Debug)]
pub(crate) struct Tales(Infallible);

/// Keeps nothing.
#[allow(clippy::unused_async, reason = "as where connections are kept")]
pub(crate) async fn start(
    _: &Settings,
    _: Duration,
    _: bool,
    _: &Tell,
) -> Option<(Arc<Keeper>, Vec<About>, Tales)> {
    None
}

impl Keeper {
    pub(crate) async fn listen(self: Arc<Self>, _: Tales, _: Tell) {
        match self.0 {}
    }

    pub(crate) fn adopt(&self, _: About, _: Told) {
        match self.0 {}
    }

    pub(crate) async fn hold(
        &self,
        _: About,
        _: usize,
        _: TcpStream,
        _: Told,
    ) -> Result<Link, (TcpStream, Told)> {
        match self.0 {}
    }

    pub(crate) fn hold_pipes<R, W>(&self, _: About, _: usize, _: (R, W), _: Told) -> std::io::Result<Link> {
        match self.0 {}
    }

    pub(crate) async fn link(&self, _: &Key) -> Option<Link> {
        match self.0 {}
    }

    pub(crate) fn look(&self, _: &Key) -> Option<(About, tokio::sync::watch::Receiver<()>)> {
        match self.0 {}
    }

    pub(crate) fn claim(&self, _: &str) -> Vec<Key> {
        match self.0 {}
    }

    pub(crate) fn order(&self, _: Order) {
        match self.0 {}
    }

    pub(crate) async fn stop(&self, _: bool) {
        match self.0 {}
    }

    pub(crate) async fn at_rest(&self) {
        match self.0 {}
    }

    pub(crate) fn token(&self) -> Option<Token> {
        match self.0 {}
    }
}

pub(crate) struct Road {
    pub(crate) keeper: Arc<Keeper>,
    pub(crate) peer: Peer,
    pub(crate) names: Names,
    pub(crate) life: Life,
    pub(crate) course: Course,
    pub(crate) enter: Box<dyn Fn(Run) -> Life + Send + Sync>,
}

pub(crate) struct Standing {
    pub(crate) stream: Stream,
    pub(crate) link: Link,
    pub(crate) life: Life,
}

pub(crate) async fn follow(keeper: &Keeper, _: &Key, _: Standing, _: Course) -> bool {
    match keeper.0 {}
}

pub(crate) async fn drive(road: Road, _: Key, _: Option<Standing>) {
    match road.keeper.0 {}
}
