//! Shrinks a schedule that shows a fault.

use core::time::Duration;
use std::collections::BTreeMap;

use super::{Action, Report, Schedule, Trim, What, run};

/// A way to make an action smaller.
type Step = fn(&mut Trim, &Action);

const ANY: [Step; 2] = [
    |trim, _| trim.span = Some(Duration::ZERO),
    |trim, action| {
        trim.span = Some(action.span / 2);
    },
];

const TRAFFIC: [Step; 6] = [
    |trim, _| trim.plain = true,
    |trim, _| trim.count = Some(1),
    |trim, action| trim.count = Some(count(action).div_ceil(2)),
    |trim, action| trim.count = Some(count(action).saturating_sub(1).max(1)),
    |trim, action| trim.size = Some(size(action).min(8)),
    |trim, action| trim.size = Some(size(action) / 2),
];

/// A schedule that was shrunk.
#[derive(Clone, Debug, PartialEq)]
pub struct Shrunk {
    /// The schedule, which still shows the same kind of fault.
    pub schedule: Schedule,
    /// The report of the schedule.
    pub report: Report,
    /// The number of runs that shrinking took.
    pub runs: u32,
}

/// Finds the smallest schedule that still shows the first finding of `schedule`, in at most `most` runs. None:
/// `schedule` shows nothing wrong.
pub fn shrink(schedule: &Schedule, most: u32) -> Option<Shrunk> {
    let report = run(&schedule.scenario());
    let kind = report.findings.first()?.kind();
    let mut search = Search { kind, best: schedule.clone(), report, runs: 1, most };
    search.drop_later();
    loop {
        let before = search.best.clone();
        search.drop_actions();
        search.drop_nodes();
        search.make_plain();
        search.trim_actions();
        if search.best == before || search.runs >= most {
            break;
        }
    }
    Some(Shrunk { schedule: search.best, report: search.report, runs: search.runs })
}

struct Search {
    kind: &'static str,
    best: Schedule,
    report: Report,
    runs: u32,
    most: u32,
}

impl Search {
    /// Takes `smaller` if it shows the same fault.
    fn attempt(&mut self, smaller: Schedule) -> bool {
        if smaller == self.best || self.runs >= self.most {
            return false;
        }
        self.runs += 1;
        let report = run(&smaller.scenario());
        let same = report.findings.first().is_some_and(|finding| finding.kind() == self.kind);
        if same {
            (self.best, self.report) = (smaller, report);
        }
        same
    }

    fn with(&self, kept: BTreeMap<usize, Trim>) -> Schedule {
        Schedule { kept, ..self.best.clone() }
    }

    /// Removes the actions that had not begun when the finding was seen.
    fn drop_later(&mut self) {
        if self.report.findings.first().is_none_or(super::Finding::is_of_the_end) {
            return;
        }
        let lasted = self.report.lasted;
        let begun = self.best.actions().filter(|(_, action)| action.at <= lasted);
        let numbers: Vec<usize> = begun.map(|(number, _)| number).collect();
        let mut kept = self.best.kept.clone();
        kept.retain(|number, _| numbers.contains(number));
        self.attempt(self.with(kept));
    }

    /// Removes halves, quarters, ... single actions.
    fn drop_actions(&mut self) {
        let mut chunk = self.best.kept.len().div_ceil(2);
        loop {
            let mut at = 0;
            while at < self.best.kept.len() && self.runs < self.most {
                let kept = self.best.kept.iter().enumerate();
                let kept = kept.filter(|(i, _)| *i < at || *i >= at + chunk);
                let kept = kept.map(|(_, (number, trim))| (*number, *trim)).collect();
                if !self.attempt(self.with(kept)) {
                    at += chunk;
                }
            }
            if chunk <= 1 {
                return;
            }
            chunk = chunk.div_ceil(2);
        }
    }

    /// Removes all actions that affect a node.
    fn drop_nodes(&mut self) {
        for node in 0..64 {
            let mut kept = self.best.kept.clone();
            for (number, action) in self.best.actions() {
                if action.what.nodes().has(node) {
                    kept.remove(&number);
                }
            }
            if kept.len() < self.best.kept.len() {
                self.attempt(self.with(kept));
            }
        }
    }

    fn make_plain(&mut self) {
        self.attempt(Schedule { plain_links: true, ..self.best.clone() });
        self.attempt(Schedule { plain_nodes: true, ..self.best.clone() });
    }

    /// Makes each action as small as possible.
    fn trim_actions(&mut self) {
        let actions: Vec<(usize, Action)> = self.best.actions().collect();
        for (number, action) in actions {
            let traffic: &[Step] = if action.what.is_message() { &TRAFFIC } else { &[] };
            for step in ANY.iter().chain(traffic) {
                while self.trim(number, *step) {}
            }
        }
    }

    fn trim(&mut self, number: usize, step: Step) -> bool {
        let Some((_, action)) = self.best.actions().find(|(known, _)| *known == number) else {
            return false;
        };
        let mut kept = self.best.kept.clone();
        let Some(trim) = kept.get_mut(&number) else { return false };
        step(trim, &action);
        let smaller = self.with(kept);
        // A trim that leaves the action unchanged is no progress.
        let changed = smaller.actions().any(|(known, now)| known == number && now != action);
        changed && self.attempt(smaller)
    }
}

const fn count(action: &Action) -> u32 {
    match action.what {
        What::Send { count, .. } => count,
        _ => 1,
    }
}

const fn size(action: &Action) -> u32 {
    match action.what {
        What::Send { size, .. } => size,
        What::Stream { len, .. } => len,
        _ => 0,
    }
}
