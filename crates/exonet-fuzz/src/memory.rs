//! What is allocated: by the calls under test, in the one thread that makes them.

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

/// Bytes in use now.
pub(crate) fn held() -> usize {
    ALLOCATOR.allocated()
}

/// `what` holds no more than `most` bytes beyond the `before` that were in use when it began.
#[track_caller]
pub(crate) fn bounded(before: usize, most: usize, what: &str) {
    let now = held().saturating_sub(before);
    assert!(now <= most, "{what} holds {now} bytes, at most {most} are allowed");
}
