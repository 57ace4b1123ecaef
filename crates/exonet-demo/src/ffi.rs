//! The functions that the page calls: one world, with numbers as input, and a text in memory as output.
#![expect(
    unsafe_code,
    reason = "a function that the page finds by its name needs `no_mangle`; nothing else here is unsafe"
)]

use core::cell::RefCell;
use core::time::Duration;

use crate::{Link, Memory, Side, World};

thread_local! {
    static WORLD: RefCell<World> = RefCell::new(World::new(1));
}

fn with<T>(act: impl FnOnce(&mut World) -> T) -> T {
    WORLD.with_borrow_mut(act)
}

/// Starts a new world.
// SAFETY: no other function of the program has this name, here and below.
#[unsafe(no_mangle)]
pub extern "C" fn demo_start(seed: u32) {
    with(|world| *world = World::new(u64::from(seed)));
}

/// Sets the network: rates in thousandths, times in milliseconds.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "C" fn demo_link(loss: u32, duplicate: u32, delay: u32, jitter: u32) {
    let millis = |count| Duration::from_millis(u64::from(count));
    with(|world| world.link = Link { loss, duplicate, delay: millis(delay), jitter: millis(jitter) });
}

/// Cuts or restores the network.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "C" fn demo_cut(cut: u32) {
    with(|world| world.cut = cut > 0);
}

/// Alice sends messages; a deadline of zero milliseconds means none. Returns the number of messages that were
/// accepted.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "C" fn demo_send(count: u32, deadline: u32) -> u32 {
    let deadline = Some(Duration::from_millis(u64::from(deadline))).filter(|deadline| !deadline.is_zero());
    with(|world| world.send(count, deadline))
}

/// Kills a node: Alice (0) or Bob (1). It restarts with its journal, or without one.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "C" fn demo_kill(side: u32, journal: u32) {
    let side = if side == 0 { Side::Alice } else { Side::Bob };
    let leaves = if journal > 0 { Memory::Journal } else { Memory::Nothing };
    with(|world| world.kill(side, leaves));
}

/// Sends old packets again; returns their number.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "C" fn demo_replay(count: u32) -> u32 {
    with(|world| world.replay(count))
}

/// Lets this many microseconds pass.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "C" fn demo_run(micros: u32) {
    with(|world| world.run(Duration::from_micros(u64::from(micros))));
}

/// Writes the data to draw; returns the number of bytes at [`demo_text`].
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "C" fn demo_report() -> usize {
    with(|world| world.report().len())
}

/// The address of the last report, valid until the next call.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "C" fn demo_text() -> *const u8 {
    with(|world| world.report.as_ptr())
}
