//! What is kept of runs, a line for each flow of each, and how a run is told.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::app::Work;
use crate::run::{Contact, Record, Traffic};
use crate::scenario::Cell;

/// All runs in a file, and what is said of them.
#[derive(Debug, Default)]
pub(crate) struct Results {
    /// In the order in which they were written.
    pub(crate) notes: Vec<String>,
    pub(crate) entries: Vec<Entry>,
}

/// Which tree ran, and when.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Origin {
    /// As 2026-11-23T04:05Z.
    pub(crate) date: String,
    /// The last one that changed what is measured. With a `+`: and changes that no commit has.
    pub(crate) commit: String,
}

/// One run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Entry {
    pub(crate) origin: Origin,
    pub(crate) scenario: String,
    pub(crate) cell: String,
    pub(crate) peer: String,
    pub(crate) repeat: u32,
    /// How long was measured, in s.
    pub(crate) span: f64,
    /// The peer's own, then its rival's.
    pub(crate) records: Vec<Record>,
    /// Why there are none.
    pub(crate) error: Option<String>,
}

/// A figure of a record: its name in tables, and how it is read and set.
struct Column {
    name: &'static str,
    get: fn(&Record) -> Option<f64>,
    set: fn(&mut Record, f64),
}

macro_rules! plain {
    ($name:literal, $($path:tt)+) => {
        Column { name: $name, get: |it| Some(it.$($path)+ as f64), set: |it, value| it.$($path)+ = value as _ }
    };
}

/// A column that only some runs have.
macro_rules! part {
    ($name:literal, $part:ident $($path:tt)+) => {
        Column {
            name: $name,
            get: |it| it.$part.as_ref().map(|it| it $($path)+ as f64),
            set: |it, value| it.$part.get_or_insert_default() $($path)+ = value as _,
        }
    };
}

/// All figures of a run. `lab/README.md` says what each is.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)] // far below 2^53
const COLUMNS: &[Column] = &[
    plain!("rate_per_s", rate),
    plain!("rate_back_per_s", rate_back),
    plain!("p50_ms", latency.p50),
    plain!("p99_ms", latency.p99),
    plain!("p999_ms", latency.p999),
    plain!("max_ms", latency.max),
    plain!("cpu_s_per_million", cpu_per_million),
    plain!("client_rss", client_rss),
    plain!("server_rss", server_rss),
    plain!("lost_at_hosts", dropped_at_interfaces),
    plain!("doubled", duplicates),
    plain!("damaged", damaged),
    plain!("still_under_way", missing),
    Column {
        name: "wire_bytes_each",
        get: |it| it.wire_bytes_each,
        set: |it, value| it.wire_bytes_each = Some(value),
    },
    part!("packets", lanes[0].packets),
    part!("bytes", lanes[0].bytes),
    part!("dropped", lanes[0].dropped),
    part!("marked", lanes[0].marked),
    part!("lost", lanes[0].lost),
    part!("arrived", lanes[0].arrived),
    part!("refused", lanes[0].refused),
    part!("queue_p50_ms", lanes[0].queue_p50),
    part!("queue_p99_ms", lanes[0].queue_p99),
    part!("late_p99_ms", lanes[0].late_p99),
    part!("packets_back", lanes[1].packets),
    part!("bytes_back", lanes[1].bytes),
    part!("dropped_back", lanes[1].dropped),
    part!("marked_back", lanes[1].marked),
    part!("lost_back", lanes[1].lost),
    part!("arrived_back", lanes[1].arrived),
    part!("refused_back", lanes[1].refused),
    part!("queue_back_p50_ms", lanes[1].queue_p50),
    part!("queue_back_p99_ms", lanes[1].queue_p99),
    part!("late_back_p99_ms", lanes[1].late_p99),
    Column {
        name: "sender_cpu_us_each",
        get: |it| it.sender_cpu,
        set: |it, value| it.sender_cpu = Some(value),
    },
    part!("share_1", shares[0]),
    part!("share_2", shares[1]),
    part!("share_3", shares[2]),
    part!("server_cpu_us_each", serving.cpu_each),
    part!("server_threads", serving.threads),
    part!("kills", killed.kills),
    part!("sent_in_all", killed.sent),
    part!("lost_for_good", killed.lost),
    part!("done_twice", killed.twice),
    part!("arrived_ms", cold.arrived),
    part!("settled_ms", cold.settled),
    part!("connected", gathered.clients),
    part!("connected_s", gathered.after),
    part!("calls", contact.calls),
    part!("round_trip_ms", contact.round_trip),
    part!("server_cpu_s", contact.server_cpu),
    part!("visit_datagrams", contact.visit.datagrams[0]),
    part!("visit_datagrams_back", contact.visit.datagrams[1]),
    part!("visit_bytes", contact.visit.bytes[0]),
    part!("visit_bytes_back", contact.visit.bytes[1]),
    part!("calling_datagrams", contact.calling.datagrams[0]),
    part!("calling_datagrams_back", contact.calling.datagrams[1]),
    part!("calling_bytes", contact.calling.bytes[0]),
    part!("calling_bytes_back", contact.calling.bytes[1]),
    part!("leaving_datagrams", contact.leaving.datagrams[0]),
    part!("leaving_datagrams_back", contact.leaving.datagrams[1]),
    part!("leaving_bytes", contact.leaving.bytes[0]),
    part!("leaving_bytes_back", contact.leaving.bytes[1]),
];

/// The columns before the figures. `flow` names the flow that the figures belong to.
const NAMES: &[&str] = &["date", "commit", "scenario", "cell", "peer", "repeat", "span_s", "flow"];

/// Before the name of a flow that another is measured beside.
const RIVAL: &str = "+";

/// Before a line that is a note.
const NOTE: &str = "# ";

/// The files that decide how a run goes. A commit that changes no such file shares the results of the one before.
const MEASURED: &[&str] =
    &["../crates", "src/app", "src/link", "src/net", "src/peer", "src/run", "Cargo.toml", "Cargo.lock"];

impl Origin {
    /// This tree's, now.
    pub(crate) fn now() -> Self {
        let said = |program: &str, words: &[&str], more: &[&str]| {
            let mut command = Command::new(program);
            let out = command.current_dir(env!("CARGO_MANIFEST_DIR")).args(words).args(more).output().ok()?;
            out.status.success().then(|| String::from_utf8_lossy(&out.stdout).trim().to_owned())
        };
        let date = said("date", &["-u", "+%Y-%m-%dT%H:%MZ"], &[]).unwrap_or_default();
        let commit = said("git", &["log", "-1", "--format=%h", "--abbrev=10", "--"], MEASURED);
        let changed = said("git", &["status", "--porcelain", "--"], MEASURED);
        let mut commit = commit.filter(|name| !name.is_empty()).unwrap_or_else(|| "unknown".into());
        if changed.is_none_or(|files| !files.is_empty()) {
            commit.push('+');
        }
        Self { date, commit }
    }
}

impl Entry {
    pub(crate) fn new(
        (origin, scenario, cell): (&Origin, &str, &str),
        peer: &str,
        repeat: u32,
        span: f64,
        records: Result<Vec<Record>>,
    ) -> Self {
        let (records, error) = match records {
            Ok(records) => (records, None),
            Err(error) => (Vec::new(), Some(format!("{error:#}"))),
        };
        Self {
            origin: origin.clone(),
            scenario: scenario.to_owned(),
            cell: cell.to_owned(),
            peer: peer.to_owned(),
            repeat,
            span,
            records,
            error,
        }
    }

    /// The run, if it was of first contact.
    pub(crate) fn contact(&self) -> Option<(&Record, &Contact)> {
        let record = self.records.first()?;
        Some((record, record.contact.as_ref()?))
    }

    /// Whether Exonet's promise of first contact was kept, and how that is told; if this run could show it.
    pub(crate) fn promise(&self) -> Option<(bool, String)> {
        let (record, contact) = self.contact().filter(|_| self.peer == "exonet")?;
        contact.promise(record.latency.p50)
    }

    /// Why the run does not count.
    pub(crate) fn fault(&self) -> Option<&str> {
        self.error.as_deref().or_else(|| self.records.iter().find_map(|record| record.fault.as_deref()))
    }

    /// Its lines, one for each flow.
    fn lines(&self) -> String {
        let mut text = String::new();
        let nothing = [None];
        let flows: Vec<Option<&Record>> = self.records.iter().map(Some).collect();
        let flows = if flows.is_empty() { &nothing[..] } else { &flows };
        for (number_of_flow, record) in flows.iter().enumerate() {
            let beside = if number_of_flow == 0 { "" } else { RIVAL };
            let flow = record.map_or_else(String::new, |record| format!("{beside}{}", record.peer));
            let Origin { date, commit } = &self.origin;
            let (scenario, cell, peer, repeat) = (&self.scenario, &self.cell, &self.peer, self.repeat);
            let span = number(self.span);
            let _ = write!(text, "{date}\t{commit}\t{scenario}\t{cell}\t{peer}\t{repeat}\t{span}\t{flow}");
            for column in COLUMNS {
                // A value of 0 is left out, since most values of most runs are 0.
                let value = record.and_then(|record| (column.get)(record)).filter(|value| *value != 0.0);
                let _ = write!(text, "\t{}", value.map(number).unwrap_or_default());
            }
            let fault = record.map_or(self.error.as_deref(), |record| record.fault.as_deref());
            let fault = fault.unwrap_or_default().replace(['\t', '\n', '\r'], " ");
            let _ = writeln!(text, "\t{fault}");
        }
        text
    }
}

/// Six digits that matter.
fn number(value: f64) -> String {
    if value == value.trunc() && value.abs() < 1e15 {
        return format!("{value:.0}");
    }
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // within 0 and 9
    let decimals = (5.0 - value.abs().log10().floor()).clamp(0.0, 9.0) as usize;
    let text = format!("{value:.decimals$}");
    if decimals == 0 { text } else { text.trim_end_matches('0').trim_end_matches('.').to_owned() }
}

fn head() -> String {
    let names = NAMES.iter().copied().chain(COLUMNS.iter().map(|column| column.name));
    names.chain(["fault"]).collect::<Vec<_>>().join("\t")
}

impl Results {
    /// Reads a file. None: there is no such file.
    pub(crate) fn read(path: &Path) -> Result<Option<Self>> {
        match std::fs::read_to_string(path) {
            Ok(text) => Ok(Some(Self::parse(&text).with_context(|| path.display().to_string())?)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
        }
    }

    fn parse(text: &str) -> Result<Self> {
        let mut lines = text.lines();
        ensure!(lines.next() == Some(head().as_str()), "the columns are not those of this lab");
        let mut results = Self::default();
        for (number, line) in (2..).zip(lines) {
            match line.strip_prefix(NOTE) {
                Some(note) => results.notes.push(note.to_owned()),
                None => results.take(line).with_context(|| format!("line {number}"))?,
            }
        }
        Ok(results)
    }

    fn take(&mut self, line: &str) -> Result<()> {
        let fields: Vec<&str> = line.split('\t').collect();
        ensure!(fields.len() == NAMES.len() + COLUMNS.len() + 1, "{} columns", fields.len());
        let (names, figures) = fields.split_at(NAMES.len());
        let [date, commit, scenario, cell, peer, repeat, span, flow] = names else { return Ok(()) };
        let owned = |text: &&str| (*text).to_owned();
        let origin = Origin { date: owned(date), commit: owned(commit) };
        let fault = figures.last().filter(|text| !text.is_empty()).map(owned);
        let mut entry = Entry {
            origin,
            scenario: owned(scenario),
            cell: owned(cell),
            peer: owned(peer),
            repeat: repeat.parse()?,
            span: span.parse()?,
            ..Entry::default()
        };
        if flow.is_empty() {
            entry.error = fault;
            self.entries.push(entry);
            return Ok(());
        }
        let rival = flow.strip_prefix(RIVAL);
        let mut record = Record { peer: rival.unwrap_or(flow).to_owned(), fault, ..Record::default() };
        for (column, text) in COLUMNS.iter().zip(figures).filter(|(_, text)| !text.is_empty()) {
            (column.set)(&mut record, text.parse().with_context(|| column.name)?);
        }
        // The line of a rival follows that of the run.
        match self.entries.last_mut().filter(|_| rival.is_some()) {
            Some(last) => last.records.push(record),
            None => {
                entry.records.push(record);
                self.entries.push(entry);
            }
        }
        Ok(())
    }
}

/// A file that runs are added to as they end.
pub(crate) struct Keeper {
    file: std::fs::File,
}

impl Keeper {
    /// Opens or makes it, and notes what is not noted there yet.
    pub(crate) fn open(path: &Path, note: &str) -> Result<Self> {
        let there = Results::read(path)?;
        if let Some(directory) = path.parent() {
            std::fs::create_dir_all(directory)
                .with_context(|| format!("cannot make {}", directory.display()))?;
        }
        let file = std::fs::OpenOptions::new().append(true).create(true).open(path);
        let mut keeper = Self { file: file.with_context(|| format!("cannot open {}", path.display()))? };
        if there.is_none() {
            keeper.write(&(head() + "\n"))?;
        }
        let there = there.unwrap_or_default();
        if !there.notes.iter().any(|known| known == note) {
            keeper.write(&format!("{NOTE}{note}\n"))?;
        }
        Ok(keeper)
    }

    pub(crate) fn keep(&mut self, entry: &Entry) -> Result<()> {
        self.write(&entry.lines())
    }

    fn write(&mut self, text: &str) -> Result<()> {
        self.file.write_all(text.as_bytes()).context("cannot keep results")
    }
}

/// First contact in a line: latency, and datagrams from the clients and to them.
fn contact_summary(record: &Record, contact: &Contact) -> String {
    let told = |traffic: &Traffic| {
        let ([there, back], (_, bytes)) = (traffic.datagrams, traffic.total());
        format!("{there}+{back} datagrams, {bytes} bytes")
    };
    format!(
        "{} calls  p50 {:.2}  p99 {:.2} ms  visit {} | calls {} | leaving {}  server {:.3} s, {:.1} MB",
        contact.calls,
        record.latency.p50,
        record.latency.p99,
        told(&contact.visit),
        told(&contact.calling),
        told(&contact.leaving),
        contact.server_cpu,
        megabytes(record.server_rss),
    )
}

#[allow(clippy::cast_precision_loss)] // far below 2^53
fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

/// A run in a line.
pub(crate) fn summary(cell: &Cell, entry: &Entry) -> String {
    let mut line = format!("{:<15}", entry.peer);
    let fault = entry.fault().map(|fault| format!("  FAULT: {fault}")).unwrap_or_default();
    if let Some((record, contact)) = entry.contact() {
        let _ = write!(line, " {}", contact_summary(record, contact));
        return line + &fault;
    }
    for record in &entry.records {
        let _ = write!(line, " {:>9.0}/s", record.rate);
        match cell.work {
            Work::Calls { .. }
            | Work::Sessions { .. }
            | Work::Lanes { .. }
            | Work::Fan { .. }
            | Work::Durable { .. }
            | Work::Spread { .. } => {
                let latency = record.latency;
                let _ = write!(
                    line,
                    "  p50 {:>7.2}  p99 {:>7.2}  p99.9 {:>7.2} ms",
                    latency.p50, latency.p99, latency.p999
                );
            }
            Work::BothWays => {
                let _ = write!(line, " and {:>6.0}/s back", record.rate_back);
            }
            Work::Crowd { .. } => {
                let gathered = record.gathered.map(|gathered| gathered.tell()).unwrap_or_default();
                let _ = write!(line, "  {gathered}");
            }
            Work::Cold { .. } => {
                let cold = record.cold.unwrap_or_default();
                let _ = write!(line, "  arrived {:>8.1}  settled {:>8.1} ms", cold.arrived, cold.settled);
            }
            Work::Download { .. } => {
                let _ = write!(line, "  {:.2} MB/s", record.rate);
            }
            Work::OneWay | Work::Contact { .. } => (),
        }
    }
    if let Some(record) = entry.records.first() {
        let _ = write!(line, "  cpu {:>6.1} s/M", record.cpu_per_million);
        let _ =
            write!(line, "  rss {:.0}+{:.0} MB", megabytes(record.client_rss), megabytes(record.server_rss));
        if let Some(wire) = record.wire_bytes_each {
            let _ = write!(line, "  wire {wire:.0}");
        }
        if let Some(cpu) = record.sender_cpu {
            let _ = write!(line, "  sender {cpu:.2} us a copy");
        }
        if let Some(serving) = record.serving {
            let _ = write!(line, "  server {:.1} us each, {} threads", serving.cpu_each, serving.threads);
        }
        if let Some(killed) = record.killed {
            let _ = write!(line, "  of {}: {} lost, {} twice", killed.sent, killed.lost, killed.twice);
        }
        if let Some(shares) = record.shares {
            let _ = write!(line, "  shares {:.0}/{:.0}/{:.0} %", shares[0], shares[1], shares[2]);
        }
        if let Some([forward, back]) = &record.lanes {
            let _ = write!(
                line,
                "  queue {:.2}/{:.2} ms  dropped {}  marked {}  late {:.2} ms",
                forward.queue_p50,
                forward.queue_p99,
                forward.dropped,
                forward.marked,
                forward.late_p99.max(back.late_p99)
            );
        }
    }
    line + &fault
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{Gathered, Lane};

    fn run(records: Vec<Record>) -> Entry {
        let origin = Origin { date: "2026-11-23T04:05Z".into(), commit: "abc".into() };
        let records = if records.is_empty() { Err(anyhow::anyhow!("a\nreason")) } else { Ok(records) };
        Entry::new((&origin, "share", "beside TCP (CUBIC)"), "exonet", 2, 1.5, records)
    }

    #[test]
    fn what_is_kept_is_read_as_it_was() {
        let lane = |packets| Lane { packets, queue_p99: 1.25, ..Lane::default() };
        let own = Record {
            peer: "exonet".into(),
            rate: 11_624.123_4,
            client_rss: 12_345_678_901,
            wire_bytes_each: Some(1_091.5),
            lanes: Some([lane(7), lane(8)]),
            gathered: Some(Gathered { clients: 9, of: 0, after: 60.0 }),
            ..Record::default()
        };
        let rival = Record { peer: "tcp-cubic".into(), fault: Some("why".into()), ..Record::default() };
        let all = [
            run(vec![own, rival]),
            run(vec![]),
            run(vec![Record { peer: "exonet".into(), ..Record::default() }]),
        ];
        let text = format!("{}\n# a note\n{}", head(), all.iter().map(Entry::lines).collect::<String>());
        let read = Results::parse(&text).unwrap();
        assert_eq!(read.notes, ["a note"]);
        assert_eq!(read.entries.iter().map(|entry| entry.records.len()).collect::<Vec<_>>(), [2, 0, 1]);
        let again: String = read.entries.iter().map(Entry::lines).collect();
        assert!(text.ends_with(&again), "{again}");
        let [first, second, _] = read.entries.as_slice() else { panic!() };
        let record = &first.records[0];
        assert_eq!((record.rate, record.client_rss), (11_624.1, 12_345_678_901));
        assert_eq!(
            record.lanes.as_ref().map(|[a, b]| (a.packets, b.packets, b.queue_p99)),
            Some((7, 8, 1.25))
        );
        assert!(record.cold.is_none() && record.contact.is_none());
        assert_eq!((first.fault(), second.fault()), (Some("why"), Some("a reason")));
        assert_eq!(first.origin, run(vec![]).origin);
    }

    #[test]
    fn a_line_that_is_cut_is_not_read() {
        let line = run(vec![Record::default()]).lines();
        assert!(Results::parse(&format!("{}\n{line}", head())).is_ok());
        assert!(Results::parse(&format!("{}\n{}", head(), &line[..line.len() - 9])).is_err());
        assert!(Results::parse(&line).is_err(), "it has no names of columns");
    }

    #[test]
    fn numbers_keep_six_digits() {
        let told = [1_234_567.8, 0.012_345_678, 12.5, 3.0, 0.1, 123.456_789].map(number);
        assert_eq!(told, ["1234568", "0.0123457", "12.5", "3", "0.1", "123.457"]);
    }
}
