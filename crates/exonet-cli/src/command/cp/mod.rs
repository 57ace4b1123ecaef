//! `exon cp`: copies files and directories to a node that listens.

mod key;
mod manifest;
mod meter;
mod offer;
mod offering;
mod passing;
mod peer;
mod progress;
mod report;
mod scan;
mod sending;
mod source;
mod window;

use std::pin::{Pin, pin};
use std::sync::Arc;

use exonet::Node;
use futures_util::StreamExt;
use tokio::sync::watch;

use self::meter::Meter;
pub(super) use self::offer::run as offer;
use self::peer::Peer;
use self::progress::Progress;
use self::report::Report;
use self::scan::{Item, Scan};
use self::sending::Copying;
use self::window::Window;
use super::stop::{Stop, stop};
use crate::args::CpArgs;
use crate::copy::Entry;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::node::{self, GOODBYE};
use crate::settings::Settings;

pub(super) async fn run(settings: &Settings, args: &CpArgs) -> Result<Exit, Failure> {
    let (sources, peer) = args.words().map_err(|error| Failure::new(error.to_string()))?;
    let scan = scan::scan(sources, args)?;
    let node = node::toward(settings, &peer).await?;
    let (stopping, stopped) = watch::channel(false);
    let copying = Copying {
        peer: Peer::new(node.peer(&peer), stopped),
        meter: Arc::new(Meter::default()),
        window: Window::new(),
        lasting: key::lasting(&peer.id)?,
        of_this_run: key::of_this_run()?,
        checksum: args.checksum,
    };
    let mut report = Report::new(settings);
    report.problems(&scan)?;
    let absent = format!(
        "is {} running, is its address right, and if it has --allow, does that name {}?",
        peer.id.short(),
        node.id()
    );
    let mut progress = Progress::new(settings, only_name(&scan), absent);
    let mut stop = pin!(stop(args.timeout)?);
    let mut course = Course { node: &node, copying: &copying, stopping: &stopping, progress: &mut progress };
    let ended = course.run(scan.items, stop.as_mut(), &mut report).await;
    progress.clear();
    let sent = copying.meter.sent.get();
    drop(copying);
    node.close(GOODBYE).await;
    report.sum_up(ended?, sent)
}

/// The name for the progress line, if there is only one file.
fn only_name(scan: &Scan) -> Option<&str> {
    match scan.items.as_slice() {
        [one] => Some(one.name()),
        _ => None,
    }
}

/// A copy in progress.
struct Course<'a, 'b> {
    node: &'a Node,
    copying: &'a Copying,
    stopping: &'a watch::Sender<bool>,
    progress: &'a mut Progress<'b>,
}

impl Course<'_, '_> {
    /// Runs until every item has ended. A stop ends the items early.
    async fn run(
        &mut self,
        items: Vec<Item>,
        mut stop: Pin<&mut impl Future<Output = Stop>>,
        report: &mut Report<'_>,
    ) -> Result<Option<Stop>, Failure> {
        let (copying, meter) = (self.copying, &self.copying.meter);
        let is_file = |item: &&Item| matches!(item.entry, Entry::File { .. });
        meter.files.add(items.iter().filter(is_file).count() as u64);
        meter.total.add(items.iter().map(Item::size).sum());
        meter.streams.add(items.iter().filter(|item| item.stream).count() as u64);
        let is_directory = |item: &&Item| matches!(item.entry, Entry::Dir { .. });
        let directories: Vec<Item> = items.iter().filter(is_directory).cloned().collect();
        let mut ticks = tokio::time::interval(progress::TICK);
        let mut ended = None;
        let mut copies = pin!(copying.all(items));
        loop {
            tokio::select! {
                copied = copies.next() => match copied {
                    Some(copied) => {
                        self.progress.clear();
                        report.add(&copied)?;
                    }
                    None => break,
                },
                why = &mut stop, if ended.is_none() => {
                    ended = Some(why);
                    self.stopping.send_replace(true);
                }
                _ = ticks.tick() => self.progress.tick(meter, self.node.stats().datagrams_in)?,
            }
        }
        let mut seal = pin!(copying.seal(directories));
        loop {
            tokio::select! {
                failed = &mut seal => {
                    self.progress.clear();
                    failed.iter().try_for_each(|copied| report.add(copied))?;
                    return Ok(ended);
                }
                why = &mut stop, if ended.is_none() => {
                    ended = Some(why);
                    self.stopping.send_replace(true);
                }
                _ = ticks.tick() => self.progress.tick(meter, self.node.stats().datagrams_in)?,
            }
        }
    }
}
