//! What a node may do and hold: every cap of the core in one place.

use core::net::IpAddr;
use core::time::Duration;
use std::collections::BTreeSet;

use crate::channel::Hedging;
use crate::crypto::Suite;
use crate::id::{NodeId, Stay};
use crate::level::DurabilityLevel;
use crate::message::POOLED;
use crate::message::lane::LaneLimits;
use crate::parts::Parts;
use crate::wire::Role;

/// Which peers may talk to a node. There is no default: the application decides.
///
/// A peer that this node itself sends to is admitted for as long as it is known here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Any node that can prove its id.
    Anyone,
    /// These nodes only.
    Only(BTreeSet<NodeId>),
    /// The application is asked by [`crate::event::Event::Authorize`] and answers by [`crate::node::Node::admit`].
    Ask,
}

/// What a node takes of others. Its peers hear so in the handshake: what is of another kind ends
/// [`Refused`](crate::message::Outcome::Refused) at its sender, certainly not delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Takes {
    /// Messages that are no calls. Default true.
    pub messages: bool,
    /// Calls. Default true.
    pub calls: bool,
}

impl Takes {
    /// Messages, and no calls.
    pub const MESSAGES_ONLY: Self = Self { messages: true, calls: false };
    /// Calls, and no other messages.
    pub const CALLS_ONLY: Self = Self { messages: false, calls: true };

    const MESSAGES: u64 = 1;
    const CALLS: u64 = 2;

    /// As PARAMS say it.
    pub(crate) fn bits(self) -> u64 {
        u64::from(self.messages) * Self::MESSAGES + u64::from(self.calls) * Self::CALLS
    }

    pub(crate) const fn of_bits(bits: u64) -> Self {
        Self { messages: bits & Self::MESSAGES > 0, calls: bits & Self::CALLS > 0 }
    }

    pub(crate) const fn takes_all(self) -> bool {
        self.messages && self.calls
    }

    /// Whether it takes this. Replies were asked for.
    pub(crate) const fn takes(self, role: Role) -> bool {
        match role {
            Role::Plain | Role::Stream(_) => self.messages,
            Role::Call => self.calls,
            Role::Reply { .. } => true,
        }
    }
}

impl Default for Takes {
    fn default() -> Self {
        Self { messages: true, calls: true }
    }
}

/// Caps. Whatever a peer does, a node holds no more than these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Peers known at once. Default 200,000.
    pub peers: usize,
    /// Openings answered and not yet confirmed by a data packet. Default 4,096.
    pub half_open: usize,
    /// The same from one /24 (IPv4) or /48 (IPv6), which has the same share of `openings_per_second`. Default 256.
    /// Loopback is exempt.
    pub half_open_per_prefix: usize,
    /// Openings on which public-key work is spent, per second; a quarter of them without proof of address. Default
    /// 32,000, four times what one core can do: it shares the work out between strangers, and how much of it there is
    /// follows from the time that a driver gives it. One that gives all the time there is wants 4,000.
    pub openings_per_second: u32,
    /// Peers whose clocks are far ahead of this node's and whose early messages go the slow way: each is a line on
    /// the disk until this clock has caught up. Those of others end Unknown. Default 1,024.
    pub strays: usize,
    /// Messages queued or in doubt to one peer; more waits. Default 65,536.
    pub queued_messages: usize,
    /// Bytes of these. One message is always let in. Default 32 MiB.
    pub queued_bytes: usize,
    /// Bytes of bodies in memory that wait for all peers together, in a node with a journal: further bodies that are longer than
    /// 64 bytes, or are queued together with others, wait on the disk, and are read when they leave. Default 64 MiB.
    pub queued_in_memory: usize,
    /// The largest message that is sent or taken, in bytes. Default 2^40.
    pub message: u64,
    /// The largest message whose body the application gives as a whole, in bytes: such a body is one record of a journal. Bodies that
    /// the application writes as it goes, and replies to calls, may be longer. Default: no limit beside `message`; in the library `exonet`, 4 GiB less 1 KiB
    /// in a node with a journal.
    pub whole_message: u64,
    /// Free slots granted to one peer at most, those aside whose message waits for the application. Default 32,768.
    pub slots: u64,
    /// The pool that plain messages of up to 64 KiB from one peer share until the application takes them.
    /// At least 64 KiB. Default 8 MiB.
    pub pool_window: u64,
    /// What each lane but that of plain messages may hold in any case until the application takes it: the calls of one method are a
    /// lane. Messages of up to 64 KiB count with 160 bytes each beside their own; an empty lane takes one always. 0: without
    /// lanes, calls share `pool_window` with all else. Default 16 KiB.
    pub lane_window: u64,
    /// What all lanes of one peer may hold beyond that. Default 16 MiB.
    pub lane_pool: u64,
    /// Lanes of one peer that hold something at once. Default 16,384.
    pub lanes: usize,
    /// What is held of one larger message until the application takes it, and of one that the application writes as
    /// it goes. At least 64 KiB. Default 4 MiB.
    pub body_window: u64,
    /// Larger messages of one peer under way at once. Default 16.
    pub bodies: usize,
    /// Larger messages up to this are assembled in memory; above, the application reads them as they
    /// come. Default 1 MiB.
    pub stream_above: u64,
    /// Replies to one peer that are kept until it says that it has them. Beyond, the oldest is forgotten; calls that
    /// are computed never are. Default 1,024.
    pub replies: usize,
    /// Bytes of all replies kept. Beyond, the oldest is forgotten; one may have any size. Default 256 MiB.
    pub reply_bytes: usize,
    /// Received bytes held for all peers together, and set aside for messages that are partly there; what finds
    /// no room is treated as lost. One message is always let in. Default 1 GiB.
    pub received_bytes: usize,
    /// The most connections that a driver holds open at once for authenticated peers that opened them (`Carrier::Tcp`,
    /// `Carrier::Auto`). At this limit, the driver closes a further connection at once. Default 65,536.
    pub connections: usize,
    /// The same limit for each peer. A peer uses one connection; while a new one replaces it, it uses two for some seconds. Default 8.
    pub connections_per_peer: usize,
}

impl Limits {
    /// The largest message that is sent if the application gives its body as a whole.
    pub fn largest_whole(&self) -> u64 {
        self.message.min(self.whole_message)
    }

    /// As it counts: `pool_window` is never below one maximum message.
    pub(crate) fn pool_window(&self) -> u64 {
        self.pool_window.max(POOLED)
    }

    /// Those of lanes, as the peers hear of them. None: without lanes.
    pub(crate) fn of_lanes(&self) -> Option<LaneLimits> {
        LaneLimits::new(self.lane_window, self.lane_pool, self.lanes as u64)
    }

    /// As it counts: every larger message goes on through a window of this.
    pub(crate) fn body_window(&self) -> u64 {
        self.body_window.max(POOLED)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            peers: 200_000,
            half_open: 4_096,
            half_open_per_prefix: 256,
            openings_per_second: 32_000,
            strays: 1_024,
            queued_messages: 65_536,
            queued_bytes: 32 << 20,
            queued_in_memory: 64 << 20,
            message: 1 << 40,
            whole_message: u64::MAX,
            slots: 32_768,
            pool_window: 8 << 20,
            lane_window: 16 << 10,
            lane_pool: 16 << 20,
            lanes: 16_384,
            body_window: 4 << 20,
            bodies: 16,
            stream_above: 1 << 20,
            replies: 1_024,
            reply_bytes: 256 << 20,
            received_bytes: 1 << 30,
            connections: 65_536,
            connections_per_peer: 8,
        }
    }
}

/// What carries packets between this node and the peers whose addresses it was given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Carrier {
    /// Datagrams alone.
    #[default]
    Udp,
    /// Connections alone: datagrams are neither sent nor taken.
    Tcp,
    /// Datagrams, and a connection where they do not get through.
    Auto,
}

/// Which congestion controller new paths get.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum CongestionChoice {
    /// A model of the path that takes delay, not loss, for congestion: keeps a lossy link full and its queue short.
    #[default]
    Exo,
    /// CUBIC, RFC 9438.
    Cubic,
    /// A fixed window in bytes, for tests and links of known size.
    Fixed(u64),
}

/// How a node behaves. The defaults suit the internet and a data centre alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Which peers may talk to this node.
    pub policy: Policy,
    /// Whether a peer that policy refuses is told: its messages end Refused at once. If not, it gets no answer, and goes on
    /// trying. Default true.
    pub tell_refused: bool,
    /// What is taken. Default: messages and calls.
    pub takes: Takes,
    /// Caps.
    pub limits: Limits,
    /// A pair that is quiet for this long forgets its channel. Default 30 s.
    pub idle_timeout: Duration,
    /// A sender record with nothing to send closes after this. Default 10 s.
    pub sender_linger: Duration,
    /// A receiver record whose peer is silent goes after this: an outage that is longer makes Unknown of what was in
    /// doubt. Default 30 days.
    pub dead_after: Duration,
    /// The same where nothing but calls came under the record, and each has ended here: its reply is known to have
    /// arrived, or is not kept any longer. A call that was under way during an outage that is longer may end Unknown.
    /// Less than some seconds also gives up callers that are there. Never more than `dead_after`. Default 5 min.
    pub caller_patience: Duration,
    /// A message in doubt for this long ends Unknown. Default: never.
    pub doubt_timeout: Option<Duration>,
    /// Keys are renewed after this. Default 120 s.
    pub rekey_after: Duration,
    /// An acknowledgement or STATE waits no longer than this. Default 1 ms.
    pub max_ack_delay: Duration,
    /// An authenticated ping after this much silence, to keep a path's translation open. Default: off.
    pub keepalive: Option<Duration>,
    /// The round-trip time assumed before the first sample. Default 100 ms.
    pub initial_rtt: Duration,
    /// The largest UDP payload tried on a path: 1,200 to 65,000. Default 1,452, which fits Ethernet with IPv6; 65,000 in
    /// the library `exonet`.
    pub max_datagram: u16,
    /// The same on a path to a loopback address, where nothing but the system bounds it. Never below `max_datagram`.
    /// Default 65,000.
    pub max_loopback_datagram: u16,
    /// Which congestion controller.
    pub congestion: CongestionChoice,
    /// Parts that are the application's own. Default: none.
    pub parts: Parts,
    /// Whether packets with nothing behind them are copied on paths that lose, and how much that may cost. Default: a
    /// quarter of what the path gives.
    pub hedging: Hedging,
    /// Whether packets leave marked ECT(0), so that queues can mark them instead of dropping them; it ends on a path
    /// where the peer does not tell of the marks. Default true.
    pub ecn: bool,
    /// The first messages to a peer without a channel leave beside the opening, under a stamp: one trip, where
    /// clocks agree. They are encrypted to the peer's long-term key: without forward secrecy against its theft.
    /// Default true.
    pub early: bool,
    /// The place at which the identity lives: what its peers have met of it at other places counts for nothing then. Default: it has
    /// never moved.
    pub stay: Stay,
    /// The durability level that this node tells its peers. It must be that of the node's journal. Default: the node keeps no
    /// journal.
    pub durability: DurabilityLevel,
    /// The application takes calls by [`crate::node::Node::take_call`] and answers them by [`crate::node::Node::reply`]. If not, a
    /// call is a message like any other, and is answered by [`crate::pattern::call::FAILED`] when it is taken. Default false.
    pub serves: bool,
    /// A reply whose caller does not say that it has it is forgotten after this; one of more than 1,000 bytes, after so
    /// much silence of its caller. Default 5 min.
    pub reply_kept: Duration,
    /// What carries packets. A connection is opened by the node that was given the other's address, through its driver. Default:
    /// datagrams alone.
    pub carrier: Carrier,
    /// The AEAD of the channels that this node begins; the peer's choice is taken where the peer begins. Default AES-128-GCM;
    /// ChaCha20-Poly1305 on wasm32, and in the library `exonet` wherever the processor has no AES instructions.
    pub suite: Suite,
    /// The block in which `D` is reserved. Default 2^32; tiny in tests.
    pub clock_block: u64,
}

impl Config {
    /// The largest datagram that this node takes, wherever it comes from.
    pub(crate) fn largest_datagram(&self) -> u16 {
        self.max_datagram.max(self.max_loopback_datagram)
    }

    /// The largest datagram to try on the path to `remote`.
    pub(crate) fn datagrams_to(&self, remote: IpAddr) -> u16 {
        if remote.to_canonical().is_loopback() { self.largest_datagram() } else { self.max_datagram }
    }

    /// The defaults under `policy`.
    pub fn new(policy: Policy) -> Self {
        Self {
            policy,
            tell_refused: true,
            takes: Takes::default(),
            limits: Limits::default(),
            idle_timeout: Duration::from_secs(30),
            sender_linger: Duration::from_secs(10),
            dead_after: Duration::from_secs(30 * 86_400),
            caller_patience: Duration::from_secs(300),
            doubt_timeout: None,
            rekey_after: Duration::from_secs(120),
            max_ack_delay: Duration::from_millis(1),
            keepalive: None,
            initial_rtt: Duration::from_millis(100),
            max_datagram: 1_452,
            max_loopback_datagram: 65_000,
            congestion: CongestionChoice::default(),
            parts: Parts::default(),
            hedging: Hedging::default(),
            ecn: true,
            early: true,
            stay: Stay::default(),
            durability: DurabilityLevel::default(),
            serves: false,
            reply_kept: Duration::from_secs(300),
            carrier: Carrier::default(),
            suite: Suite::for_processor(!cfg!(target_arch = "wasm32")),
            clock_block: crate::half::DEFAULT_BLOCK,
        }
    }
}
