//! Figures about a node and its peers. All are counts since the start unless said otherwise.

use core::net::SocketAddr;
use core::time::Duration;

/// What a node has done and holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Messages accepted for sending.
    pub sent: u64,
    /// Outcomes Delivered.
    pub delivered: u64,
    /// Outcomes Unknown.
    pub unknown: u64,
    /// Outcomes Expired, Cancelled and Refused.
    pub withdrawn: u64,
    /// Messages that came back because a peer that has ended had not taken them.
    pub taken_back: u64,
    /// Messages that the application has taken.
    pub received: u64,
    /// Copies of messages that were suppressed.
    pub duplicates_suppressed: u64,
    /// Datagrams in.
    pub datagrams_in: u64,
    /// Bytes of these.
    pub bytes_in: u64,
    /// Datagrams out.
    pub datagrams_out: u64,
    /// Bytes of these.
    pub bytes_out: u64,
    /// Data packets declared lost.
    pub packets_lost: u64,
    /// Copies sent of packets with nothing behind them.
    pub hedged: u64,
    /// Bytes of these.
    pub hedged_bytes: u64,
    /// Of these, arrived before or without what they are copies of.
    pub hedges_saved: u64,
    /// Datagrams that are not of this protocol or malformed.
    pub malformed: u64,
    /// Datagrams that do not authenticate.
    pub unauthentic: u64,
    /// Messages that broke a limit that their sender knew.
    pub violations: u64,
    /// Replayed packets.
    pub replayed: u64,
    /// Data packets for an unknown channel.
    pub strays: u64,
    /// Of these, answered by a RESET: a former life of this node had the channel.
    pub resets_sent: u64,
    /// RESETs of peers that have restarted.
    pub resets_heeded: u64,
    /// Openings refused: by policy, caps or rate, or dropped by the driver for lack of time.
    pub openings_refused: u64,
    /// Of those that policy refused, answered: their senders know.
    pub refusals_told: u64,
    /// Records closed because what came under them is of a kind that this node does not take.
    pub declined: u64,
    /// Openings of this node that a peer's policy refused.
    pub refused: u64,
    /// Openings that could not be begun: the peer's id is no key that can be talked to.
    pub unreachable: u64,
    /// Handshakes completed, either way.
    pub handshakes: u64,
    /// RETRY answers sent.
    pub retries: u64,
    /// Messages sent beside an opening.
    pub early_sent: u64,
    /// Of these, told to have gone the slow way: their stamp was not new there, or the peer had no room.
    pub early_slowed: u64,
    /// Of these, ended Unknown because this node's clock is too far ahead of the peer's.
    pub early_rejected: u64,
    /// Messages taken in beside an opening.
    pub early_received: u64,
    /// Stamps of others that were not above their bound: clocks behind this one, replays, or a forgotten past.
    pub stamps_stale: u64,
    /// Stamps of others too far ahead of this node's clock, written down: what came under them goes the slow way.
    pub stamps_astray: u64,
    /// Such stamps beyond [`Limits::strays`](crate::config::Limits::strays): what came under them ended Unknown.
    pub stamps_ahead: u64,
    /// Calls made.
    pub calls: u64,
    /// Of these, replied to.
    pub calls_replied: u64,
    /// Of these, ended Unknown.
    pub calls_unknown: u64,
    /// Calls of others answered, by the application or in its stead.
    pub calls_served: u64,
    /// Replies forgotten though their callers had not said that they have them.
    pub replies_forgotten: u64,
    /// Receiver records evicted.
    pub evictions: u64,
    /// Of these, of callers that were silent for [`Config::caller_patience`](crate::config::Config::caller_patience).
    pub callers_evicted: u64,
    /// Received messages not held for lack of room; they come again.
    pub dropped_for_room: u64,
    /// Datagrams of peers dropped unread by the driver, because the peer sent more than it had time for.
    pub share_dropped: u64,
    /// Now: peers known.
    pub peers: usize,
    /// Now: half-open peers.
    pub half_open: usize,
    /// Now: sender records.
    pub sender_records: usize,
    /// Now: receiver records.
    pub receiver_records: usize,
    /// Now: messages queued or in doubt.
    pub open_messages: usize,
    /// Now: calls that the application has and has not answered.
    pub computing: usize,
    /// Now: replies kept until their callers have said that they have them.
    pub replies: usize,
    /// Now: messages in the receive queue.
    pub waiting: usize,
    /// Now: bytes received and not yet taken, and those set aside for messages that are partly there.
    pub received_bytes: usize,
}

/// What is known of one peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerStats {
    /// Where it is, if a channel stands.
    pub remote: Option<SocketAddr>,
    /// Smoothed round-trip time.
    pub rtt: Duration,
    /// The least round-trip time seen lately.
    pub min_rtt: Duration,
    /// How far this node's wall clock was ahead of the peer's at the last handshake, in nanoseconds, transit included.
    /// First messages are fast while that is less than some seconds either way.
    pub clock_ahead: Option<i64>,
    /// The path's datagram size.
    pub mtu: u16,
    /// Congestion window in bytes.
    pub window: u64,
    /// Bytes in flight.
    pub in_flight: u64,
    /// Data packets sent on its channels.
    pub packets_sent: u64,
    /// Of these, declared lost.
    pub packets_lost: u64,
    /// Messages queued.
    pub queued: usize,
    /// Messages in doubt.
    pub in_doubt: usize,
    /// Envelopes held.
    pub envelopes: u64,
    /// Slots granted and free.
    pub free_slots: u64,
    /// What its datagrams took the driver, and how many were dropped unread.
    pub work: Work,
}

/// What a driver says of the datagrams of a peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// How long they took it.
    pub time: Duration,
    /// How many it has dropped unread, because the peer sent more than it had time for.
    pub dropped: u64,
}
