//! Where the search for rows begins.
//!
//! In PostgreSQL, deleted rows leave dead entries at the front of the index until the next vacuum, and each search from
//! the front passes over all of them. So only one search a second begins there. The others begin at the floor.
//!
//! A transaction may commit a row whose id is lower than those of rows that are already gone. Such a row is found at
//! once if its id was given less than a second ago, and otherwise by the next search from the front.

#[derive(Default)]
pub(crate) struct Floor {
    /// The floor.
    floor: i64,
    /// The lowest id that the last search from the front has found.
    lowest: i64,
    /// The highest id that was read.
    highest: i64,
}

impl Floor {
    pub(crate) fn id(&self) -> i64 {
        self.floor
    }

    /// Notes that a row was read.
    pub(crate) fn has_read(&mut self, id: i64) {
        self.highest = self.highest.max(id);
    }

    /// Notes what a search from the front has found: the lowest id of an open row, or none. The floor is no higher
    /// than what the search before it has found, so that it stays behind the ids that are given now.
    pub(crate) fn found(&mut self, lowest: Option<i64>) {
        let lowest = lowest.unwrap_or(self.highest.saturating_add(1));
        self.floor = lowest.min(self.lowest);
        self.lowest = lowest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_floor_rises_one_search_late_and_sinks_at_once() {
        let mut floor = Floor::default();
        floor.found(Some(100));
        assert_eq!(floor.id(), 0);
        floor.found(Some(200));
        assert_eq!(floor.id(), 100);
        // A long transaction has ended.
        floor.found(Some(50));
        assert_eq!(floor.id(), 50);
        floor.found(Some(300));
        assert_eq!(floor.id(), 50);
        floor.found(Some(300));
        assert_eq!(floor.id(), 300);
        // All rows are gone.
        floor.has_read(320);
        floor.has_read(310);
        floor.found(None);
        floor.found(None);
        assert_eq!(floor.id(), 321);
    }
}
