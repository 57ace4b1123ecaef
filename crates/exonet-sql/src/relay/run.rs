//! The relay's task.

use core::time::Duration;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use exonet::error::SendError;
use exonet::send::{Refusal, Settled};
use exonet::{Node, NodeId, Outcome};
use futures_util::StreamExt;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::database::{Cells, Store, Value};
use crate::relay::ahead::Ahead;
use crate::relay::commits::watch;
use crate::relay::floor::Floor;
use crate::relay::former::Former;
use crate::relay::lanes::Lanes;
use crate::relay::peers::{Receiver, Receivers};
use crate::relay::rows::{Found, OpenRows};
use crate::relay::{RelayBuilder, RelayStats, Wish};
use crate::statements::Statements;
use crate::{Error, Key};

/// How often the relay notes that it is alive, reads the owners of lanes, and looks for rows of which it was not
/// notified.
const BEAT: Duration = Duration::from_secs(1);
/// How often the relay looks for rows while many come. It is about the time that a forced commit takes.
const LOOK: Duration = Duration::from_millis(5);
/// The same while the receivers have enough to do: half as many rows are under way as one may get, or none takes any.
const LOOK_BUSY: Duration = Duration::from_millis(20);
/// After a search that has found nothing, the relay waits for at least this many times as long as it took: rows that
/// cannot go now may be many.
const REST: u32 = 4;
/// How often the relay looks for something that notifies no task.
const POLL: Duration = Duration::from_millis(20);
/// If this many rows come within `MANY_WITHIN`, `send` no longer needs to wake the relay.
const MANY: usize = 8;
const MANY_WITHIN: Duration = Duration::from_millis(50);
/// After this long without a row, the relay sleeps.
const QUIET: Duration = Duration::from_millis(100);
/// How long processed rows wait for others, so that they are deleted together. Nothing waits for them meanwhile.
const GATHER: Duration = Duration::from_millis(50);
/// If this many processed rows wait, they are deleted at once.
const GATHERED: usize = 128;
/// How many rows are read at a time.
const READ: usize = 256;
/// About how many bytes are read at a time. `OPEN_ROWS` is how many rows to all receivers together may be under way.
const READ_BYTES: usize = 4 << 20;
const OPEN_ROWS: usize = 1 << 16;
/// The first and the longest pause while the database is away.
const AWAY: Duration = Duration::from_millis(50);
const LONGEST_AWAY: Duration = Duration::from_secs(5);
/// How often the relay looks for rows that were kept long enough, and how many it deletes at a time.
const PURGE: Duration = Duration::from_secs(10);
const PURGED: i64 = 5_000;

/// Results that the relay has yet to write to the database.
#[derive(Default)]
struct Told {
    processed: Vec<i64>,
    failed: Vec<(i64, String)>,
    since: Option<Instant>,
    /// Whether rows wait for this: the next of an order, or half of what may be under way.
    hurry: bool,
}

impl Told {
    fn count(&self) -> usize {
        self.processed.len() + self.failed.len()
    }

    fn due(&self) -> Option<Instant> {
        let now = self.hurry || self.count() >= GATHERED;
        self.since.map(|since| if now { since } else { since + GATHER })
    }
}

/// How the relay finds rows.
struct Watch {
    /// Whether the relay looks for rows by itself, so that `send` need not wake it.
    awake: bool,
    /// Whether it sleeps while there may be transactions that do not know that yet.
    falling_asleep: bool,
    /// When the current period began, and how many rows have come in it.
    recent: (Instant, usize),
    last_row: Instant,
    next_look: Instant,
}

pub(super) struct Runner {
    store: Arc<dyn Store>,
    node: Node,
    wished: watch::Receiver<Wish>,
    stats: Arc<Mutex<RelayStats>>,
    keep_settled: Option<Duration>,
    in_flight: usize,
    lanes: Lanes,
    former: Former,
    receivers: Receivers,
    open: OpenRows,
    ahead: Ahead,
    told: Told,
    watch: Watch,
    floor: Floor,
    /// How many rows the next read takes.
    batch: usize,
    next_beat: Instant,
    next_purge: Instant,
    released: bool,
}

impl Runner {
    pub(super) async fn new<DB>(
        builder: RelayBuilder<DB>,
        wished: watch::Receiver<Wish>,
        stats: Arc<Mutex<RelayStats>>,
    ) -> Self {
        let RelayBuilder { store, node, lanes, take_after, keep_settled, in_flight, .. } = builder;
        let (former, now) = (Former::find(&node).await, Instant::now());
        let lanes = Lanes::new(Arc::clone(&store), node.clone(), lanes, take_after);
        // The previous relay may not have noted that `send` must wake it.
        let (awake, falling_asleep) = (store.dialect().notifies(), false);
        let watch = Watch { awake, falling_asleep, recent: (now, 0), last_row: now, next_look: now };
        let (open, ahead, told, floor) = Default::default();
        Self {
            store,
            node,
            wished,
            stats,
            keep_settled,
            in_flight,
            lanes,
            former,
            receivers: Receivers::new(in_flight),
            open,
            ahead,
            told,
            watch,
            floor,
            batch: READ / 8,
            next_beat: now,
            next_purge: now,
            released: false,
        }
    }

    pub(super) async fn run(mut self) -> Result<(), Error> {
        let mut tasks = JoinSet::new();
        let wake = Arc::new(Notify::new());
        tasks.spawn(watch(Arc::clone(&self.store), Arc::clone(&wake)));
        let mut away = AWAY;
        loop {
            match self.turn().await {
                Ok(false) => away = AWAY,
                Ok(true) => return Ok(()),
                Err(Error::Database(error)) => {
                    tracing::warn!(%error, wait = ?away, "the relay waits for its database");
                    self.note(|stats| stats.error = Some(error.to_string()));
                    // The database may come back as it was before.
                    (self.floor, self.ahead) = Default::default();
                    tokio::time::sleep(away).await;
                    away = (2 * away).min(LONGEST_AWAY);
                    continue;
                }
                Err(error) => return Err(error),
            }
            self.wait(&wake).await;
        }
    }

    fn statements(&self) -> &'static Statements {
        self.store.dialect().statements()
    }

    fn note(&self, note: impl FnOnce(&mut RelayStats)) {
        note(&mut self.stats.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Does the work that is due. Returns whether the relay has ended.
    async fn turn(&mut self) -> Result<bool, Error> {
        let (now, wish) = (Instant::now(), *self.wished.borrow_and_update());
        if wish == Wish::SignOff && !self.released {
            self.lanes.release().await?;
            self.released = true;
        }
        if self.told.due().is_some_and(|due| due <= now || wish != Wish::Run) {
            self.tell().await?;
        }
        if !self.former.is_empty() {
            self.former.update(&self.node).await;
        }
        if self.next_beat <= now || self.ends(wish) {
            self.beat(wish).await?;
        }
        if self.ends(wish) {
            return Ok(wish == Wish::Stop || self.lanes.leaving.is_empty());
        }
        if wish == Wish::Run && self.watch.next_look <= now {
            self.look().await?;
        }
        let open = self.open.rows.len();
        self.note(|stats| (stats.open, stats.error) = (open, None));
        Ok(false)
    }

    /// Whether the relay can end: nothing for which it waits is under way.
    fn ends(&self, wish: Wish) -> bool {
        wish != Wish::Run && self.open.rows.is_empty()
    }

    async fn wait(&mut self, wake: &Notify) {
        let ending = *self.wished.borrow() != Wish::Run;
        let soon = Instant::now() + if self.former.is_empty() && !ending { BEAT } else { POLL };
        let due = [
            Some(soon),
            Some(self.next_beat),
            Some(self.watch.next_look),
            self.told.due(),
            self.receivers.next(),
        ];
        let due = due.into_iter().flatten().min().unwrap_or(soon);
        tokio::select! {
            biased;
            _ = self.wished.changed() => {}
            Some((id, settled, reason)) = self.open.receipts.next(), if !self.open.receipts.is_empty() => self.settle(id, settled, reason),
            () = wake.notified() => self.watch.next_look = Instant::now(),
            () = sleep_until(due) => {}
        }
        // Takes the other receipts that are settled.
        while !self.open.receipts.is_empty()
            && let Some(Some((id, settled, reason))) =
                futures_util::FutureExt::now_or_never(self.open.receipts.next())
        {
            self.settle(id, settled, reason);
        }
        if self.receivers.next().is_some_and(|rested| rested <= Instant::now()) {
            self.watch.next_look = Instant::now();
        }
    }

    async fn beat(&mut self, wish: Wish) -> Result<(), Error> {
        self.next_beat = Instant::now() + BEAT;
        if self.lanes.look(wish == Wish::Run).await? {
            self.lanes.greet().await?;
            self.watch.next_look = Instant::now();
        }
        let busy: BTreeSet<u8> = self.open.rows.values().map(|row| row.lane).collect();
        let all = self.former.is_empty();
        self.lanes.leave(|lane| all && !busy.contains(&lane)).await?;
        if let Some(keep) = self.keep_settled
            && self.next_purge <= Instant::now()
        {
            self.next_purge = Instant::now() + PURGE;
            let mut conn = self.store.acquire().await?;
            let keep = i64::try_from(keep.as_secs()).unwrap_or(i64::MAX / 1_000);
            conn.execute(self.statements().purge, vec![Value::Int(keep), Value::Int(PURGED)]).await?;
        }
        let (lanes, leaving) = (&self.lanes.owned, &self.lanes.leaving);
        let (lanes, leaving) = (lanes.iter().copied().collect(), leaving.iter().copied().collect());
        self.note(|stats| (stats.lanes, stats.leaving) = (lanes, leaving));
        self.ahead.clear();
        let mut conn = self.store.acquire().await?;
        let mut first = conn.fetch(self.statements().first, Vec::new()).await?;
        self.floor.found(first.first_mut().map(Cells::int).transpose()?);
        // Looks for rows of which it was not notified.
        self.watch.next_look = Instant::now();
        Ok(())
    }

    // ---- rows that are settled

    /// Notes the end of a row. The row counts as under way until this is written to the database.
    fn settle(&mut self, id: i64, settled: Settled, reason: Option<Arc<str>>) {
        let Some(row) = self.open.rows.get(&id) else { return };
        let (peer, ordered, key) = (row.peer, row.turn.is_some(), row.key);
        let receiver = self.receivers.known(&peer);
        match settled.outcome {
            Outcome::Delivered | Outcome::Processed { .. } => {
                if let Some(receiver) = receiver {
                    receiver.goes_well();
                }
                self.told.processed.push(id);
            }
            Outcome::Rejected { status, attempts } => {
                let reason = reason.as_deref().unwrap_or("no reason given");
                let why =
                    format!("rejected by the receiver: {reason} (status {status}, attempts {attempts})");
                self.told.failed.push((id, why));
            }
            Outcome::Refused(Refusal::Ended) => self.told.failed.push((id, Refusal::Ended.to_string())),
            // If it is Unknown, its slot is dead, so that no copy of it can be taken any more. The row is handed over
            // again; if it was processed, the receiver's inbox recognizes it. With any other outcome it was not
            // processed.
            outcome => {
                tracing::debug!(%key, peer = %peer.short(), ?outcome, "the row is handed over again");
                if let Some(receiver) = receiver {
                    receiver.pause();
                }
                if let Some(turn) = self.close(id) {
                    self.ahead.forget(&turn);
                }
                return;
            }
        }
        self.told.since.get_or_insert_with(Instant::now);
        self.told.hurry |= ordered || 2 * self.told.count() >= self.in_flight;
    }

    /// Notes that a row is no longer under way. Returns the order whose next row may go now.
    fn close(&mut self, id: i64) -> Option<Vec<u8>> {
        let row = self.open.end(id)?;
        if self.receivers.known(&row.peer).is_some_and(Receiver::end) {
            self.watch.next_look = Instant::now();
        }
        row.turn
    }

    /// Notes that the end of a row is in the database, and hands over the next row of its order.
    fn close_written(&mut self, id: i64) -> Result<(), Error> {
        let Some(turn) = self.close(id) else { return Ok(()) };
        let next = self.ahead.next(&turn).filter(|_| *self.wished.borrow() == Wish::Run);
        let goes = next.map(|found| self.hand_over(&found, Instant::now())).transpose()?;
        if goes != Some(true) {
            self.ahead.forget(&turn);
            self.watch.next_look = Instant::now();
        }
        Ok(())
    }

    /// Writes to the database which rows are processed.
    async fn tell(&mut self) -> Result<(), Error> {
        let me = Value::blob(self.node.id().0);
        let mut conn = self.store.acquire().await?;
        if !self.told.processed.is_empty() {
            let sql = match self.keep_settled {
                Some(_) => self.statements().settle_and_keep,
                None => self.statements().settle,
            };
            let ids = self.told.processed.clone();
            let gone = conn.execute(sql, vec![me.clone(), Value::Ints(ids)]).await?;
            self.note(|stats| stats.processed += gone);
            // From now on no relay reads these rows, not even a later owner of their lanes.
            for id in core::mem::take(&mut self.told.processed) {
                self.close_written(id)?;
            }
        }
        while let Some((id, why)) = self.told.failed.last().cloned() {
            let args = vec![me.clone(), Value::Int(id), Value::Text(Some(why))];
            let marked = conn.execute(self.statements().fail, args).await?;
            self.note(|stats| stats.failed += marked);
            self.told.failed.pop();
            self.close_written(id)?;
        }
        self.told = Told::default();
        Ok(())
    }

    // ---- rows to hand over

    /// Reads rows, and hands them over. No row is deleted meanwhile: only this task deletes its rows, and a relay
    /// that took a lane over has recorded this one as a former owner.
    async fn look(&mut self) -> Result<(), Error> {
        let began = Instant::now();
        let limit = self.batch.min(self.receivers.room().unwrap_or(READ));
        let found = self.read(limit).await?;
        let (now, rows) = (Instant::now(), found.len());
        let rest = if rows == 0 { REST * now.duration_since(began) } else { Duration::ZERO };
        let more = rows == limit && self.open.rows.len() < OPEN_ROWS;
        let bytes: usize = found.iter().map(|found| found.row.body.len()).sum();
        if let Some(size) = bytes.checked_div(rows) {
            self.batch = (READ_BYTES / size.max(1)).clamp(1, READ);
            self.watch.last_row = now;
        }
        let (began, count) = self.watch.recent;
        let recent =
            if now.duration_since(began) > MANY_WITHIN { (now, rows) } else { (began, count + rows) };
        self.watch.recent = recent;
        let mut strangers = Vec::new();
        let mut progress = false;
        for found in found {
            self.floor.has_read(found.id);
            match found.turn() {
                _ if found.owner.is_none() => strangers.push((found.peer, found.addr)),
                Some(turn) if self.open.turns.contains(&turn) => self.ahead.keep(turn, found),
                _ => progress |= self.hand_over(&found, now)?,
            }
        }
        let news = !strangers.is_empty();
        self.meet(strangers).await?;
        self.fall_asleep(rows).await?;
        let soon = news || more && progress;
        let polls = self.watch.awake || self.watch.falling_asleep;
        let busy = 2 * self.open.receipts.len() >= self.in_flight || self.receivers.all_shut();
        let pause = match polls {
            false => BEAT,
            true if busy => LOOK_BUSY.max(rest),
            true => LOOK.max(rest),
        };
        self.watch.next_look = if soon { now } else { now + pause };
        Ok(())
    }

    async fn read(&mut self, limit: usize) -> Result<Vec<Found>, Error> {
        let shut = self.receivers.shut().chain(self.former.peers());
        let args = vec![
            Value::blob(self.node.id().0),
            Value::Ints(self.open.rows.keys().copied().collect()),
            Value::Blobs(shut.map(|peer| peer.0.to_vec()).collect()),
            Value::Blobs(self.open.turns.iter().cloned().collect()),
            Value::Int(i64::try_from(limit).unwrap_or(1)),
            Value::Int(self.floor.id()),
        ];
        let mut conn = self.store.acquire().await?;
        let rows = conn.fetch(self.statements().read, args).await?;
        Ok(rows.into_iter().map(Found::read).collect::<Result<_, _>>()?)
    }

    /// Hands a row to the node, if it may go. Returns false if it has to wait. Then all rows to this receiver wait that are
    /// handed over with the same `now`: none overtakes a row of its order.
    fn hand_over(&mut self, found: &Found, now: Instant) -> Result<bool, Error> {
        let Some(owner) = found.owner else { return Ok(false) };
        let receiver = self.receivers.get(&self.node, found.peer, found.addr.as_deref());
        if receiver.takes_none(now) || self.open.rows.contains_key(&found.id) {
            return Ok(false);
        }
        match receiver.peer.try_send(found.message(owner)) {
            Ok(receipt) => {
                receiver.begin();
                self.open.begin(found, receipt);
                self.note(|stats| stats.handed_over += 1);
                return Ok(true);
            }
            Err(SendError::Closed) => return Err(Error::Closed),
            Err(error @ (SendError::TooLarge { .. } | SendError::Myself)) => {
                self.told.failed.push((found.id, error.to_string()));
                self.told.since.get_or_insert_with(Instant::now);
            }
            Err(error) => {
                tracing::debug!(peer = %found.peer.short(), %error, "rows for this peer wait");
                receiver.pause();
                // Host names are looked up while the task waits for a place in the queue.
                let peer = receiver.peer.clone();
                tokio::spawn(async move { drop(tokio::time::timeout(BEAT, peer.reserve()).await) });
            }
        }
        Ok(false)
    }

    /// Makes accounts for receivers to which this outbox has not sent anything yet.
    async fn meet(&mut self, strangers: Vec<(NodeId, Option<String>)>) -> Result<(), Error> {
        let mut met = BTreeSet::new();
        for (peer, addr) in strangers {
            if met.insert(peer) {
                let mut conn = self.store.acquire().await?;
                let account = Value::blob(Key::random()?.to_vec());
                let args = vec![Value::blob(peer.0), Value::Text(addr), account];
                conn.execute(self.statements().add_peer, args).await?;
            }
        }
        Ok(())
    }

    /// If `send` can wake a sleeping relay: sleeps while few rows come, and looks by itself while many do.
    async fn fall_asleep(&mut self, rows: usize) -> Result<(), Error> {
        if !self.store.dialect().notifies() {
            return Ok(());
        }
        let many = self.watch.recent.1 >= MANY;
        let sleeps = self.watch.awake && self.watch.last_row.elapsed() > QUIET;
        if many != self.watch.awake && (many || sleeps) {
            let mut conn = self.store.acquire().await?;
            let args = vec![Value::blob(self.node.id().0), Value::Int(i64::from(!many))];
            conn.execute(self.statements().sleep, args).await?;
            (self.watch.awake, self.watch.falling_asleep) = (many, !many);
        } else if self.watch.falling_asleep && rows == 0 {
            // Transactions that inserted rows before they could see that this relay sleeps do not wake it. Once they
            // have ended, one more look finds their rows.
            let mut conn = self.store.acquire().await?;
            let mut writers = conn.fetch(self.statements().writers, Vec::new()).await?;
            drop(conn);
            if writers.first_mut().map_or(Ok(0), Cells::int)? == 0 {
                self.watch.falling_asleep = false;
                self.watch.next_look = Instant::now();
            }
        }
        Ok(())
    }
}
