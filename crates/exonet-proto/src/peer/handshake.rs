//! How a channel to a peer begins and ends.

mod answer;
mod begin;
mod conflict;
mod install;
mod leaving;
mod refused;

use core::time::Duration;

use super::outbound::PeerLimits;
use crate::config::Takes;
use crate::crypto;
use crate::level::DurabilityLevel;
use crate::message::lane::LaneLimits;
use crate::wire::{self, Bases, Frame, Frames, Params};

pub(super) use conflict::{MINE_TWICE, YOURS_MOVED, YOURS_TWICE};

/// How long a half-open epoch is kept if no data packet confirms it.
const HALF_OPEN_FOR: Duration = Duration::from_secs(10);
/// Epochs that began within this time of each other crossed: both ends use the one that the smaller id began.
const CROSSING: Duration = Duration::from_secs(5);
/// How many copies of an opening go to every address for the sake of a farewell or a ping, and how many for a reminder.
const FAREWELLS: u32 = 6;
const REMINDERS: u32 = 2;
/// The most free ranges of a record with which its last STATE still goes with the CLOSE.
const LAST_RANGES: usize = 32;
/// Room for the ASK and the head of an EARLY frame.
const EARLY_OVERHEAD: usize = 37 + 18;
/// The most bytes that the frames of an answer may have.
pub(crate) const ANSWER_ROOM: usize =
    wire::MAX_ANSWER - wire::ANSWER_HEADER - crypto::ANSWER_OVERHEAD - wire::MAC;

/// The PARAMS that either handshake message begins with.
pub(crate) fn params_of(payload: &[u8]) -> Result<Params, wire::Malformed> {
    match Frames::new(payload, Bases::default()).next() {
        Some(Ok(Frame::Params(params))) => Ok(params),
        Some(Err(malformed)) => Err(malformed),
        _ => Err(wire::Malformed::Truncated),
    }
}

/// The code of the CLOSE in an answer that begins no channel.
fn close_of(payload: &[u8]) -> Option<u64> {
    let code = |frame| if let Frame::Close { code } = frame { Some(code) } else { None };
    Frames::new(payload, Bases::default()).map_while(Result::ok).find_map(code)
}

impl PeerLimits {
    /// The limits that the peer has declared. `knows_lanes`: this node knows lanes.
    pub(crate) fn of(params: &Params, knows_lanes: bool) -> Self {
        let lanes = LaneLimits::new(params.lane_window, params.lane_pool, params.lanes);
        Self {
            pool_window: params.pool_window.max(crate::message::POOLED),
            body_window: params.body_window.max(crate::message::POOLED),
            bodies: params.max_bodies,
            message: params.max_message.saturating_sub(crate::message::MAX_HEAD),
            takes: Takes::of_bits(params.takes),
            durability: DurabilityLevel::of(params.durability),
            lanes: lanes.filter(|_| knows_lanes),
        }
    }
}
