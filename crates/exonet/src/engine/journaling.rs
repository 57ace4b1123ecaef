//! The records that the engine writes to the journal, and those that a former life has left there.

use std::io;
use std::sync::{Arc, Weak};

use exonet_proto::Now;
use exonet_proto::node::{
    CallId, Cancel, CancelError, Incoming, MessageKey, OpenMessage, Outcome, Position, SendError as CoreError,
};

use super::{Engine, Phase, Todo, is_streamed};
use crate::after::{Chore, Log};
use crate::call::desk::Line;
use crate::journal::{self, RECORDS, Taker};
use crate::receive::batch::Taken;
use crate::receive::routes::Route;
use crate::send::lot::Lot;
use crate::send::receipts::{Settled, SlotIndex};
use crate::shared::Shared;

/// The receipts of the messages of a former life.
pub(crate) enum Hold {
    /// The receipt of one message.
    One(SlotIndex),
    /// The receipts of several messages that are kept together, and their number.
    Lot(Arc<Lot>, u32),
}

/// How many calls of a method are taken in advance, so that they wait for the disk together.
const CALLS: usize = 32;

impl Engine {
    /// Uses this journal from now on. The messages that a former life has left count as sent now.
    pub(crate) fn keep_journal(&mut self, now: Now, journal: journal::Log, node: &Weak<Shared>) {
        (self.journal, self.is_journaled) = (Some(journal), true);
        self.outlets.recall(self.core.id(), self.core.past_outcomes());
        let all = self.core.open_together();
        self.receipts.reserve(all.len());
        self.recovered.reserve_exact(all.len());
        for (open, n) in all {
            let hold = if n == 1 {
                Hold::One(self.receipts.open(now.mono, open.key))
            } else {
                let lot = Arc::new(Lot::new(Weak::clone(node)));
                let slot = self.receipts.open_lot(Arc::clone(&lot));
                self.receipts.add_to_lot(now.mono, slot, 0, open.key, n);
                self.receipts.close_lot(slot);
                Hold::Lot(lot, n)
            };
            self.recovered.push((open, hold));
        }
    }

    /// Starts the thread that forces the journal to disk, if the durability asks for that.
    pub(crate) fn start_forcing(&self, node: &Arc<Shared>) -> io::Result<()> {
        self.journal.as_ref().map_or(Ok(()), |journal| journal.start_forcing(node))
    }

    /// Returns the messages that a former life has left, with their receipts, which now belong to the caller.
    pub(crate) fn take_recovered(&mut self) -> Vec<(OpenMessage, Hold)> {
        core::mem::take(&mut self.recovered)
    }

    /// Whether the node keeps a journal.
    pub(crate) const fn is_journaled(&self) -> bool {
        self.is_journaled
    }

    /// Writes the records that the core has appended. After that, everything that depends on them may leave the node.
    /// Returns false if the journal has failed: the node has stopped, and nothing may leave.
    pub(crate) fn write_journal(&mut self, now: Now) -> bool {
        if !self.is_journaled {
            return self.write_notes(now);
        }
        let Some(journal) = &mut self.journal else { return false };
        let mut appended = false;
        while !journal.has_failed()
            && let Some(append) = self.core.poll_journal()
        {
            if let Err(error) = journal.append(&append) {
                return self.journal_failed(now, error.to_string());
            }
            appended = true;
        }
        if journal.has_failed() {
            return false;
        }
        if !appended {
            return true;
        }
        if let Err(error) = journal.still_there(now) {
            return self.journal_failed(now, error.to_string());
        }
        if journal.wants_snapshot()
            && let Err(error) = journal.snapshot(now, &self.core)
        {
            // The journal has the appended records nevertheless.
            self.journal_failed(now, error.to_string());
        }
        true
    }

    /// Writes the core's new notes of early messages. Returns false if that is no longer possible: then nothing may
    /// leave.
    fn write_notes(&mut self, now: Now) -> bool {
        while let Some(notes) = self.core.poll_notes() {
            // Without the store, the identity has been released, and another process may have it.
            let Some(store) = &self.notes else { return false };
            if let Err(error) = store.note(&notes) {
                (self.notes, self.is_journaled) = (None, true);
                return self.journal_failed(now, error.to_string());
            }
        }
        true
    }

    /// Stops the node, since its journal lacks something from now on. Returns false.
    pub(crate) fn journal_failed(&mut self, now: Now, why: String) -> bool {
        if let Some(journal) = &mut self.journal {
            journal.fail();
        }
        let lacks_room = self.journal.as_ref().is_some_and(journal::Log::lacks_room);
        self.log(if lacks_room { Log::JournalFull(why) } else { Log::JournalFailed(why) });
        self.core.handle_persist_failed(now);
        // Events of the core may depend on records that were not written: the messages that they settle end Unknown.
        while self.core.poll_event().is_some() {}
        self.stop(Phase::Stopped);
        self.after.todo.join(Todo {
            driver: true,
            settled: true,
            readable: true,
            ended: true,
            ..Todo::NOTHING
        });
        false
    }

    /// Why a message is not accepted that the journal could not take.
    pub(super) fn unwritten(&self) -> CoreError {
        // For want of room nothing was written.
        let certain = self.journal.as_ref().is_none_or(journal::Log::lacks_room);
        if certain { CoreError::Closed } else { CoreError::InDoubt }
    }

    /// Withdraws a message, at its receiver if it has left. The journal has the result before this returns.
    pub(crate) fn cancel(&mut self, now: Now, key: MessageKey) -> Result<Cancel, CancelError> {
        let cancel = self.core.cancel(now, key)?;
        if self.write_journal(now) { Ok(cancel) } else { Err(CancelError::InDoubt) }
    }

    /// Checks that the journal has room for a new message with a body of this many bytes.
    ///
    /// # Errors
    /// [`CoreError::NoSpace`] if it has no room.
    pub(super) fn reserve_for(&mut self, len: impl FnOnce() -> usize) -> Result<(), CoreError> {
        self.reserve_for_all(1, || core::iter::once(len()))
    }

    /// As [`Engine::reserve_for`], for messages that are queued together until their bodies have `most` bytes.
    pub(super) fn reserve_for_all<L: Iterator<Item = usize>>(
        &mut self,
        most: u64,
        lens: impl FnOnce() -> L,
    ) -> Result<(), CoreError> {
        let Some(journal) = &mut self.journal else { return Ok(()) };
        let limit = self.core.config().limits.largest_whole();
        let (mut bodies, mut need) = (0, RECORDS);
        // The core takes no message that is too long, and none after it.
        for len in lens().take_while(|len| *len as u64 <= limit) {
            if bodies >= most {
                break;
            }
            bodies += len as u64;
            need += len + RECORDS;
        }
        if journal.has_reserve(need) { Ok(()) } else { Err(CoreError::NoSpace) }
    }

    // ---- waiting for the disk

    /// Whether messages wait for the disk before they count as taken or accepted.
    pub(crate) fn is_forced(&self) -> bool {
        self.journal.as_ref().is_some_and(journal::Log::is_forced)
    }

    /// The end of the journal, if a message that was just accepted counts only once that is on disk.
    pub(crate) fn accepted_at(&self) -> Option<Position> {
        self.is_forced().then(|| self.core.journal_end())
    }

    /// Whether the journal up to `at` survives a crash. None: the node has ended, so nobody can tell.
    pub(crate) fn is_safe(&self, at: Position) -> Option<bool> {
        match self.core.is_safe(at) {
            false if self.phase >= Phase::Stopped => None,
            safe => Some(safe),
        }
    }

    /// Notes that the journal is on disk up to `through`.
    pub(crate) fn journaled(&mut self, now: Now, through: Position) {
        if self.phase >= Phase::Stopped {
            return;
        }
        self.core.handle_journaled(now, through);
        for taker in self.held.ready(|at| self.core.is_safe(at)) {
            match taker {
                Taker::Receiver(None) => self.after.todo.readable = true,
                Taker::Receiver(Some(route)) => {
                    self.after.chores.push(Chore::Next(Arc::clone(&route.readable)));
                }
                Taker::Server(line) => self.after.chores.push(Chore::Called(Arc::clone(line))),
            }
        }
    }

    /// Like [`Engine::take`], but returns only messages whose taking is already on disk: a crash does not make the
    /// node hand them out again.
    pub(super) fn take_when_safe(
        &mut self,
        now: Now,
        route: Option<&Arc<Route>>,
        place: &mut Option<Incoming>,
    ) -> bool {
        let taker = Taker::Receiver(route.cloned());
        *place = self.held.take(&taker, |at| self.core.is_safe(at));
        if place.is_none() && self.held.has_room() && self.phase < Phase::Stopped {
            let mut incoming = None;
            self.take_now(now, route, false, &mut incoming);
            match incoming {
                // Such a message is taken when the application has read its end.
                Some(incoming) if is_streamed(&incoming) => *place = Some(incoming),
                Some(incoming) => self.held.put(self.core.journal_end(), taker.clone(), incoming),
                None => {}
            }
        }
        self.held.has(&taker, |at| self.core.is_safe(at)) || (self.held.has_room() && self.core.has_waiting())
    }

    /// Whether a message for this receiver waits for the disk.
    pub(crate) fn holds_for(&self, route: Option<&Arc<Route>>) -> bool {
        self.phase < Phase::Stopped && self.held.holds(&Taker::Receiver(route.cloned()))
    }

    /// Like [`Engine::take_many`], for messages whose taking is already on disk.
    pub(super) fn take_many_when_safe(
        &mut self,
        now: Now,
        route: Option<&Arc<Route>>,
        most: usize,
        taken: &mut Taken,
    ) -> bool {
        let (taker, mut more) = (Taker::Receiver(route.cloned()), true);
        for _ in 0..most {
            let mut incoming = None;
            if !self.held.has_room() {
                break;
            }
            more = self.take_now(now, route, false, &mut incoming);
            match incoming {
                Some(incoming) if is_streamed(&incoming) => taken.singles.push(incoming),
                Some(incoming) => self.held.put(self.core.journal_end(), taker.clone(), incoming),
                None => break,
            }
        }
        while taken.singles.len() < most
            && let Some(incoming) = self.held.take(&taker, |at| self.core.is_safe(at))
        {
            taken.singles.push(incoming);
        }
        more && self.held.has_room() && self.core.has_waiting()
            || self.held.has(&taker, |at| self.core.is_safe(at))
    }

    /// Like [`Engine::take_call`], for calls whose taking is already on disk: a crash does not make them run again.
    pub(crate) fn take_call_when_safe(&mut self, now: Now, line: &Arc<Line>, open: bool) -> Option<Incoming> {
        let taker = Taker::Server(Arc::clone(line));
        if let Some(held) = self.held.take(&taker, |at| self.core.is_safe(at)) {
            return Some(held);
        }
        for _ in 0..CALLS {
            if !open || !self.held.has_room() {
                break;
            }
            let call = self.core.take_call(now, &line.method)?;
            if !self.write_journal(now) {
                break;
            }
            let at = self.core.journal_end();
            if self.core.is_safe(at) {
                // The call is not taken yet, since its body still arrives.
                return Some(call);
            }
            self.held.put(at, taker.clone(), call);
        }
        None
    }

    /// Fails the calls that were taken and that no server runs.
    pub(crate) fn fail_held(&mut self, now: Now, line: &Arc<Line>) {
        let taker = Taker::Server(Arc::clone(line));
        while let Some(call) = self.held.take(&taker, |_| true) {
            self.core.drop_call(now, CallId { caller: call.id.sender, s: call.id.s });
        }
    }

    // ---- the end

    /// The outcome of an open message that is journaled when the node ends. None: it is not journaled.
    pub(super) fn left_to_journal(&self, key: MessageKey) -> Option<Settled> {
        let journal = self.journal.as_ref()?;
        let outcome = match journal.has_group(self.core.letter_group(key)?) {
            Some(true) => Outcome::Kept,
            // It was not accepted. Nothing of it has left, since the journal would have it before.
            Some(false) => Outcome::Cancelled,
            None => Outcome::Unknown,
        };
        Some(Settled::without_id(outcome))
    }

    /// Takes the journal out. The caller closes it without the lock.
    pub(crate) fn leave_journal(&mut self) -> Option<journal::Log> {
        if self.phase >= Phase::Stopped {
            self.notes = None;
        }
        self.journal.take_if(|_| self.phase >= Phase::Stopped)
    }
}

#[cfg(test)]
mod tests {
    use core::net::SocketAddr;
    use core::time::Duration;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

    use exonet_proto::node::{CancelError, Outcome};
    use exonet_store::{Force, Storage, StoreError};

    use crate::engine::Phase;
    use crate::engine::sending::Way;
    use crate::error::SendError;
    use crate::group::{GroupError, Mode};
    use crate::journal::Log;
    use crate::stream::StreamSendError;
    use crate::{Allow, Durability, Node, NodeId, PeerAddr};

    fn nobody() -> PeerAddr {
        PeerAddr::from((NodeId([2; 32]), SocketAddr::from(([127, 0, 0, 1], 9))))
    }

    #[tokio::test]
    async fn what_counts_as_sent_is_on_the_disk() {
        let home = tempfile::tempdir().unwrap();
        let builder = Node::builder(Allow::anyone()).bind("127.0.0.1:0").state_dir(home.path());
        let node = builder.durability(Durability::Sync).build().await.unwrap();
        for _ in 0..5 {
            let receipt = node.peer(nobody()).send("x").await.unwrap();
            assert!(node.shared().look(|engine| engine.core.is_safe(engine.core.journal_end())));
            drop(receipt);
            let batch = node.peer(nobody()).send_bodies(["x", "y"]).await.unwrap();
            assert!(node.shared().look(|engine| engine.core.is_safe(engine.core.journal_end())));
            drop(batch);
            let permit = node.peer(nobody()).reserve().await.unwrap();
            drop((node.peer(nobody()).try_send("x").unwrap(), permit.send("y").unwrap()));
            node.journaled().await.unwrap();
            assert!(node.shared().look(|engine| engine.core.is_safe(engine.core.journal_end())));
        }
    }

    #[tokio::test]
    async fn a_receipt_is_told_though_the_place_of_its_message_was_used_again_before() {
        let home = tempfile::tempdir().unwrap();
        let builder = Node::builder(Allow::anyone()).bind("127.0.0.1:0").state_dir(home.path());
        let node = builder.durability(Durability::Sync).build().await.unwrap();
        let there = [SocketAddr::from(([127, 0, 0, 1], 9))];
        let ([first, second], ..) = node.shared().step_quietly(|engine, now| {
            let send = |engine: &mut super::Engine, text: &'static str| {
                engine.send(now, nobody().id, &there, &mut Some(text.into()), None).unwrap()
            };
            let (first, key) = send(engine, "first");
            engine.cancel(now, key).unwrap();
            let (second, again) = send(engine, "second");
            assert!(again.index() == key.index() && again != key, "the place is used again");
            [first, second].map(|slot| crate::Receipt::new(Arc::clone(node.shared()), slot))
        });
        let told = tokio::time::timeout(Duration::from_secs(60), first).await;
        assert_eq!(told.expect("this hangs").outcome, Outcome::Cancelled);
        second.cancel().unwrap();
        assert_eq!(second.await.outcome, Outcome::Cancelled);
    }

    /// A store that counts groups and keeps none. It has room for everything, and notes the most that it was asked for.
    #[derive(Clone, Default)]
    struct Counts {
        groups: Arc<AtomicUsize>,
        asked: Arc<AtomicU64>,
    }

    impl Storage for Counts {
        fn append_parts(&mut self, _: u64, _: &[&[u8]]) -> Result<(), StoreError> {
            self.groups.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }

        fn forcer(&self) -> Box<dyn Force> {
            unreachable!("nothing is forced at this durability")
        }

        fn wants_snapshot(&self) -> bool {
            false
        }

        fn snapshot_keeping(&mut self, _: u64, _: Vec<u8>) -> Result<(), StoreError> {
            Ok(())
        }

        fn keep_from(&self, _: &[(u64, u64)]) -> u64 {
            u64::MAX
        }

        fn lsn(&self) -> u64 {
            0
        }

        fn room(&self) -> u64 {
            u64::MAX
        }

        fn has_reserve(&mut self, need: u64) -> bool {
            self.asked.fetch_max(need, Ordering::Relaxed);
            true
        }

        fn close(self: Box<Self>) -> Result<(), StoreError> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn a_message_and_its_answer_are_one_group_of_the_journal() {
        let home = tempfile::tempdir().unwrap();
        let alice = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await.unwrap();
        let builder = Node::builder(Allow::anyone()).bind("127.0.0.1:0").state_dir(home.path());
        let bob = builder.durability(Durability::Process).build().await.unwrap();
        let Counts { groups, asked } = Counts::default();
        let counts = Counts { groups: Arc::clone(&groups), asked };
        bob.shared().amend(|engine| engine.journal = Some(Log::on(Box::new(counts))));
        drop(alice.peer(bob.peer_addr()).send("question").await.unwrap());
        let question = bob.recv().await.unwrap();
        // Writes the record that handing the message out has left.
        bob.shared().amend(|_| ());
        let before = groups.load(Ordering::Relaxed);
        let (to, mut answer) = (question.from(), Some("answer".into()));
        let queued = bob.shared().step_quietly(|engine, now| {
            engine.take_and_send(now, question.key(), to, &[], &mut answer, Way::Plain).unwrap()
        });
        assert!(queued.0.is_some());
        assert_eq!(groups.load(Ordering::Relaxed), before + 1);
        question.let_go();
    }

    /// A disk that takes no group after `lsn`, but says that it has a reserve if `reserves` is set.
    struct Full {
        lsn: u64,
        error: fn() -> StoreError,
        reserves: bool,
        closed: Arc<AtomicUsize>,
    }

    fn full() -> StoreError {
        StoreError::Full { path: "here".into(), error: Arc::new(std::io::ErrorKind::StorageFull.into()) }
    }

    fn broken() -> StoreError {
        StoreError::Sync { path: "here".into(), error: Arc::new(std::io::ErrorKind::Other.into()) }
    }

    impl Storage for Full {
        fn append_parts(&mut self, _: u64, _: &[&[u8]]) -> Result<(), StoreError> {
            Err((self.error)())
        }

        fn forcer(&self) -> Box<dyn Force> {
            unreachable!("nothing is forced at this durability")
        }

        fn wants_snapshot(&self) -> bool {
            true
        }

        fn snapshot_keeping(&mut self, _: u64, _: Vec<u8>) -> Result<(), StoreError> {
            Err(full())
        }

        fn keep_from(&self, _: &[(u64, u64)]) -> u64 {
            u64::MAX
        }

        fn lsn(&self) -> u64 {
            self.lsn
        }

        fn room(&self) -> u64 {
            0
        }

        fn has_reserve(&mut self, _: u64) -> bool {
            self.reserves
        }

        fn close(self: Box<Self>) -> Result<(), StoreError> {
            self.closed.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }
    }

    /// Returns a node that has sent a message. Nothing of the message has left, and the node's disk is full from now
    /// on.
    async fn unlucky(home: &tempfile::TempDir) -> (Node, crate::Receipt) {
        let (node, receipt, _) = without(home, full, false).await;
        (node, receipt)
    }

    /// As [`unlucky`], with this error of the disk. Returns also how many times the journal was closed.
    async fn without(
        home: &tempfile::TempDir,
        error: fn() -> StoreError,
        reserves: bool,
    ) -> (Node, crate::Receipt, Arc<AtomicUsize>) {
        let builder = Node::builder(Allow::anyone()).bind("127.0.0.1:0").state_dir(home.path());
        let node = builder.build().await.unwrap();
        let receipt = node.peer(nobody()).send("x").await.unwrap();
        let closed = Arc::new(AtomicUsize::new(0));
        // From here on the test awaits nothing, so the driver does not run.
        node.shared().amend(|engine| {
            let lsn = engine.core.journal_group();
            let storage = Full { lsn, error, reserves, closed: Arc::clone(&closed) };
            engine.journal = Some(Log::on(Box::new(storage)));
        });
        (node, receipt, closed)
    }

    #[tokio::test]
    async fn nothing_leaves_that_rests_on_what_was_not_written() {
        let home = tempfile::tempdir().unwrap();
        let (node, receipt) = unlucky(&home).await;
        let left = node.shared().step_quietly(|engine, now| {
            engine.core.suggest(now, &nobody().id, SocketAddr::from(([127, 0, 0, 1], 9)));
            engine.core.send(now, nobody().id, &[], exonet_proto::node::Outgoing::default()).unwrap();
            engine.transmit(now, 1, &mut Vec::new())
        });
        assert!(left.0.is_none());
        assert_eq!(node.shared().look(|engine| engine.phase), Phase::Stopped);
        assert_eq!(receipt.await.outcome, Outcome::Kept, "the journal has it, and the next life says so");
    }

    #[tokio::test]
    async fn after_a_group_without_room_what_the_journal_has_is_kept_and_what_it_lacks_was_not_accepted() {
        for (error, certain) in [(full as fn() -> StoreError, true), (broken, false)] {
            let home = tempfile::tempdir().unwrap();
            let (node, receipt, closed) = without(&home, error, true).await;
            let batch = node.peer(nobody()).send_bodies(["y", "z"]).await.unwrap_err();
            assert_eq!(batch.source, if certain { SendError::Closed } else { SendError::InDoubt });
            let (old, new) = (receipt.await.outcome, batch.sent.await);
            if certain {
                assert_eq!((old, new.cancelled, new.unknown), (Outcome::Kept, 2, 0));
            } else {
                assert_eq!((old, new.cancelled, new.unknown), (Outcome::Unknown, 0, 2));
            }
            node.close(Duration::ZERO).await;
            assert_eq!(
                closed.load(Ordering::Relaxed),
                usize::from(certain),
                "it is trusted after a boot too"
            );
        }
    }

    /// A journal on a disk that has room for nothing more.
    struct Ended(Box<dyn Storage>);

    impl Storage for Ended {
        fn append_parts(&mut self, _: u64, _: &[&[u8]]) -> Result<(), StoreError> {
            Err(full())
        }

        fn forcer(&self) -> Box<dyn Force> {
            self.0.forcer()
        }

        fn wants_snapshot(&self) -> bool {
            false
        }

        fn snapshot_keeping(&mut self, from: u64, state: Vec<u8>) -> Result<(), StoreError> {
            self.0.snapshot_keeping(from, state)
        }

        fn keep_from(&self, needed: &[(u64, u64)]) -> u64 {
            self.0.keep_from(needed)
        }

        fn lsn(&self) -> u64 {
            self.0.lsn()
        }

        fn room(&self) -> u64 {
            self.0.room()
        }

        fn has_reserve(&mut self, need: u64) -> bool {
            self.0.has_reserve(need)
        }

        fn close(self: Box<Self>) -> Result<(), StoreError> {
            self.0.close()
        }
    }

    #[tokio::test]
    async fn the_next_life_has_what_is_kept_and_nothing_else() {
        for durability in [Durability::Process, Durability::Batched(Duration::from_secs(3_600))] {
            let home = tempfile::tempdir().unwrap();
            let builder = || Node::builder(Allow::anyone()).bind("127.0.0.1:0").state_dir(home.path());
            let node = builder().durability(durability).build().await.unwrap();
            let bodies = ["a", "b", "c"];
            let old: Vec<_> = bodies.map(|body| node.peer(nobody()).try_send(body).unwrap()).into();
            node.shared().amend(|engine| {
                engine.journal =
                    engine.journal.take().map(|log| log.with(|storage| Box::new(Ended(storage))));
            });
            assert!(matches!(node.peer(nobody()).try_send("d"), Err(SendError::Closed)));
            for receipt in old {
                assert_eq!(receipt.await.outcome, Outcome::Kept);
            }
            node.close(Duration::ZERO).await;
            drop(node);
            let node = builder().durability(durability).build().await.unwrap();
            assert_eq!(node.recovered().len(), bodies.len(), "{durability:?}");
        }
    }

    #[tokio::test]
    async fn the_journal_is_asked_for_room_for_what_is_accepted() {
        let home = tempfile::tempdir().unwrap();
        let builder = Node::builder(Allow::anyone()).bind("127.0.0.1:0").state_dir(home.path());
        let node = builder
            .durability(Durability::Process)
            .limits(|limits| (limits.queued_bytes, limits.message) = (1_000, 10_000))
            .build()
            .await
            .unwrap();
        let counts = Counts::default();
        let asked = || usize::try_from(counts.asked.load(Ordering::Relaxed)).unwrap();
        node.shared().amend(|engine| engine.journal = Some(Log::on(Box::new(counts.clone()))));
        let peer = node.peer(nobody());
        assert!(matches!(peer.try_send(vec![0; 10_001]), Err(SendError::TooLarge { .. })));
        assert!(asked() < 10_000, "nothing is made for what the core refuses");
        let bodies = [[0; 300]; 10];
        let mut batch = Box::pin(peer.send_bodies(bodies));
        std::future::poll_fn(|cx| {
            assert!(batch.as_mut().poll(cx).is_pending());
            std::task::Poll::Ready(())
        })
        .await;
        assert!((1_200..5_000).contains(&asked()), "the others wait for room: {}", asked());
        drop(batch);
        let other = PeerAddr::from((NodeId([3; 32]), SocketAddr::from(([127, 0, 0, 1], 9))));
        drop(node.peer(other).try_send(vec![0; 9_000]).unwrap());
        assert!((9_000..11_000).contains(&asked()), "{}", asked());
    }

    #[tokio::test]
    async fn nothing_is_cancelled_that_the_next_life_may_send() {
        let home = tempfile::tempdir().unwrap();
        let (_node, receipt) = unlucky(&home).await;
        assert_eq!(receipt.cancel(), Err(CancelError::InDoubt));
        assert_eq!(receipt.await.outcome, Outcome::Unknown);
    }

    #[tokio::test]
    async fn a_message_whose_node_stops_before_the_disk_has_it_is_in_doubt() {
        let home = tempfile::tempdir().unwrap();
        let builder = Node::builder(Allow::anyone()).bind("127.0.0.1:0").state_dir(home.path());
        let node = builder.durability(Durability::Batched(Duration::from_secs(3_600))).build().await.unwrap();
        let peer = node.peer(nobody());
        let mut one = Box::pin(peer.send("x"));
        let mut more = Box::pin(peer.send_bodies(["x", "y"]));
        let (mut row, _) = peer.stream("row").unwrap().split();
        let mut streamed = Box::pin(row.send("x"));
        let group = node.group([nobody()]).build().unwrap();
        let mut copied = Box::pin(group.send(Mode::All, "x"));
        std::future::poll_fn(|cx| {
            assert!(one.as_mut().poll(cx).is_pending());
            assert!(more.as_mut().poll(cx).is_pending());
            assert!(streamed.as_mut().poll(cx).is_pending());
            assert!(copied.as_mut().poll(cx).is_pending());
            std::task::Poll::Ready(())
        })
        .await;
        node.shared().journal_failed(&full());
        assert_eq!(one.await.unwrap_err(), SendError::InDoubt);
        let batch = more.await.unwrap_err();
        assert_eq!((batch.sent.len(), batch.source), (2, SendError::InDoubt));
        assert!(matches!(streamed.await, Err(StreamSendError::Send(SendError::InDoubt))));
        assert!(matches!(copied.await, Err(GroupError::InDoubt)));
        assert_eq!(peer.send("y").await.unwrap_err(), SendError::Closed, "this one was not queued");
    }

    #[tokio::test]
    async fn a_batch_that_waits_for_room_when_its_node_ends_says_that_its_messages_are_in_doubt() {
        let home = tempfile::tempdir().unwrap();
        let builder = Node::builder(Allow::anyone()).bind("127.0.0.1:0").state_dir(home.path());
        let builder = builder.limits(|limits| limits.queued_messages = 2);
        let node = builder.durability(Durability::Batched(Duration::from_secs(3_600))).build().await.unwrap();
        let peer = node.peer(nobody());
        let mut batch = Box::pin(peer.send_bodies(["x", "y", "z"]));
        std::future::poll_fn(|cx| {
            assert!(batch.as_mut().poll(cx).is_pending());
            std::task::Poll::Ready(())
        })
        .await;
        node.shared().journal_failed(&broken());
        // The node has no journal any more.
        node.close(Duration::ZERO).await;
        let error = batch.await.unwrap_err();
        assert_eq!((error.sent.len(), error.source), (2, SendError::InDoubt));
    }

    #[tokio::test]
    async fn a_message_that_the_journal_may_have_is_in_doubt() {
        for (error, said) in [(full as fn() -> _, SendError::Closed), (broken, SendError::InDoubt)] {
            let homes = [(); 3].map(|()| tempfile::tempdir().unwrap());
            let (node, _receipt, _) = without(&homes[0], error, true).await;
            assert_eq!(node.peer(nobody()).try_send("y").unwrap_err(), said);
            assert_eq!(node.peer(nobody()).try_send("z").unwrap_err(), SendError::Closed);
            let (node, _receipt, _) = without(&homes[1], error, true).await;
            let (mut row, _) = node.peer(nobody()).stream("row").unwrap().split();
            assert!(matches!(row.try_send("y"), Err(StreamSendError::Send(error)) if error == said));
            let (node, _receipt, _) = without(&homes[2], error, true).await;
            let receipt = node.group([nobody()]).build().unwrap().send(Mode::All, "y").await.unwrap();
            let table = receipt.members();
            assert_eq!(table[0].state.is_certainly_not(), said == SendError::Closed, "{table:?}");
        }
    }

    /// The error for a body that is too long for the journal does not speak of the disk.
    #[tokio::test]
    async fn a_body_that_no_journal_takes_is_called_too_large() {
        let (homes, limit) = ([(); 2].map(|()| tempfile::tempdir().unwrap()), 1_000);
        let builder = |home: &tempfile::TempDir| {
            Node::builder(Allow::anyone()).bind("127.0.0.1:0").state_dir(home.path())
        };
        let node = builder(&homes[0]).build().await.unwrap();
        let whole = node.shared().look(|engine| engine.core.config().limits.whole_message);
        assert_eq!(whole, exonet_store::MAX_GROUP - 1_024);
        let node = builder(&homes[1]).limits(|limits| limits.whole_message = limit).build().await.unwrap();
        let (peer, too_large) = (node.peer(nobody()), SendError::TooLarge { size: 1_001, limit });
        assert_eq!(peer.try_send(vec![0; 1_001]).unwrap_err(), too_large);
        let batch = peer.send_bodies([vec![0; 1], vec![0; 1_001], vec![0; 1]]).await.unwrap_err();
        assert_eq!((batch.sent.len(), &batch.source), (1, &too_large), "the message before it is queued");
        let mut sink = peer.sink();
        for len in [1, 1_001, 2] {
            sink.feed(vec![0; len]).await.unwrap();
        }
        assert_eq!(sink.flush().await, Err(too_large));
        sink.flush().await.unwrap();
        drop(peer.send_stream("", 1_001).await.unwrap());
    }

    #[tokio::test]
    async fn a_snapshot_that_finds_no_room_ends_nothing() {
        let home = tempfile::tempdir().unwrap();
        let (node, receipt) = unlucky(&home).await;
        assert!(node.shared().step_quietly(|engine, now| engine.write_journal(now)).0);
        assert!(matches!(node.peer(nobody()).try_send("y"), Err(crate::error::SendError::NoSpace)));
        assert_eq!(node.shared().look(|engine| engine.phase), Phase::Open);
        drop(receipt);
    }
}
