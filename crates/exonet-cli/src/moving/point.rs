//! Points of a move at which a test kills or stops a process.

/// The environment variable that names the points, as `POINT:die` or `POINT:stop`, with commas between them. Only a build
/// with debug assertions reads it.
#[cfg(all(unix, debug_assertions))]
const PLAN: &str = "EXON_MOVE_POINT";

/// Marks a point of a move.
pub(crate) fn point(name: &str) {
    #[cfg(all(unix, debug_assertions))]
    {
        use rustix::process::{Signal, getpid, kill_process};
        use std::collections::BTreeSet;
        use std::sync::{Mutex, PoisonError};
        static STOPPED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
        // The process stops only once at each point, and then continues.
        let stops = || STOPPED.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned());
        let plan = std::env::var(PLAN).unwrap_or_default();
        let planned = plan.split(',').filter_map(|point| point.rsplit_once(':')).find(|(at, _)| *at == name);
        let signal = match planned {
            Some((_, "die")) => Signal::KILL,
            Some((_, "stop")) if stops() => Signal::STOP,
            _ => return,
        };
        // A process may send itself any signal.
        let _ = kill_process(getpid(), signal);
        // Another thread may be the one that takes the signal: until it has, this one must not go on.
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
    #[cfg(not(all(unix, debug_assertions)))]
    let _ = name;
}
