//! The mutants: rules of the half-connection that a search can run without.

use std::cell::Cell;

/// A mutant: the code without one rule.
#[derive(Clone, Copy, Debug)]
pub struct Mutant {
    /// Its place in the list, from 1 on.
    pub id: u16,
    /// Its name.
    pub name: &'static str,
    /// The rule that it removes.
    pub rule: &'static str,
    /// Where the rule is written.
    pub from: &'static str,
    /// The configurations whose quick search finds it, separated by blanks.
    pub found_in: &'static str,
    /// The kinds of violation that it shows there, separated by blanks.
    pub kinds: &'static str,
    /// Why no search can find it; empty if one does.
    pub equivalent: &'static str,
}

include!(concat!(env!("OUT_DIR"), "/mutants.rs"));

thread_local! {
    static ACTIVE: Cell<u16> = const { Cell::new(0) };
}

/// Whether this thread runs the mutant.
#[inline]
pub(crate) fn active(id: u16) -> bool {
    ACTIVE.get() == id
}

/// The mutant of that name.
pub fn find(name: &str) -> Option<&'static Mutant> {
    LIST.iter().find(|mutant| mutant.name == name)
}

/// Runs `f` on this thread without the mutant's rule. None: with all rules.
pub fn with<T>(mutant: Option<&Mutant>, f: impl FnOnce() -> T) -> T {
    /// Puts the rule back, also when `f` panics.
    struct Restore(u16);
    impl Drop for Restore {
        fn drop(&mut self) {
            ACTIVE.set(self.0);
        }
    }
    let _restore = Restore(ACTIVE.replace(mutant.map_or(0, |mutant| mutant.id)));
    f()
}
