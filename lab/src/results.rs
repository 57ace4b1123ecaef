//! What is kept of runs, and how it is told.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::app::Work;
use crate::run::{Contact, Record, Traffic};
use crate::scenario::Cell;

/// All runs of a scenario.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Results {
    pub(crate) entries: Vec<Entry>,
}

/// One run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub(crate) scenario: String,
    pub(crate) cell: String,
    pub(crate) work: Work,
    pub(crate) bytes: usize,
    pub(crate) peer: String,
    pub(crate) repeat: u32,
    /// How long was measured, in s.
    pub(crate) span: u64,
    /// The peer's own, then its rival's.
    pub(crate) records: Vec<Record>,
    /// Why there are none.
    pub(crate) error: Option<String>,
}

impl Entry {
    pub(crate) fn new(
        scenario: &str,
        cell: &Cell,
        peer: &str,
        repeat: u32,
        span: u64,
        records: Result<Vec<Record>>,
    ) -> Self {
        let (records, error) = match records {
            Ok(records) => (records, None),
            Err(error) => (Vec::new(), Some(format!("{error:#}"))),
        };
        Self {
            scenario: scenario.to_owned(),
            cell: cell.name.clone(),
            work: cell.work,
            bytes: cell.bytes,
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
        record.server_rss as f64 / 1e6,
    )
}

/// A run in a line.
pub(crate) fn summary(entry: &Entry) -> String {
    let mut line = format!("{:<15}", entry.peer);
    if let Some((record, contact)) = entry.contact() {
        let _ = write!(line, " {}", contact_summary(record, contact));
        return line + &entry.fault().map(|fault| format!("  FAULT: {fault}")).unwrap_or_default();
    }
    for record in &entry.records {
        let _ = write!(line, " {:>9.0}/s", record.rate);
        match entry.work {
            Work::Calls { .. } => {
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
            Work::OneWay | Work::Contact { .. } => (),
        }
    }
    if let Some(record) = entry.records.first() {
        let _ = write!(line, "  cpu {:>6.1} s/M", record.cpu_per_million);
        #[allow(clippy::cast_precision_loss)] // megabytes
        let mb = |bytes: u64| bytes as f64 / 1e6;
        let _ = write!(line, "  rss {:.0}+{:.0} MB", mb(record.client_rss), mb(record.server_rss));
        if let Some(wire) = record.wire_per_payload {
            let _ = write!(line, "  wire {wire:.3}");
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
    if let Some(fault) = entry.fault() {
        let _ = write!(line, "  FAULT: {fault}");
    }
    line
}

impl Results {
    /// Writes `SCENARIO.json` and `SCENARIO.tsv` into a directory.
    pub(crate) fn write(&self, directory: &Path, scenario: &str) -> Result<()> {
        std::fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
        let write = |ending: &str, text: String| {
            let path = directory.join(format!("{scenario}.{ending}"));
            std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
        };
        write("json", serde_json::to_string_pretty(self)? + "\n")?;
        let any = |of: fn(&Entry) -> bool| self.entries.iter().any(of);
        let table = match () {
            () if any(|entry| entry.contact().is_some()) => self.contact_table(),
            () if any(|entry| matches!(entry.work, Work::Cold { .. })) => self.cold_table(),
            () => self.table(),
        };
        write("tsv", table)
    }

    /// What was written for a scenario, if anything was.
    pub(crate) fn read(directory: &Path, scenario: &str) -> Result<Option<Self>> {
        let path = directory.join(format!("{scenario}.json"));
        match std::fs::read(&path) {
            Ok(bytes) => {
                Ok(Some(serde_json::from_slice(&bytes).with_context(|| path.display().to_string())?))
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
        }
    }

    fn contact_table(&self) -> String {
        let mut text =
            "cell\tpeer\trepeat\tcalls\tp50_ms\tp99_ms\tmax_ms\tserver_cpu_s\tserver_rss".to_owned();
        for part in ["visit", "calling", "leaving"] {
            let _ =
                write!(text, "\t{part}_datagrams\t{part}_datagrams_back\t{part}_bytes\t{part}_bytes_back");
        }
        text.push_str("\tdropped\tlate_p99_ms\tfault\n");
        for entry in &self.entries {
            let nothing = (Record::default(), Contact::default());
            let (record, contact) = entry.contact().unwrap_or((&nothing.0, &nothing.1));
            let latency = record.latency;
            let _ = write!(
                text,
                "{}\t{}\t{}\t{}\t{:.3}\t{:.3}\t{:.3}\t{:.4}\t{}",
                entry.cell,
                entry.peer,
                entry.repeat,
                contact.calls,
                latency.p50,
                latency.p99,
                latency.max,
                contact.server_cpu,
                record.server_rss
            );
            for Traffic { datagrams: [there, back], bytes: [bytes, bytes_back] } in
                [contact.visit, contact.calling, contact.leaving]
            {
                let _ = write!(text, "\t{there}\t{back}\t{bytes}\t{bytes_back}");
            }
            let lanes = record.lanes.iter().flatten();
            let dropped: u64 = lanes.clone().map(|lane| lane.dropped).sum();
            let late = lanes.map(|lane| lane.late_p99).fold(0.0, f64::max);
            let _ = writeln!(text, "\t{dropped}\t{late:.3}\t{}", entry.fault().unwrap_or_default());
        }
        text
    }

    fn cold_table(&self) -> String {
        let mut text =
            "cell\tpeer\trepeat\tarrived_ms\tsettled_ms\tqueue_p99_ms\tdropped\tlate_p99_ms\tfault\n"
                .to_owned();
        for entry in &self.entries {
            let record = entry.records.first().cloned().unwrap_or_default();
            let cold = record.cold.unwrap_or_default();
            let lane = record.lanes.map(|[forward, _]| forward).unwrap_or_default();
            let _ = writeln!(
                text,
                "{}\t{}\t{}\t{:.2}\t{:.2}\t{:.3}\t{}\t{:.3}\t{}",
                entry.cell,
                entry.peer,
                entry.repeat,
                cold.arrived,
                cold.settled,
                lane.queue_p99,
                lane.dropped,
                lane.late_p99,
                entry.fault().unwrap_or_default()
            );
        }
        text
    }

    fn table(&self) -> String {
        let mut text = "cell\tpeer\trival\trepeat\trate_per_s\trate_back_per_s\tp50_ms\tp99_ms\tp999_ms\t\
                        cpu_s_per_million\tclient_rss\tserver_rss\twire_per_payload\tqueue_p50_ms\tqueue_p99_ms\t\
                        dropped\tmarked\tlost\tlate_p99_ms\tconnected\tconnected_s\tfault\n"
            .to_owned();
        for entry in &self.entries {
            let fault = entry.fault().unwrap_or_default();
            let rivals = entry.records.iter().skip(1).chain(entry.records.first());
            if entry.records.is_empty() {
                let _ = writeln!(
                    text,
                    "{}\t{}\t\t{}{}{fault}",
                    entry.cell,
                    entry.peer,
                    entry.repeat,
                    "\t".repeat(18)
                );
            }
            for (record, rival) in entry.records.iter().zip(rivals) {
                let alone = entry.records.len() == 1;
                let (rival, latency) = (if alone { "" } else { &rival.peer }, record.latency);
                let lane = record.lanes.as_ref().map(|[forward, _]| forward.clone()).unwrap_or_default();
                let wire = record.wire_per_payload.map(|wire| format!("{wire:.4}")).unwrap_or_default();
                let gathered = record.gathered.map(|all| format!("{}\t{:.2}", all.clients, all.after));
                let gathered = gathered.unwrap_or_else(|| "\t".into());
                let _ = writeln!(
                    text,
                    "{}\t{}\t{rival}\t{}\t{:.1}\t{:.1}\t{:.3}\t{:.3}\t{:.3}\t{:.2}\t{}\t{}\t{wire}\t{:.3}\t{:.3}\t{}\t{}\t{}\t{:.3}\t{gathered}\t{fault}",
                    entry.cell,
                    record.peer,
                    entry.repeat,
                    record.rate,
                    record.rate_back,
                    latency.p50,
                    latency.p99,
                    latency.p999,
                    record.cpu_per_million,
                    record.client_rss,
                    record.server_rss,
                    lane.queue_p50,
                    lane.queue_p99,
                    lane.dropped,
                    lane.marked,
                    lane.lost,
                    lane.late_p99,
                );
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Gathered;

    #[test]
    fn every_line_of_a_table_has_its_columns() {
        let gathered = Some(Gathered { clients: 9, of: 10, after: 60.0 });
        let crowd = Entry {
            scenario: "crowd".into(),
            cell: "10 clients".into(),
            work: Work::Crowd { clients: 10, per_second: 10 },
            bytes: 64,
            peer: "exonet".into(),
            repeat: 0,
            span: 2,
            records: vec![Record { gathered, ..Record::default() }],
            error: None,
        };
        assert!(summary(&crowd).contains("9 of 10 connected after 60.0 s"));
        let failed = Entry { records: Vec::new(), error: Some("why".into()), ..crowd.clone() };
        let other = Entry { work: Work::OneWay, records: vec![Record::default()], ..crowd.clone() };
        let table = Results { entries: vec![crowd, failed, other] }.table();
        let lines: Vec<Vec<&str>> = table.lines().map(|line| line.split('\t').collect()).collect();
        assert_eq!(lines.iter().map(Vec::len).collect::<Vec<_>>(), [22; 4]);
        let at = |name: &str| lines[0].iter().position(|column| *column == name).unwrap();
        assert_eq!((lines[1][at("connected")], lines[1][at("connected_s")]), ("9", "60.00"));
        assert_eq!(lines[2][at("fault")], "why");
    }
}
