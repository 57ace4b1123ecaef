//! The allocations of the calls under test, which run on a single thread.

use std::alloc::System;

use cap::Cap;

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

/// Runs `call`, which must not allocate.
pub(crate) fn none<T>(call: impl FnOnce() -> T) -> T {
    let before = ALLOCATOR.total_allocated();
    let result = call();
    let taken = ALLOCATOR.total_allocated() - before;
    assert_eq!(taken, 0, "{taken} bytes were allocated where nothing may be");
    result
}

/// The number of bytes in use now.
pub(crate) fn held() -> usize {
    ALLOCATOR.allocated()
}

/// Checks that `what` holds at most `most` bytes more than the `before` bytes that were in use at its start.
#[track_caller]
pub(crate) fn bounded(before: usize, most: usize, what: &str) {
    let now = held().saturating_sub(before);
    assert!(now <= most, "{what} holds {now} bytes, at most {most} are allowed");
}
