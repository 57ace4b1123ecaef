//! Steps as text: a block for each message, with times, in 80 columns.

use std::collections::BTreeMap;
use std::time::Duration;

use super::step::{Happened, Step};
use crate::text::escape;
use crate::units::{count, counted, span};

/// The number of columns of a line.
const WIDTH: usize = 80;
/// The number of columns before the text of a step, which hold two times.
const INDENT: usize = 24;

/// The names of peers, by their ids.
type Named = BTreeMap<String, String>;

/// The followed messages that have not ended.
#[derive(Debug)]
pub(crate) struct Timeline {
    names: Named,
    /// The start of the trace, in ms since 1970.
    began_ms: u64,
    /// Only one message is followed, so its steps are shown as they happen.
    live: bool,
    open: BTreeMap<u32, Block>,
}

#[derive(Debug, Default)]
struct Block {
    lines: Vec<String>,
    first_us: Option<i64>,
    last_us: Option<i64>,
    /// The destination of its last packet.
    to: Option<String>,
}

impl Timeline {
    pub(crate) const fn new(names: Named, began_ms: u64, live: bool) -> Self {
        Self { names, began_ms, live, open: BTreeMap::new() }
    }

    /// Adds a step. Returns the lines to show now.
    pub(crate) fn add(&mut self, happened: &Happened) -> Vec<String> {
        let heading = self.heading(happened);
        let block = self.open.entry(happened.message).or_default();
        block.lines.extend(heading);
        let first = *block.first_us.get_or_insert(happened.at_us);
        let last = *block.last_us.get_or_insert(first);
        block.last_us = Some(last.max(happened.at_us));
        let (since, step) = (happened.at_us - first, happened.at_us - last);
        block.lines.extend(told(since, step, &words(&happened.step, block.to.as_ref())));
        if let Step::Left { to, .. } = &happened.step {
            block.to = Some(to.clone());
        }
        if happened.last {
            return self.open.remove(&happened.message).map(|block| block.lines).unwrap_or_default();
        }
        if self.live { core::mem::take(&mut block.lines) } else { Vec::new() }
    }

    /// The lines for messages that have not ended at the end of the trace.
    pub(crate) fn rest(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        for block in core::mem::take(&mut self.open).into_values() {
            lines.extend(block.lines);
            lines.push(format!("{:INDENT$}not ended yet", ""));
        }
        lines
    }

    /// The lines above the first step of a message.
    fn heading(&self, happened: &Happened) -> Vec<String> {
        if self.open.contains_key(&happened.message) {
            return Vec::new();
        }
        let (way, peer, about) = match &happened.step {
            Step::Queued { peer, size, tag, kind, .. } => {
                ("to", peer.as_str(), Some((Some(*size), tag, kind)))
            }
            Step::Arrived { id, size, tag, kind } => ("from", sender(id), Some((*size, tag, kind))),
            Step::Awaited { id } => ("from", sender(id), None),
            _ => ("of", "a message that began before", None),
        };
        let short: String = peer.chars().take(8).collect();
        let peer = self.names.get(peer).map_or_else(|| short.clone(), |name| format!("{name} ({short})"));
        let mut line = format!("#{} {way} {peer}", happened.message);
        if let Some((size, tag, kind)) = about {
            line += &match kind.as_str() {
                "call" => format!("  call {}", cut(tag)),
                "stream" => format!("  of stream {}", cut(tag)),
                _ if tag.is_empty() => String::new(),
                _ => format!("  tag {}", cut(tag)),
            };
            line += &size.map_or_else(String::new, |size| format!("  {}", counted(size, "byte")));
        }
        let mut lines = vec![String::new(), format!("{line}  {}", self.clock(happened.at_us))];
        if let Step::Arrived { id, .. } | Step::Awaited { id } = &happened.step {
            lines.push(format!("   {id}"));
        }
        lines
    }

    /// The time of day, in UTC.
    fn clock(&self, at_us: i64) -> String {
        let ms = self.began_ms.saturating_add_signed(at_us / 1_000);
        let (seconds, ms) = (ms / 1_000, ms % 1_000);
        let (hours, minutes) = (seconds / 3_600 % 24, seconds / 60 % 60);
        format!("{hours:02}:{minutes:02}:{:02}.{ms:03}Z", seconds % 60)
    }
}

/// The sender in an id.
fn sender(id: &str) -> &str {
    id.split('/').next().unwrap_or_default()
}

/// A tag, shortened and escaped.
fn cut(tag: &str) -> String {
    let tag = escape(tag.as_bytes());
    let mut short: String = tag.chars().take(24).collect();
    if short.len() < tag.len() {
        short.push_str("...");
    }
    format!("{short:?}")
}

/// The lines of a step with its times: since the first step, and since the previous one. A message may have been bound
/// long before the trace: that step has a time before the first one, and comes after it.
fn told(since: i64, step: i64, words: &str) -> Vec<String> {
    let micros = |us: i64| span(Duration::from_micros(us.unsigned_abs()));
    let sign = if since < 0 { "-" } else { "" };
    let step = if step < 0 { String::new() } else { format!("+{}", micros(step)) };
    let times = format!("{:>10} {step:>11}  ", format!("{sign}{}", micros(since)));
    let (mut lines, mut line) = (Vec::new(), times);
    let mut empty = true;
    for word in words.split(' ') {
        if !empty && line.chars().count() + 1 + word.chars().count() > WIDTH {
            lines.push(core::mem::replace(&mut line, format!("{:INDENT$}", "")));
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(word);
        empty = false;
    }
    lines.push(line);
    lines
}

/// A step in words. `known` is the destination of the previous packet.
fn words(step: &Step, known: Option<&String>) -> String {
    match step {
        Step::Queued { open: false, .. } => "queued".to_owned(),
        Step::Queued { open: true, .. } => "open when the trace began".to_owned(),
        Step::Journaled { number } => format!("in the journal, as message {number}"),
        Step::Bound { id } | Step::Named { id } => bound(id, matches!(step, Step::Named { .. })),
        Step::Left { packet, to, carrier, bytes, again } => {
            let packet = packet.map_or_else(|| "beside an opening".to_owned(), |n| format!("in packet {n}"));
            let bytes = bytes.map_or_else(String::new, |(from, to)| format!(", bytes {from} to {to}"));
            let by = if carrier == "udp" { "" } else { " by tcp" };
            let way = if known == Some(to) { String::new() } else { format!(" to {to}{by}") };
            let (left, why) = match again.as_deref() {
                None => ("left", String::new()),
                Some(why) => ("left again", format!(": {}", reason(why))),
            };
            format!("{left} {packet}{way}{bytes}{why}")
        }
        Step::Lost => "its packet counts as lost".to_owned(),
        Step::ChannelEnded => "its channel ended without an acknowledgement".to_owned(),
        Step::Acknowledged => "acknowledged by the peer's node".to_owned(),
        Step::Returned => "certainly not taken: queued again".to_owned(),
        Step::Settled { outcome, status, attempts, late, .. } => {
            let status = status.filter(|status| *status != 0).map(|status| format!(", status {status}"));
            let attempts = attempts.map(|n| format!(", attempt {n}"));
            let late = if *late { ", after its deadline" } else { "" };
            let (status, attempts) = (status.unwrap_or_default(), attempts.unwrap_or_default());
            format!("settled: {}{status}{attempts}{late}", outcome.name())
        }
        Step::Delivered => "delivered; waits for its reply".to_owned(),
        Step::Replied { status: 0 } => "has its reply".to_owned(),
        Step::Replied { status } => format!("has its reply, status {status}"),
        _ => words_of_coming(step),
    }
}

/// A step of an incoming message, in words.
fn words_of_coming(step: &Step) -> String {
    match step {
        Step::Awaited { .. } => "followed from now on".to_owned(),
        Step::Arrived { .. } => "arrived, and waits for the application".to_owned(),
        Step::Duplicate => "a copy arrived, and was dropped".to_owned(),
        Step::NoRoom => "dropped, since there was no room: it will be sent again".to_owned(),
        Step::HandedOut { attempt: 1 } => "handed to the application".to_owned(),
        Step::HandedOut { attempt } => format!("handed to the application, attempt {attempt}"),
        Step::GivenBack => "given back by the application".to_owned(),
        Step::Taken => "taken: this is the delivery".to_owned(),
        Step::Judged { verdict, status: 0 } => format!("{verdict}, says the application"),
        Step::Judged { verdict, status } => format!("{verdict}, says the application, status {status}"),
        Step::Answered { status: 0 } => "answered".to_owned(),
        Step::Answered { status } => format!("answered, status {status}"),
        Step::Withdrawn => "withdrawn by its sender".to_owned(),
        Step::Dropped => "dropped: its record is gone".to_owned(),
        _ => "something that this version of exon does not know".to_owned(),
    }
}

fn bound(id: &str, named: bool) -> String {
    let mut parts = id.rsplit('/');
    let (slot, record) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let number = |text: &str| text.parse().map_or_else(|_| text.to_owned(), count);
    let slot = number(slot);
    match record {
        "-" => format!("bound early, to slot {slot} of no record yet"),
        record if named => format!("slot {slot} is of record {}", number(record)),
        record => format!("bound to slot {slot} of record {}", number(record)),
    }
}

/// The reason why a message was sent again, in words.
fn reason(why: &str) -> &'static str {
    match why {
        "lost" => "its packet was lost",
        "channel_ended" => "its channel had ended",
        "probe" => "no acknowledgement came",
        "copy" => "sent twice, in case one is lost",
        "missing" => "the peer does not have it",
        "unanswered" => "no answer came to the opening",
        "before" => "it was under way when the trace began",
        _ => "for a reason that this version of exon does not know",
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
