//! Rows with an order key that were read before their turn.
//!
//! The next row of an order goes as soon as the one before it is gone from the database. Without these rows, each of
//! them would take two searches of its own, which pass over all other rows of the order.
//!
//! Rows of an order are here only while one row of it is under way. The relay forgets all of them each second, and
//! those of an order whenever a row does not end well: then it reads them again. So what an operator changes in the
//! table soon has its effect, and a relay that has lost a lane soon hands over nothing of it.

use std::collections::{HashMap, VecDeque};

use crate::relay::rows::Found;

/// How many rows are kept, and about how many bytes.
const ROWS: usize = 256;
const BYTES: usize = 4 << 20;

#[derive(Default)]
pub(crate) struct Ahead {
    lines: HashMap<Vec<u8>, VecDeque<Found>>,
    rows: usize,
    bytes: usize,
}

impl Ahead {
    /// Keeps the next row of an order. If there is no room for it, there is none for any later row of the same search.
    pub(crate) fn keep(&mut self, turn: Vec<u8>, found: Found) {
        if self.rows < ROWS && self.bytes < BYTES {
            self.rows += 1;
            self.bytes += found.row.body.len();
            self.lines.entry(turn).or_default().push_back(found);
        }
    }

    /// Removes and returns the next row of an order.
    pub(crate) fn next(&mut self, turn: &[u8]) -> Option<Found> {
        let found = self.lines.get_mut(turn)?.pop_front()?;
        self.gone([&found]);
        Some(found)
    }

    /// Removes all rows of an order.
    pub(crate) fn forget(&mut self, turn: &[u8]) {
        let line = self.lines.remove(turn).unwrap_or_default();
        self.gone(&line);
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    fn gone<'a>(&mut self, line: impl IntoIterator<Item = &'a Found>) {
        for found in line {
            self.rows -= 1;
            self.bytes -= found.row.body.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use exonet::NodeId;

    use super::*;
    use crate::Key;
    use crate::wire::Row;

    fn found(id: i64, body: usize) -> Found {
        let row = Row { key: Key([0; 16]), tag: Bytes::new(), order: "a".into(), body: vec![0; body].into() };
        Found { id, lane: 0, peer: NodeId([0; 32]), addr: None, owner: None, row }
    }

    #[test]
    fn the_rows_of_an_order_come_in_order_and_without_a_gap() {
        let mut ahead = Ahead::default();
        for id in 0..1_000 {
            ahead.keep(vec![u8::try_from(id % 2).unwrap()], found(id, 10));
        }
        let even: Vec<_> = core::iter::from_fn(|| ahead.next(&[0])).map(|found| found.id).collect();
        assert_eq!(even, (0..256).step_by(2).collect::<Vec<_>>());
        ahead.forget(&[1]);
        assert!(ahead.next(&[1]).is_none() && (ahead.rows, ahead.bytes) == (0, 0));
    }

    #[test]
    fn what_is_kept_is_bounded_in_bytes() {
        let mut ahead = Ahead::default();
        (0..100).for_each(|id| ahead.keep(vec![7], found(id, 1 << 20)));
        assert_eq!(ahead.lines.values().map(VecDeque::len).sum::<usize>(), 4);
    }
}
