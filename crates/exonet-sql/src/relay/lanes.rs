//! The lanes that the relay owns, and those that it must leave.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use exonet::{Message, Node, NodeId, Outcome};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::database::{Cells, Store, Value};
use crate::error::StoreError;
use crate::relay::peers::address;
use crate::statements::Statements;
use crate::wire::{Envelope, Owner, TAG};

/// If `take_after` is shorter than this, the relay takes lanes over only when it starts.
const LEAST_SILENCE: Duration = Duration::from_secs(3);

/// How long a fence may take before another one is sent.
const FENCE: Duration = Duration::from_secs(60);

pub(crate) struct Lanes {
    store: Arc<dyn Store>,
    node: Node,
    wanted: Vec<u8>,
    take_after: Duration,
    started: bool,
    /// The owner and the beat of each lane, and since when both have been the same.
    seen: BTreeMap<u8, (Option<Vec<u8>>, i64, Instant)>,
    pub(crate) owned: BTreeSet<u8>,
    /// The lanes of which this relay is a former owner.
    pub(crate) leaving: BTreeSet<u8>,
    fence: Option<(BTreeSet<u8>, JoinHandle<bool>)>,
}

/// A lane as stored in the table.
struct Lane {
    lane: u8,
    node: Option<Vec<u8>>,
    beat: i64,
}

impl Lanes {
    pub(crate) fn new(store: Arc<dyn Store>, node: Node, wanted: Vec<u8>, take_after: Duration) -> Self {
        let (owned, leaving) = (BTreeSet::new(), BTreeSet::new());
        Self {
            store,
            node,
            wanted,
            take_after,
            started: false,
            seen: BTreeMap::new(),
            owned,
            leaving,
            fence: None,
        }
    }

    fn statements(&self) -> &'static Statements {
        self.store.dialect().statements()
    }

    fn me(&self) -> Vec<u8> {
        self.node.id().0.to_vec()
    }

    /// Notes that this node is alive, reads the owners of all lanes, and takes the wanted lanes that are free.
    /// Returns whether it has taken any.
    pub(crate) async fn look(&mut self, takes: bool) -> Result<bool, StoreError> {
        let mut conn = self.store.acquire().await?;
        conn.execute(self.statements().beat, vec![Value::blob(self.me())]).await?;
        let lanes = conn.fetch(self.statements().lanes, Vec::new()).await?;
        let lanes: Vec<Lane> = lanes.into_iter().map(Lane::read).collect::<Result<_, _>>()?;
        let prevs = conn.fetch(self.statements().prevs, Vec::new()).await?;
        drop(conn);
        let (me, now) = (self.me(), Instant::now());
        self.leaving.clear();
        for mut prev in prevs {
            let (lane, node) = (number(prev.int()?), prev.bytes()?);
            self.leaving.extend((node == me).then_some(lane));
        }
        self.owned =
            lanes.iter().filter(|lane| lane.node.as_ref() == Some(&me)).map(|lane| lane.lane).collect();
        let mut taken = false;
        for lane in lanes {
            let (node, beat, since) = self.seen.entry(lane.lane).or_insert((None, i64::MIN, now));
            if *node != lane.node || *beat != lane.beat {
                (*node, *beat, *since) = (lane.node.clone(), lane.beat, now);
            }
            let silent = now.duration_since(*since) >= self.take_after;
            let dead = if self.take_after < LEAST_SILENCE { !self.started } else { silent };
            let free = lane.node.is_none() || dead && lane.node.as_ref() != Some(&me);
            if takes && free && self.wanted.contains(&lane.lane) && self.take(&lane).await? {
                self.owned.insert(lane.lane);
                taken = true;
            }
        }
        self.started = true;
        Ok(taken)
    }

    /// Takes a lane over, if its owner and beat are still those in `seen`.
    async fn take(&self, seen: &Lane) -> Result<bool, StoreError> {
        let (number, me) = (Value::Int(seen.lane.into()), self.me());
        let mut tx = self.store.begin().await?;
        let mut locked = tx.fetch(self.statements().lock_lane, vec![number.clone()]).await?;
        let Some(row) = locked.first_mut() else { return Ok(false) };
        let (node, beat) = (row.maybe_bytes()?, row.int()?);
        let mut prevs = tx.fetch(self.statements().prevs, Vec::new()).await?;
        let mut is_prev = false;
        for prev in &mut prevs {
            is_prev |= number == Value::Int(prev.int()?) && prev.bytes()? == me;
        }
        // Messages that this node sent as a former owner may still arrive, so it must leave first.
        if is_prev || node != seen.node || beat != seen.beat {
            return Ok(false);
        }
        if let Some(former) = node {
            let args = vec![number.clone(), Value::blob(former)];
            tx.execute(self.statements().add_prev, args).await?;
        }
        tx.execute(self.statements().own_lane, vec![number, Value::blob(me)]).await?;
        tx.commit().await?;
        Ok(true)
    }

    /// Gives up all lanes: they are free, and this relay is a former owner.
    pub(crate) async fn release(&mut self) -> Result<(), StoreError> {
        let me = self.me();
        for lane in self.owned.clone() {
            let number = Value::Int(lane.into());
            let mut tx = self.store.begin().await?;
            let mut locked = tx.fetch(self.statements().lock_lane, vec![number.clone()]).await?;
            if let Some(row) = locked.first_mut()
                && row.maybe_bytes()?.as_ref() == Some(&me)
            {
                let args = vec![number.clone(), Value::blob(me.clone())];
                tx.execute(self.statements().add_prev, args).await?;
                tx.execute(self.statements().own_lane, vec![number, Value::Bytes(None)]).await?;
                tx.commit().await?;
                self.leaving.insert(lane);
            }
            self.owned.remove(&lane);
        }
        Ok(())
    }

    /// Tells all receivers that this node now speaks for the outbox, so that they ask it which rows are gone.
    pub(crate) async fn greet(&self) -> Result<(), StoreError> {
        for (peer, addr, owner) in self.receivers().await? {
            let hello = Message::new(Envelope::Hello { owner }.encode()).tag(TAG).early(false);
            // A receiver that does not get this message learns it from the next row.
            drop(self.node.peer(address(peer, addr.as_deref())).try_send(hello));
        }
        Ok(())
    }

    async fn receivers(&self) -> Result<Vec<(NodeId, Option<String>, Owner)>, StoreError> {
        let mut conn = self.store.acquire().await?;
        let rows = conn.fetch(self.statements().peers, Vec::new()).await?;
        let read = |mut row: Cells| {
            let (peer, addr, owner) = (row.bytes()?, row.maybe_text()?, row.bytes()?);
            // Rows that cannot be read were inserted by hand, and nothing was sent to their receivers.
            Ok(peer
                .try_into()
                .ok()
                .map(NodeId)
                .zip(Owner::read(&owner))
                .map(|(peer, owner)| (peer, addr, owner)))
        };
        rows.into_iter().filter_map(|row| read(row).transpose()).collect()
    }

    /// Leaves the lanes that now belong to others, if `may_leave` says that none of their rows are under way here.
    pub(crate) async fn leave(&mut self, may_leave: impl Fn(u8) -> bool) -> Result<(), StoreError> {
        if let Some((_, sent)) = &self.fence
            && !sent.is_finished()
        {
            return Ok(());
        }
        let mut fenced = BTreeSet::new();
        if let Some((lanes, sent)) = self.fence.take()
            && sent.await.unwrap_or(false)
        {
            fenced = lanes;
        }
        if !fenced.is_empty() {
            let lanes = Value::Ints(fenced.iter().map(|lane| (*lane).into()).collect());
            let mut conn = self.store.acquire().await?;
            conn.execute(self.statements().leave, vec![Value::blob(self.me()), lanes]).await?;
            self.leaving.retain(|lane| !fenced.contains(lane));
        }
        let ready: BTreeSet<_> = self.leaving.iter().copied().filter(|lane| may_leave(*lane)).collect();
        if !ready.is_empty() {
            let (node, receivers) = (self.node.clone(), self.receivers().await?);
            self.fence = Some((ready, tokio::spawn(fence(node, receivers))));
        }
        Ok(())
    }
}

impl Drop for Lanes {
    fn drop(&mut self) {
        if let Some((_, sent)) = &self.fence {
            sent.abort();
        }
    }
}

/// Sends a fence to every receiver. A receiver takes it in a slot that it has granted to this life of the node, and
/// only after it has made the slots of former lives useless. After that, it takes nothing that a former life has
/// sent. Returns false if not every receiver has taken the fence.
async fn fence(node: Node, receivers: Vec<(NodeId, Option<String>, Owner)>) -> bool {
    let mut receipts = Vec::new();
    for (peer, addr, owner) in receivers {
        let message = Message::new(Envelope::Fence { owner }.encode()).tag(TAG).early(false);
        let peer = node.peer(address(peer, addr.as_deref()));
        let Ok(Ok(receipt)) = tokio::time::timeout(FENCE, peer.send(message)).await else { return false };
        receipts.push(receipt);
    }
    for receipt in receipts {
        // A fence that is not taken within this time is not withdrawn. Another one follows, which has the same
        // effect.
        let Ok(settled) = tokio::time::timeout(FENCE, receipt).await else { return false };
        if settled.outcome != Outcome::Delivered {
            return false;
        }
    }
    true
}

impl Lane {
    fn read(mut row: Cells) -> Result<Self, StoreError> {
        Ok(Self { lane: number(row.int()?), node: row.maybe_bytes()?, beat: row.int()? })
    }
}

/// The number of a lane. A number out of range means a lane without an owner.
pub(crate) fn number(lane: i64) -> u8 {
    u8::try_from(lane).unwrap_or(u8::MAX)
}
