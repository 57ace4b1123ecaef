//! Points of a move at which a test lets a process die, or stand still.

/// The environment variable that says where, as `POINT:die` or `POINT:stop`. Only a build with debug assertions looks.
#[cfg(all(unix, debug_assertions))]
const PLAN: &str = "EXON_MOVE_POINT";

/// The process passes a point.
pub(crate) fn point(name: &str) {
    #[cfg(all(unix, debug_assertions))]
    {
        use rustix::process::{Signal, getpid, kill_process};
        use std::sync::atomic::{AtomicBool, Ordering};
        static STOPPED: AtomicBool = AtomicBool::new(false);
        let plan = std::env::var(PLAN).unwrap_or_default();
        let signal = match plan.rsplit_once(':') {
            Some((at, "die")) if at == name => Signal::KILL,
            // Once: then it goes on.
            Some((at, "stop")) if at == name && !STOPPED.swap(true, Ordering::Relaxed) => Signal::STOP,
            _ => return,
        };
        // A process may send itself any signal.
        let _ = kill_process(getpid(), signal);
    }
    #[cfg(not(all(unix, debug_assertions)))]
    let _ = name;
}
