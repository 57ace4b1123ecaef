//! A node of the model: a real clock, real records, and the model's state around them.

use std::collections::VecDeque;
use std::fmt;

use crate::config::{Config, MAX_NUMBERS, Memory};
use crate::copy::calls::caller::Caller;
use crate::copy::calls::server::{Replies, Server};
use crate::datagram::name;
use crate::half::{Bound, Clock, Far, Hull, Receiver, Sender, Stamps, Taken};
use crate::id::{Incarnation, Slot, Stamp};
use crate::journal::Journal;
use crate::ledger::Letter;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Node {
    pub(crate) clock: Clock,
    /// `D` as the disk has it.
    pub(crate) disk: u64,
    /// The amnesia frontier by the model's own reckoning.
    pub(crate) b: u64,
    /// `latest` as the disk has it.
    pub(crate) latest: u64,
    /// By the model's own reckoning, all that was taken under these stamps is forgotten.
    pub(crate) forgot: Hull,
    /// Every incarnation handed out is below.
    pub(crate) born: u64,
    pub(crate) peers: Vec<Peer>,
    /// The age and the size of all replies.
    pub(crate) replies: Replies,
    /// Other durable state, while it may still be needed.
    pub(crate) journal: Option<Journal>,
    /// Crashes and evictions that may still happen here.
    pub(crate) crashes: u8,
    pub(crate) evictions: u8,
    /// Records that may still be closed here.
    pub(crate) ends: u8,
}

/// The records that a node holds about one other.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Peer {
    pub(crate) sender: Option<Sender<Letter>>,
    pub(crate) queue: VecDeque<Letter>,
    pub(crate) record: Option<Receiver>,
    pub(crate) bound: Bound,
    /// `X`, as the disk has it.
    pub(crate) far: Option<Far>,
    /// The notes about early messages that the record took, while a crash may come.
    pub(crate) noted: Option<Taken>,
    /// The early messages that lost records took, by the model's own reckoning.
    pub(crate) lost: Vec<Taken>,
    /// Fragments of incomplete messages under the record's incarnation: soft, as (slot, which).
    pub(crate) parts: Vec<(Slot, u8)>,
    /// The peer has certainly forgotten all incarnations of the sender record below this, as the model knows.
    pub(crate) dead: Incarnation,
    /// The furthest ASK since the receiver record was made, and the highest `l`, as the model knows them.
    pub(crate) heard: (Slot, Slot),
    /// Own calls that have left.
    pub(crate) caller: Caller,
    /// The peer's calls, and what they are answered with.
    pub(crate) server: Server,
    /// The open messages of this node that the application has withdrawn.
    pub(crate) withdrawing: Vec<Slot>,
    /// The peer's calls that the application has.
    pub(crate) running: Vec<(Slot, Letter)>,
}

impl Node {
    pub(crate) fn new(config: &Config, at: usize) -> Self {
        let mut clock = Clock::recover(0, Incarnation(0), Stamps::ephemeral(), config.block());
        let latest = u64::from(config.stamps.min(1));
        clock.stamps_mut().persisted(Stamp(latest));
        let disk = if config.block == 0 { config.limit } else { config.block };
        clock.persisted(disk);
        let crashes = config.crashes[at];
        let journaled = config.memory == Memory::Journal && crashes > 0;
        Self {
            clock,
            disk,
            b: 0,
            latest,
            forgot: Hull::default(),
            born: 0,
            peers: vec![Peer::default(); config.nodes],
            replies: Replies::default(),
            journal: journaled.then(|| Journal::new(config.nodes)),
            crashes,
            evictions: config.evictions[at],
            ends: config.ends[at],
        }
    }

    /// Whether a message of `peer` that was sent early to `s` under `ts` may be Unknown: a lost record took it, perhaps.
    pub(crate) fn has_forgotten_early(&self, peer: usize, s: Slot, ts: Stamp) -> bool {
        let took = |lost: &Taken| lost.ts == ts && s < lost.end;
        let Peer { record, lost, .. } = &self.peers[peer];
        // It was new to a record that it names, which knows all that was taken under it.
        let known = record.as_ref().is_some_and(|record| record.stamp() == ts);
        self.forgot.contains(ts) && !known || lost.iter().any(took)
    }

    /// Whether a message of `peer` under `r` may be Unknown: `r` is below the frontier and does not live.
    pub(crate) fn has_forgotten(&self, peer: usize, r: Incarnation) -> bool {
        let live = self.peers[peer].record.as_ref().map(Receiver::incarnation);
        r.0 < self.b && live != Some(r)
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ck {}", self.clock.ck())?;
        if self.clock.b().0 > 0 {
            write!(f, " b {}", self.clock.b().0)?;
        }
        let stamps = self.clock.stamps();
        if self.latest > 0 {
            write!(f, " latest {} upper {}", stamps.latest().0, stamps.upper().0)?;
            if !stamps.hull().is_empty() {
                write!(f, " hull {}..={}", stamps.hull().above.0 + 1, stamps.hull().upto.0)?;
            }
        }
        for (to, peer) in self.peers.iter().enumerate() {
            if let Some(sender) = &peer.sender {
                let (e, sck, hi) = (sender.e().0, sender.sck().0, sender.hi().0);
                write!(f, "; S[{}] e {e} sck {sck} hi {hi}", name(to))?;
                if let Some(r) = sender.incarnation() {
                    write!(f, " r {}", r.0)?;
                }
                let tokens = sender.tokens().map(|(s, r, m)| format!("m{m} at {} r {}", s.0, r.0));
                let early =
                    sender.early().map(|(s, m)| format!("m{m} at {} early {}", s.0, sender.stamp().0));
                let queue = peer.queue.iter().map(|m| format!("m{m} queued"));
                let open: Vec<_> = tokens.chain(early).chain(queue).collect();
                write!(f, " [{}]", open.join(", "))?;
                if !peer.withdrawing.is_empty() {
                    let slots: Vec<_> = peer.withdrawing.iter().map(|s| s.0).collect();
                    write!(f, " withdraws {slots:?}")?;
                }
            }
            if let Some(record) = &peer.record {
                let (hi, lo, free) = record.parts();
                let free: Vec<_> = free.iter().flatten().collect();
                write!(
                    f,
                    "; R[{}] r {} hi {} l {} free {free:?}",
                    name(to),
                    record.incarnation().0,
                    hi.0,
                    lo.0
                )?;
                if !record.withdrawn().is_empty() {
                    let all: Vec<_> = record.withdrawn().iter().flatten().collect();
                    write!(f, " withdrawn {all:?}")?;
                }
                if record.is_closed() {
                    write!(f, " closed")?;
                }
                if record.stamp().is_some() {
                    write!(f, " named {}", record.stamp().0)?;
                }
                if let Some(taken) = record.taken() {
                    write!(f, " took {} under {}", taken.end.0, taken.ts.0)?;
                }
            }
            fmt_calls(f, to, peer)?;
            if let Some(ts) = peer.bound.known() {
                write!(f, "; T[{}] {}", name(to), ts.0)?;
            }
            if let Some(far) = peer.bound.far() {
                write!(f, "; X[{}] {}..={}", name(to), far.lo.0, far.hi.0)?;
            }
            if let Some(taken) = peer.bound.taken() {
                write!(f, "; A[{}] {} under {}", name(to), taken.end.0, taken.ts.0)?;
            }
        }
        Ok(())
    }
}

fn fmt_calls(f: &mut fmt::Formatter<'_>, to: usize, peer: &Peer) -> fmt::Result {
    let all = (0..MAX_NUMBERS).map(Slot);
    let pends: Vec<_> = all.clone().filter(|s| peer.caller.get(*s).is_some()).map(|s| s.0).collect();
    if !pends.is_empty() {
        write!(f, "; calls {} {pends:?}", name(to))?;
    }
    let mut server = peer.server.clone();
    let running: Vec<_> = all.clone().filter(|s| server.is_computing(*s)).map(|s| s.0).collect();
    let replies: Vec<_> = all.filter(|s| server.form(*s).is_some()).map(|s| s.0).collect();
    if !server.is_empty() {
        write!(f, "; serves {} {running:?}, replies {replies:?}", name(to))?;
    }
    Ok(())
}
