//! The data that the page draws, as JSON.

use core::fmt::{self, Write};

use exonet_proto::node::Node;

use crate::host::Host;
use crate::world::{BEGINNING, Counts, Side, World};

/// The most packets in a report: more cannot be told apart on the page.
const PACKETS: usize = 400;
/// The most slots, and the most tokens, in a report.
const CELLS: usize = 600;

impl World {
    /// The current state of the world. Slots, tokens and incarnations are those of the core.
    pub fn report(&mut self) -> &str {
        let mut out = core::mem::take(&mut self.report);
        out.clear();
        // Writing to a string cannot fail.
        let _ = self.write(&mut out);
        self.report = out;
        &self.report
    }

    fn write(&self, out: &mut String) -> fmt::Result {
        let now = self.now.since(BEGINNING).as_micros();
        write!(out, "{{\"now\":{},\"cut\":{},\"counts\":", now, self.cut)?;
        write_counts(out, &self.counts(), self.open())?;
        out.push_str(",\"packets\":[");
        let under_way = self.flights.iter().filter(|(_, flight)| flight.left <= self.now);
        for (nth, ((_, number), flight)) in under_way.take(PACKETS).enumerate() {
            let span = flight.due.since(flight.left).as_nanos().max(1);
            let permille = self.now.since(flight.left).as_nanos() * 1_000 / span;
            let from = u8::from(flight.from == Side::Bob);
            let kind = flight.data.first().map_or(0, |first| first & 0xf);
            let (lost, old, len) = (u8::from(flight.lost), u8::from(flight.replayed), flight.data.len());
            let comma = if nth > 0 { "," } else { "" };
            write!(out, "{comma}[{number},{from},{permille},{kind},{lost},{old},{len}]")?;
        }
        out.push_str("],\"alice\":");
        write_host(out, self.host(Side::Alice), |out, node| write_sender(out, node, self))?;
        out.push_str(",\"bob\":");
        write_host(out, self.host(Side::Bob), |out, node| write_receiver(out, node, self))?;
        out.push('}');
        Ok(())
    }
}

fn write_counts(out: &mut String, counts: &Counts, open: usize) -> fmt::Result {
    let Counts { sent, taken, duplicates, delivered, unknown, expired, .. } = counts;
    let Counts { not_delivered, forgotten, packets, lost, copies, replayed, .. } = counts;
    write!(out, "{{\"sent\":{sent},\"taken\":{taken},\"duplicates\":{duplicates},\"delivered\":{delivered}")?;
    write!(out, ",\"unknown\":{unknown},\"expired\":{expired},\"notDelivered\":{not_delivered}")?;
    write!(out, ",\"forgotten\":{forgotten},\"open\":{open},\"packets\":{packets},\"lost\":{lost}")?;
    write!(out, ",\"copies\":{copies},\"replayed\":{replayed}}}")
}

fn write_host(
    out: &mut String,
    host: &Host,
    record: impl FnOnce(&mut String, &Node) -> fmt::Result,
) -> fmt::Result {
    write!(out, "{{\"kills\":{},\"up\":{}", host.kills, host.node.is_some())?;
    if let Some(node) = &host.node {
        let clock = node.clock();
        let knows = node.peer_count() > 0;
        write!(out, ",\"ck\":{},\"b\":{},\"knows\":{knows},\"record\":", clock.ck(), clock.b().0)?;
        record(out, node)?;
    }
    out.push('}');
    Ok(())
}

/// Alice's sender record: its envelopes and tokens.
fn write_sender(out: &mut String, node: &Node, world: &World) -> fmt::Result {
    let Some(sender) = node.records(&world.bob.id).and_then(|records| records.sender) else {
        out.push_str("null");
        return Ok(());
    };
    let incarnation = sender.incarnation().map_or(0, |r| r.0);
    let in_doubt = sender.in_doubt();
    let queued = (node.open_messages().len() as u64).saturating_sub(in_doubt);
    write!(out, "{{\"r\":{incarnation},\"envelopes\":{},\"inDoubt\":{in_doubt}", sender.envelopes())?;
    write!(out, ",\"queued\":{queued},\"e\":{},\"sck\":{},\"tokens\":[", sender.e().0, sender.sck().0)?;
    let early = sender.early().map(|(s, _)| s.0);
    let tokens = sender.tokens().map(|(s, ..)| s.0).chain(early);
    write_list(out, tokens.take(CELLS))
}

/// Bob's receiver record: its free slots.
fn write_receiver(out: &mut String, node: &Node, world: &World) -> fmt::Result {
    let Some(receiver) = node.records(&world.alice.id).and_then(|records| records.receiver) else {
        out.push_str("null");
        return Ok(());
    };
    let (hi, lo, free) = receiver.parts();
    let incarnation = receiver.incarnation().0;
    write!(out, "{{\"r\":{incarnation},\"lo\":{},\"hi\":{},\"free\":{}", lo.0, hi.0, receiver.free())?;
    out.push_str(",\"slots\":[");
    write_list(out, free.iter().flatten().take(CELLS))
}

fn write_list(out: &mut String, numbers: impl Iterator<Item = u64>) -> fmt::Result {
    for (nth, number) in numbers.enumerate() {
        let comma = if nth > 0 { "," } else { "" };
        write!(out, "{comma}{number}")?;
    }
    out.push_str("]}");
    Ok(())
}
