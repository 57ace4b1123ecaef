//! Faults on demand, for tests with real processes. They exist only with the feature `laboratory`; without it,
//! [`point`] does nothing.
//!
//! The environment variable [`PLAN`] lists the faults, as terms separated by `;`:
//!
//! * `die=POINT:N`: the process kills itself, as by `kill -9`, when it passes that point for the Nth time, counted
//!   from 1. The points are `create`, `write`, `sync`, `rename`, `remove` and `names` (forcing the names of a
//!   directory), each with `.before` and `.after`; `write.torn` (half of the bytes are written); and those of the
//!   files of an identity: `state.write`, `state.rename` and `state.names`, also with `.before` and `.after`.
//! * `fail=KIND:FROM-TO:ERROR`: the operations of that kind from number FROM to number TO fail, and do nothing. ERROR
//!   is `full` or `io`.
//! * `boot=TEXT`: the id of the system's boot, instead of the true one.
//! * `memory=DIR`: the directory of the witness.
//! * `image=DIR`: the directory that keeps the state which a power failure would leave; see [`cut_power`].

#[cfg(feature = "laboratory")]
mod disk;
#[cfg(feature = "laboratory")]
mod image;
#[cfg(feature = "laboratory")]
mod plan;

#[cfg(feature = "laboratory")]
pub(crate) use disk::LabDisk;
#[cfg(feature = "laboratory")]
pub use image::cut_power;
#[cfg(feature = "laboratory")]
pub use plan::POINTS;

/// The name of the environment variable.
pub const PLAN: &str = "EXONET_LABORATORY";

/// Marks a point at which the plan may kill the process.
#[inline]
pub fn point(_name: &str) {
    #[cfg(feature = "laboratory")]
    plan::plan().pass(_name);
}
