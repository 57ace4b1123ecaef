//! Points of a move at which a test kills or stops a process.

/// The environment variable that names the point, as `POINT:die` or `POINT:stop`. Only a build with debug assertions
/// reads it.
#[cfg(all(unix, debug_assertions))]
const PLAN: &str = "EXON_MOVE_POINT";

/// Marks a point of a move.
pub(crate) fn point(name: &str) {
    #[cfg(all(unix, debug_assertions))]
    {
        use rustix::process::{Signal, getpid, kill_process};
        use std::sync::atomic::{AtomicBool, Ordering};
        static STOPPED: AtomicBool = AtomicBool::new(false);
        let plan = std::env::var(PLAN).unwrap_or_default();
        let signal = match plan.rsplit_once(':') {
            Some((at, "die")) if at == name => Signal::KILL,
            // The process stops only once, and then continues.
            Some((at, "stop")) if at == name && !STOPPED.swap(true, Ordering::Relaxed) => Signal::STOP,
            _ => return,
        };
        // A process may send itself any signal.
        let _ = kill_process(getpid(), signal);
    }
    #[cfg(not(all(unix, debug_assertions)))]
    let _ = name;
}
