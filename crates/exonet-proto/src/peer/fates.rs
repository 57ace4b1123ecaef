//! The fates of what packets carried: the second of the two places where the channel and the halves meet.

use super::epoch::Carried;
use super::{Context, Peer};
use crate::account::Account;
use crate::channel::Fate;
use crate::event::Event;
use crate::time::Now;

/// Adds the fate of an item. Messages of one incarnation that were acknowledged packet by packet, the newest first, are joined
/// where their numbers follow one another.
pub(crate) fn join_fate(fates: &mut Vec<(Carried, Fate)>, item: Carried, fate: Fate) {
    if let Carried::Messages { r, s, n } = item
        && fate == Fate::Acked
        && let Some((Carried::Messages { r: later, s: first, n: count }, Fate::Acked)) = fates.last_mut()
        && *later == r
        && s.0.checked_add(u64::from(n)) == Some(first.0)
        && let Some(sum) = count.checked_add(n)
    {
        (*first, *count) = (s, sum);
        return;
    }
    fates.push((item, fate));
}

impl Peer {
    /// Reports the fates of carried items to the halves.
    pub(crate) fn apply(&mut self, cx: &mut Context, now: Now, fates: &mut Vec<(Carried, Fate)>) {
        self.follow_fates(cx, fates);
        let wait = self.link.pto() * 2;
        let rtt = self.link.recovery.rtt().latest();
        let (out, store) = (&mut self.outbound, &mut cx.store);
        for (item, fate) in fates.drain(..) {
            let arrived = matches!(fate, Fate::Acked | Fate::Late);
            match item {
                Carried::Messages { r, s, n } if arrived => {
                    out.on_acked(now.mono, store, r, s, u64::from(n), wait);
                }
                Carried::Messages { r, s, n } => out.on_lost(store, r, s, u64::from(n)),
                Carried::Fragment { r, s, offset, len } => {
                    let range = offset..offset + u64::from(len);
                    if arrived {
                        out.on_fragment_acked(now.mono, store, r, s, range, wait);
                    } else {
                        out.on_fragment_lost(store, r, s, range);
                    }
                }
                Carried::Ack { index, largest } if arrived => {
                    // Packet numbers under each set of keys begin at zero.
                    if let Some(epoch) = self.link.epoch_mut(index) {
                        epoch.received.forget_below(largest);
                    }
                }
                Carried::Copy { index, of } if fate == Fate::Acked => {
                    let saved = self.link.epoch_mut(index).is_some_and(|epoch| !epoch.sent.has_arrived(of));
                    cx.stats.hedges_saved += u64::from(saved);
                }
                Carried::Ping { cookie } if fate != Fate::Late => {
                    let rtt = arrived.then_some(rtt);
                    self.link.pinging.give_back(1);
                    cx.events.push_back(Event::Pong { peer: self.id, cookie, rtt, refused: None });
                }
                Carried::Ask if !arrived => out.on_ask_lost(),
                Carried::Early if fate == Fate::Lost => out.send_early_again(),
                Carried::Farewell if fate == Fate::Lost => out.farewell_due |= out.sender.is_none(),
                Carried::State { .. } if fate == Fate::Lost => self.inbound.owe_state(now.mono),
                Carried::State { nth } if arrived => self.inbound.state_arrived(now.mono, nth, &cx.config),
                Carried::Have { s } if !arrived => self.inbound.have_again(s),
                Carried::Verdict { s } if arrived => self.inbound.verdicts.told(s),
                Carried::Verdict { s } if !arrived => self.inbound.verdicts.owe(s),
                Carried::Withdrawn { s, n } if !arrived => {
                    let (run, inbound) = (s.0..s.0.saturating_add(n), &mut self.inbound);
                    inbound.receiver.iter().for_each(|record| inbound.revoked.owe(record, run.clone()));
                }
                Carried::Reply { s } if !arrived => self.inbound.server.again(s),
                _ => {}
            }
        }
    }
}
