//! The parts of a demo: the process of the receiver, a relay for each side, and the senders.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use exonet::{Allow, Node, NodeId, Peer, PeerAddr};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::Course;
use super::child::{Ledgers, Receiver};
use super::journal::{Journal, Task};
use super::ledger::Ledger;
use super::line::{Line, SIDES, Side};
use super::outcomes::Outcomes;
use super::payload::payload;
use super::plain::{self, GivenUp};
use super::progress::Progress;
use super::receiver::LINGER;
use super::relay::{Relay, Route};
use super::report::Row;
use crate::failure::Failure;
use crate::numbered::Numbered;

/// How long the receiver stays down, so that the user can see that.
const DEATH: Duration = Duration::from_millis(400);

/// The relay of one side.
pub(super) struct Way {
    relay: Relay,
    route: watch::Sender<Route>,
}

/// All parts of the demo.
pub(super) struct Stage<'a> {
    course: &'a Course,
    state: &'a Path,
    pub(super) ledgers: Ledgers,
    pub(super) node: Node,
    receiver: Option<Receiver>,
    receiver_id: NodeId,
    exonet: Way,
    remembering: Way,
    plain: Way,
    pub(super) journal: Option<Journal>,
    outcomes: Arc<Mutex<Outcomes>>,
    offered: Arc<AtomicU64>,
    given_up: [GivenUp; 2],
    gate: watch::Sender<u64>,
    moves: watch::Sender<u32>,
    senders: Vec<JoinHandle<Result<(), Failure>>>,
}

impl<'a> Stage<'a> {
    /// Sets everything up. Nothing is sent before [`Self::begin`].
    pub(super) async fn set(course: &'a Course, state: &'a Path) -> Result<Self, Failure> {
        let ledgers = Ledgers::new(course.messages);
        let (receiver, ready) = Receiver::start(state, course.size, course.journal, &ledgers).await?;
        let Places { exonet: (id, exonet), journal, remembering, plain } = places(ready)?;
        let node = Node::builder(Allow::only([id]))
            .bind("127.0.0.1:0")
            .config(|config| config.sender_linger = LINGER)
            .build()
            .await
            .map_err(|e| Failure::new("the demo's sender cannot start").because(&e))?;
        let moves = watch::Sender::new(0);
        let journal = match journal {
            None => None,
            Some((id, address)) => {
                let way = Way::new(course, address).await?;
                let (state, peer) = (state.join("sender"), (id, way.relay.address));
                let task = Task { state, peer, size: course.size, messages: course.messages };
                let mut journal = Journal::new(task, way, moves.clone());
                journal.start(0).await?;
                Some(journal)
            }
        };
        Ok(Self {
            course,
            state,
            ledgers,
            node,
            receiver: Some(receiver),
            receiver_id: id,
            exonet: Way::new(course, exonet).await?,
            remembering: Way::new(course, remembering).await?,
            plain: Way::new(course, plain).await?,
            journal,
            outcomes: Arc::new(Mutex::new(Outcomes::new(course.messages))),
            offered: Arc::default(),
            given_up: Default::default(),
            gate: watch::Sender::new(0),
            moves,
            senders: Vec::new(),
        })
    }

    /// Lets all sides begin to send.
    pub(super) fn begin(&mut self) {
        let (size, total) = (self.course.size, self.course.messages);
        let peer = PeerAddr::from((self.receiver_id, self.exonet.relay.address));
        let sending = Sending {
            peer: self.node.peer(peer),
            outcomes: Arc::clone(&self.outcomes),
            offered: Arc::clone(&self.offered),
        };
        let progress = Progress::new(self.gate.subscribe());
        self.senders.push(tokio::spawn(sending.all(size, total, progress)));
        if let Some(journal) = &self.journal {
            let progress = Progress::new(self.gate.subscribe());
            self.senders.push(tokio::spawn(journal.pace(progress)));
        }
        for (way, given_up) in [&self.remembering, &self.plain].into_iter().zip(&self.given_up) {
            let (relay, given_up) = (way.relay.address, given_up.clone());
            let progress = Progress::new(self.gate.subscribe());
            let moves = self.moves.subscribe();
            self.senders.push(tokio::spawn(async move {
                let sent = plain::send(relay, (size, total), progress, moves, given_up).await;
                sent.map_err(|e| Failure::new("plain sending has failed").because(&e))
            }));
        }
    }

    /// Sets how many messages may have been offered by now.
    pub(super) fn open_gate(&self, gate: u64) {
        self.gate.send_replace(gate);
    }

    /// Sets whether the network is down on all sides.
    pub(super) fn set_dead(&self, dead: bool) {
        self.reroute(|route| route.dead = dead);
    }

    /// Makes the receiver see every sender at a new address.
    pub(super) fn new_mapping(&self) {
        self.reroute(|route| route.mapping += 1);
    }

    /// Moves every sender to a new address.
    pub(super) async fn move_senders(&self) -> Result<(), Failure> {
        self.moves.send_modify(|moves| *moves += 1);
        let moved = self.node.rebind(([127, 0, 0, 1], 0).into()).await;
        moved.map(|_| ()).map_err(|e| Failure::new("the demo's sender cannot move").because(&e))
    }

    pub(super) async fn kill_receiver(&mut self) -> Result<(), Failure> {
        if let Some(journal) = &mut self.journal {
            journal.crashes += 1;
        }
        match self.receiver.take() {
            Some(receiver) => receiver.kill().await,
            None => Ok(()),
        }
    }

    /// Starts a new process with the old identity, at other ports.
    pub(super) async fn restart_receiver(&mut self) -> Result<(), Failure> {
        tokio::time::sleep(DEATH).await;
        let (size, journal) = (self.course.size, self.course.journal);
        let (receiver, ready) = Receiver::start(self.state, size, journal, &self.ledgers).await?;
        self.receiver = Some(receiver);
        let Places { exonet: (_, exonet), journal, remembering, plain } = places(ready)?;
        let journal = self.journal.as_ref().map(|side| &side.way).zip(journal.map(|(_, address)| address));
        let others = [(&self.exonet, exonet), (&self.remembering, remembering), (&self.plain, plain)];
        for (way, place) in others.into_iter().chain(journal) {
            way.route.send_modify(|route| route.receiver = place);
        }
        Ok(())
    }

    /// Kills the sender that keeps a journal, and starts it again. Returns how many messages its journal had.
    pub(super) async fn crash_sender(&mut self) -> Result<u64, Failure> {
        let Some(journal) = &mut self.journal else { return Ok(0) };
        journal.kill().await?;
        tokio::time::sleep(DEATH).await;
        // By now the ledger has everything that the receiver has reported.
        if let Some(receiver) = &mut self.receiver {
            receiver.records().await?;
        }
        // The message that was begun last may be settled. Any other one is in the journal, or was not sent.
        let begun = journal.account.begun();
        let last = begun.saturating_sub(1);
        let from = if self.ledgers.with(Side::Journal, |ledger| ledger.has(last)) { begun } else { last };
        journal.start(from).await
    }

    fn reroute(&self, change: impl Fn(&mut Route)) {
        let ways = [&self.exonet, &self.remembering, &self.plain];
        for way in ways.into_iter().chain(self.journal.as_ref().map(|side| &side.way)) {
            way.route.send_modify(&change);
        }
    }

    /// The sides that the demo compares.
    pub(super) fn sides(&self) -> impl Iterator<Item = Side> {
        let journal = self.journal.is_some();
        SIDES.into_iter().filter(move |side| journal || *side != Side::Journal)
    }

    /// How many messages have a known end: they arrived, or were reported as unknown.
    pub(super) fn through(&self) -> u64 {
        let arrived = self.ledgers.with(Side::Exonet, |ledger| ledger.arrived());
        arrived.saturating_add(self.outcomes().unknown)
    }

    pub(super) fn outcomes(&self) -> MutexGuard<'_, Outcomes> {
        self.outcomes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many messages the node was given.
    pub(super) fn offered(&self) -> u64 {
        self.offered.load(Ordering::Relaxed)
    }

    /// The figures of a side that has sent `sent` messages, according to its ledger.
    pub(super) fn row(&self, side: Side, sent: u64) -> Row {
        let [remembering, plain] = &self.given_up;
        let look = |ledger: &mut Ledger| (ledger.arrived(), ledger.duplicates());
        let (arrived, duplicates) = self.ledgers.with(side, look);
        let (lost, unknown) = match side {
            Side::Journal => match &self.journal {
                Some(Journal { account, .. }) if account.is_done() => {
                    (account.begun().saturating_sub(arrived), Some(account.failed()))
                }
                _ => (0, Some(0)),
            },
            Side::Exonet => (0, Some(self.outcomes().unknown)),
            Side::Remembering => (self.ledgers.with(side, |ledger| remembering.missing(ledger)), None),
            Side::Plain => (self.ledgers.with(side, |ledger| plain.missing(ledger)), None),
        };
        Row { side, sent, arrived, duplicates, lost, unknown }
    }

    pub(super) fn rtt(&self) -> Option<Duration> {
        self.node.peer(self.receiver_id).stats().map(|stats| stats.rtt)
    }

    /// The number of records at the sender.
    pub(super) fn records(&self) -> usize {
        let stats = self.node.stats();
        stats.sender_records + stats.receiver_records
    }

    /// The number of records at both ends. When this returns, the ledgers are complete.
    pub(super) async fn all_records(&mut self) -> Result<usize, Failure> {
        let there = match &mut self.receiver {
            Some(receiver) => receiver.records().await?,
            None => 0,
        };
        Ok(self.records() + there)
    }

    /// Whether all senders have ended. Fails with the error of the first that failed.
    pub(super) async fn is_over(&mut self) -> Result<bool, Failure> {
        let (ended, running): (Vec<_>, Vec<_>) = self.senders.drain(..).partition(JoinHandle::is_finished);
        self.senders = running;
        for sender in ended {
            sender.await.map_err(|e| Failure::new("a sender of the demo has failed").because(&e))??;
        }
        let journal = self.journal.as_ref().map_or(Ok(true), Journal::is_done)?;
        Ok(self.senders.is_empty() && journal)
    }

    /// Whether the sides of Exonet have ended.
    pub(super) fn is_settled(&self) -> bool {
        let journal = self.journal.as_ref().is_none_or(|side| side.account.is_done());
        self.outcomes().settled >= self.course.messages && journal
    }
}

impl Drop for Stage<'_> {
    fn drop(&mut self) {
        self.senders.iter().for_each(JoinHandle::abort);
    }
}

impl Way {
    async fn new(course: &Course, receiver: SocketAddr) -> Result<Self, Failure> {
        let start = Route { receiver, dead: false, mapping: 0, remember: false, replays: 0 };
        let route = watch::Sender::new(start);
        let relay = Relay::start(course.odds, course.seed, route.subscribe()).await;
        let relay = relay.map_err(|e| Failure::new("the demo's relay cannot start").because(&e))?;
        Ok(Self { relay, route })
    }
}

/// The addresses of the receivers.
struct Places {
    exonet: (NodeId, SocketAddr),
    journal: Option<(NodeId, SocketAddr)>,
    remembering: SocketAddr,
    plain: SocketAddr,
}

fn places(ready: Line) -> Result<Places, Failure> {
    let Line::Ready { exonet, journal, remembering, plain } = ready else {
        return Err(Failure::new("the demo's receiver has sent something unexpected"));
    };
    let place = |peer: &PeerAddr| first_address(peer).map(|address| (peer.id, address));
    Ok(Places {
        exonet: place(&exonet)?,
        journal: journal.as_ref().map(place).transpose()?,
        remembering,
        plain,
    })
}

fn first_address(peer: &PeerAddr) -> Result<SocketAddr, Failure> {
    let mut hints = peer.hints();
    let address = hints.next().and_then(|hint| hint.parse().ok());
    address.ok_or_else(|| Failure::new("the demo's receiver has no address"))
}

/// The sender of the Exonet side.
struct Sending {
    peer: Peer,
    outcomes: Arc<Mutex<Outcomes>>,
    offered: Arc<AtomicU64>,
}

impl Sending {
    /// Offers messages as fast as `progress` allows, and notes each outcome.
    async fn all(self, size: usize, total: u64, mut progress: Progress) -> Result<(), Failure> {
        let mut open = FuturesUnordered::new();
        let mut next = 0;
        while next < total || !open.is_empty() {
            tokio::select! {
                () = progress.allows(next), if next < total => {
                    let receipt = self.peer.send(payload(next, size)).await;
                    let receipt = receipt.map_err(|e| Failure::new("the demo cannot send").because(&e))?;
                    open.push(Numbered::new(next, receipt));
                    next += 1;
                    self.offered.store(next, Ordering::Relaxed);
                }
                Some((n, settled, _)) = open.next() => {
                    let mut outcomes = self.outcomes.lock().unwrap_or_else(PoisonError::into_inner);
                    outcomes.tell(n, settled.outcome);
                }
            }
        }
        Ok(())
    }
}
