//! Checks that nothing is left when all is quiet.

use exonet_proto::node::Stats;

use super::Breach;
use crate::Ledger;
use crate::host::Host;

/// Checks **G**, and that a forgotten peer takes no memory: the node knows no peer, holds nothing by its own counts,
/// and waits for nothing. With `kept_alive`, an application keeps a channel alive, so peers stay known, and timers
/// stay set.
pub(crate) fn quiet(host: &Host, kept_alive: bool, ledger: &mut Ledger) {
    let (node, core) = (host.node.id(), &host.node);
    let Stats { peers, half_open, sender_records, receiver_records, open_messages, received_bytes, .. } =
        core.stats();
    let counts = [
        ("peers", if kept_alive { 0 } else { peers }),
        ("half-open channels", half_open),
        ("sender records", sender_records),
        ("receiver records", receiver_records),
        ("open messages", open_messages),
        ("received bytes", received_bytes),
    ];
    let mut left: Vec<String> = Vec::new();
    left.extend(counts.iter().filter(|(_, count)| *count > 0).map(|(what, count)| format!("{count} {what}")));
    core.audit(|holding| {
        // The node keeps this much about early messages of a sender that has vanished.
        let stays = holding.what == "bounds of lost records";
        if holding.held > 0 && !kept_alive && !stays {
            left.push(format!("{} {}", holding.held, holding.what));
        }
    });
    left.extend(core.poll_timeout().filter(|_| !kept_alive).map(|at| format!("a timer at {} ns", at.0)));
    left.extend((!core.is_quiet()).then(|| "something to say".to_owned()));
    for what in left {
        ledger.report(Breach::NotForgotten { node, what });
    }
}
