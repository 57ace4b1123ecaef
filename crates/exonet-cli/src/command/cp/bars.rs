//! Progress, where a person watches.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::failure::Failure;
use crate::settings::Settings;

const MOVING: &str =
    "  {prefix:<24!} {bar:24.cyan/dim} {binary_bytes:>11} {binary_bytes_per_sec:>13}  {eta} left";
const WAITING: &str =
    "  {prefix:<24!} {bar:24.cyan/dim} {binary_bytes:>11}  the receiver checks and stores it {spinner}";

/// The progress bars of all files under way.
pub(super) struct Bars(MultiProgress);

/// That of one file; gone when dropped.
pub(super) struct Bar(ProgressBar);

impl Bars {
    pub(super) fn new(settings: &Settings) -> Self {
        let watched = std::io::stderr().is_terminal() && !settings.quiet && !settings.output.is_json();
        let target = if watched { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        Self(MultiProgress::with_draw_target(target))
    }

    /// Lines may be printed within `tell`.
    pub(super) fn pause(&self, tell: impl FnOnce() -> Result<(), Failure>) -> Result<(), Failure> {
        self.0.suspend(tell)
    }

    pub(super) fn file(&self, name: &str, size: u64) -> Bar {
        let bar = self.0.add(ProgressBar::new(size).with_style(style(MOVING)));
        bar.set_prefix(crate::text::escape(name.as_bytes()));
        Bar(bar)
    }
}

impl Bar {
    pub(super) fn advance(&self, bytes: usize) {
        self.0.inc(u64::try_from(bytes).unwrap_or(u64::MAX));
    }

    /// All has been handed over.
    pub(super) fn wait(&self) {
        self.0.set_style(style(WAITING));
        self.0.enable_steady_tick(Duration::from_millis(120));
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

fn style(template: &str) -> ProgressStyle {
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    style.progress_chars("━━─").tick_chars("⠁⠂⠄⡀⢀⠠⠐⠈ ")
}
