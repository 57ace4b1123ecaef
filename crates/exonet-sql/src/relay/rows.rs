//! The rows that are under way.

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use exonet::send::Settled;
use exonet::{Message, NodeId, Receipt};
use futures_util::stream::FuturesUnordered;

use crate::Key;
use crate::database::Cells;
use crate::error::StoreError;
use crate::relay::lanes::number;
use crate::wire::{Envelope, Owner, Row, TAG};

/// A row as it was read from the database.
pub(crate) struct Found {
    pub(crate) id: i64,
    pub(crate) lane: u8,
    pub(crate) peer: NodeId,
    pub(crate) addr: Option<String>,
    pub(crate) owner: Option<Owner>,
    pub(crate) row: Row,
}

impl Found {
    pub(crate) fn read(mut cells: Cells) -> Result<Self, StoreError> {
        let (id, key, lane) = (cells.int()?, cells.bytes()?, number(cells.int()?));
        let (peer, addr, order) = (cells.bytes()?, cells.maybe_text()?, cells.maybe_bytes()?);
        let (tag, body, account) = (cells.bytes()?, cells.bytes()?, cells.maybe_bytes()?);
        let wrong = || {
            StoreError::wrong("a key or a peer in exonet_outbox has another length than this crate gave it")
        };
        let key = Key::read(&key).ok_or_else(wrong)?;
        let peer = NodeId(peer.try_into().map_err(|_| wrong())?);
        let order = Bytes::from(order.unwrap_or_default());
        let owner = account.and_then(|account| Owner::read(&account));
        Ok(Self { id, lane, peer, addr, owner, row: Row { key, tag: tag.into(), order, body: body.into() } })
    }

    /// The peer and the order key of the row, if it has an order key.
    pub(crate) fn turn(&self) -> Option<Vec<u8>> {
        (!self.row.order.is_empty()).then(|| [&self.peer.0[..], &self.row.order].concat())
    }

    /// The message of the row. It does not leave together with an opening, since it must be bound to a slot that was
    /// granted to this life of the node.
    pub(crate) fn message(&self, owner: Owner) -> Message {
        Message::new(Envelope::Row { owner, row: self.row.clone() }.encode()).tag(TAG).early(false)
    }
}

/// A row that is under way, or whose end is not yet written to the database.
pub(crate) struct OpenRow {
    pub(crate) key: Key,
    pub(crate) lane: u8,
    pub(crate) peer: NodeId,
    pub(crate) turn: Option<Vec<u8>>,
}

/// The receipt of a row.
pub(crate) struct Tracked {
    id: i64,
    receipt: Receipt,
}

impl Future for Tracked {
    type Output = (i64, Settled, Option<Arc<str>>);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let settled = ready!(Pin::new(&mut self.receipt).poll(cx));
        // Read at once, since a node keeps reasons only for a while.
        Poll::Ready((self.id, settled, self.receipt.reason()))
    }
}

#[derive(Default)]
pub(crate) struct OpenRows {
    pub(crate) rows: HashMap<i64, OpenRow>,
    pub(crate) receipts: FuturesUnordered<Tracked>,
    /// The orders of which a row is under way: never more than one row of each.
    pub(crate) turns: HashSet<Vec<u8>>,
}

impl OpenRows {
    pub(crate) fn begin(&mut self, found: &Found, receipt: Receipt) {
        let open = OpenRow { key: found.row.key, lane: found.lane, peer: found.peer, turn: found.turn() };
        self.turns.extend(open.turn.clone());
        self.rows.insert(found.id, open);
        self.receipts.push(Tracked { id: found.id, receipt });
    }

    pub(crate) fn end(&mut self, id: i64) -> Option<OpenRow> {
        let row = self.rows.remove(&id)?;
        if let Some(turn) = &row.turn {
            self.turns.remove(turn);
        }
        Some(row)
    }
}
