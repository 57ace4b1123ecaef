//! No hot piece allocates more than was accepted, and in steady state that is nothing, but for long messages. A binary of
//! its own, with one test: whatever else ran beside it would be counted too.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::cast_possible_truncation)]

#[path = "../benches/pieces/counts.rs"]
mod counts;
#[path = "../benches/pieces/pair.rs"]
mod pair;
#[path = "../benches/pieces/piece.rs"]
mod piece;

use std::alloc::System;

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

use counts::Counts;
use piece::{Allocated, Piece};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn allocated() -> Allocated {
    let stats = ALLOCATOR.stats();
    Allocated { calls: stats.allocations + stats.reallocations, bytes: stats.bytes_allocated }
}

#[test]
fn hot_pieces_allocate_what_was_accepted() {
    for mut piece in Piece::all() {
        piece.warm_up();
        // A thread of the test harness allocates now and then; a piece that allocates does so each time.
        let runs = (0..3).map(|_| piece.allocated(allocated));
        let allocated = runs.min_by_key(|allocated| (allocated.calls, allocated.bytes)).unwrap();
        let accepted = Counts::accepted(piece.name).unwrap();
        assert_eq!(Counts::of(&piece, allocated, None).worse_than(&accepted), [""; 0], "{}", piece.name);
        // Only a message of many datagrams has a buffer of its own.
        assert!(allocated == Allocated::default() || piece.name == "pump-60000", "{}", piece.name);
    }
}
