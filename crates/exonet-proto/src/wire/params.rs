//! PARAMS: the parameters that one end declares for the life of a channel.

use core::time::Duration;

use super::cursor::{Put, Take};
use super::kind;
use super::{Malformed, Tlvs, varint_len};
use crate::{Generation, Lineage, MAX_NUMBER, Stay, Wall};

const BASE: u8 = 1;
const MAX_ACK_DELAY: u8 = 2;
const BOOT_ID: u8 = 3;
const TIME: u8 = 4;
const MAX_DATAGRAM: u8 = 5;
const POOL_WINDOW: u8 = 6;
const BODY_WINDOW: u8 = 7;
const MAX_BODIES: u8 = 8;
const MAX_MESSAGE: u8 = 9;
const IDLE_TIMEOUT: u8 = 10;
const SUITES: u8 = 11;
const RESET_TOKEN: u8 = 12;
const TAKES: u8 = 13;
const LANE_WINDOW: u8 = 14;
const LANE_POOL: u8 = 15;
const LANES: u8 = 16;
const GENERATION: u8 = 17;
const MET: u8 = 18;
const LINEAGE: u8 = 19;
const MET_LINEAGE: u8 = 20;
const DURABILITY: u8 = 21;

/// Messages up to this size share the pool: a smaller pool could never take the largest of them.
const POOLED: u64 = 64 * 1024;

/// The token that a RESET of this channel bears if its end restarts. A holder of the token can drop the channel.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ResetToken(pub [u8; super::RESET_TOKEN]);

impl core::fmt::Debug for ResetToken {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("ResetToken(..)")
    }
}

/// The parameters of one end. The defaults apply to parameters that were left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    /// The base of this end's numbers. Default 0.
    pub base: u64,
    /// The longest that this end delays an acknowledgement; whole microseconds. Default 1 ms, less than 2^24 us.
    pub max_ack_delay: Duration,
    /// Drawn at random when the node started: another value means that the node forgot what it did not store. Default zeros.
    pub boot_id: [u8; 8],
    /// The time on this end's wall clock. Default zero: unknown.
    pub time: Wall,
    /// The largest datagram that this end takes, in bytes. Default 65,527, at least 1,200.
    pub max_datagram: u64,
    /// Bytes of messages up to 64 KiB that may be under way at first. Default 64 KiB, at least the lesser of
    /// 64 KiB and `max_message`.
    pub pool_window: u64,
    /// Bytes of each larger message that may be under way at first. Default 64 KiB.
    pub body_window: u64,
    /// Larger messages that may be under way at once. Default 4.
    pub max_bodies: u64,
    /// The largest message that this end takes, head included, in bytes. Default 2^62 - 1.
    pub max_message: u64,
    /// This end drops a channel that is unused for this long; whole milliseconds. Default zero: never.
    pub idle_timeout: Duration,
    /// The AEAD suites that this end knows: bit k stands for suite k. Default 0: unknown.
    pub suites: u64,
    /// The token that a RESET bears to say that this end has restarted. Default none: this end will not say so.
    pub reset: Option<ResetToken>,
    /// The kinds of messages that this end takes: bit 0, messages that are no calls; bit 1, calls. Default 3: both.
    pub takes: u64,
    /// Bytes that each lane, except that of plain messages, may have open in any case. Default 0: this end knows no lanes.
    pub lane_window: u64,
    /// Bytes that all these lanes together may have open beyond that. Default 16 MiB.
    pub lane_pool: u64,
    /// How many of these lanes may have something open at once. Default 16,384.
    pub lanes: u64,
    /// The place at which this end's identity lives. Default: it has never moved.
    pub stay: Stay,
    /// The latest place of the other end that this one has met: a node at another one takes nothing. Default: it has never moved.
    pub met: Stay,
    /// The durability level of this end. 0: it keeps no journal. 1: its journal outlives its process. 2 and 3: its journal outlives a
    /// power cut too. Other numbers count as 0. Default 0.
    pub durability: u64,
}

impl Default for Params {
    fn default() -> Self {
        Self {
            base: 0,
            max_ack_delay: Duration::from_millis(1),
            boot_id: [0; 8],
            time: Wall(0),
            max_datagram: 65_527,
            pool_window: POOLED,
            body_window: POOLED,
            max_bodies: 4,
            max_message: MAX_NUMBER,
            idle_timeout: Duration::ZERO,
            suites: 0,
            reset: None,
            takes: 3,
            lane_window: 0,
            lane_pool: 16 << 20,
            lanes: 16_384,
            stay: Stay::default(),
            met: Stay::default(),
            durability: 0,
        }
    }
}

impl Params {
    /// Reads the TLVs of a PARAMS frame. Unknown ids are ignored.
    pub(super) fn decode(body: &[u8]) -> Result<Self, Malformed> {
        let mut params = Self::default();
        let mut seen = 0_u32;
        for tlv in Tlvs::parse(body)? {
            let Some(id) = u8::try_from(tlv.id).ok().filter(|id| is_known(*id)) else {
                continue;
            };
            if seen & (1 << id) != 0 {
                return Err(Malformed::DuplicateParameter(id));
            }
            seen |= 1 << id;
            params.set(id, tlv.value)?;
        }
        params.check()
    }

    fn set(&mut self, id: u8, value: &[u8]) -> Result<(), Malformed> {
        if id == BOOT_ID {
            self.boot_id = value.try_into().map_err(|_| Malformed::Length)?;
            return Ok(());
        }
        if id == RESET_TOKEN {
            self.reset = Some(ResetToken(value.try_into().map_err(|_| Malformed::Length)?));
            return Ok(());
        }
        let mut rest = Take(value);
        let number = rest.varint()?;
        if !rest.is_empty() {
            return Err(Malformed::Length);
        }
        match id {
            BASE => self.base = number,
            MAX_ACK_DELAY => self.max_ack_delay = Duration::from_micros(number),
            TIME => self.time = Wall(number),
            MAX_DATAGRAM => self.max_datagram = number,
            POOL_WINDOW => self.pool_window = number,
            BODY_WINDOW => self.body_window = number,
            MAX_BODIES => self.max_bodies = number,
            MAX_MESSAGE => self.max_message = number,
            IDLE_TIMEOUT => self.idle_timeout = Duration::from_millis(number),
            TAKES => self.takes = number,
            LANE_WINDOW => self.lane_window = number,
            LANE_POOL => self.lane_pool = number,
            LANES => self.lanes = number,
            GENERATION => self.stay.generation = Generation(number),
            MET => self.met.generation = Generation(number),
            LINEAGE => self.stay.lineage = Lineage(number),
            MET_LINEAGE => self.met.lineage = Lineage(number),
            DURABILITY => self.durability = number,
            _ => self.suites = number,
        }
        Ok(())
    }

    fn check(self) -> Result<Self, Malformed> {
        let bounds = [
            (MAX_ACK_DELAY, self.max_ack_delay < Duration::from_micros(1 << 24)),
            (MAX_DATAGRAM, self.max_datagram >= super::MIN_OPENING as u64),
            (POOL_WINDOW, self.pool_window >= self.max_message.min(POOLED)),
        ];
        match bounds.iter().find(|(_, kept)| !kept) {
            Some((id, _)) => Err(Malformed::Parameter(*id)),
            None => Ok(self),
        }
    }

    /// The parameters that are varints, with their values.
    fn numbers(&self) -> [(u8, u64); 19] {
        let saturated = |units: u128| u64::try_from(units).unwrap_or(MAX_NUMBER).min(MAX_NUMBER);
        [
            (BASE, self.base),
            (MAX_ACK_DELAY, saturated(self.max_ack_delay.as_micros())),
            (TIME, self.time.0.min(MAX_NUMBER)),
            (MAX_DATAGRAM, self.max_datagram),
            (POOL_WINDOW, self.pool_window),
            (BODY_WINDOW, self.body_window),
            (MAX_BODIES, self.max_bodies),
            (MAX_MESSAGE, self.max_message),
            (IDLE_TIMEOUT, saturated(self.idle_timeout.as_millis())),
            (SUITES, self.suites),
            (TAKES, self.takes),
            (LANE_WINDOW, self.lane_window),
            (LANE_POOL, self.lane_pool),
            (LANES, self.lanes),
            (GENERATION, self.stay.generation.0),
            (MET, self.met.generation.0),
            (LINEAGE, self.stay.lineage.0),
            (MET_LINEAGE, self.met.lineage.0),
            (DURABILITY, self.durability),
        ]
    }

    /// The parameters to send: those that differ from their defaults.
    fn said(&self) -> impl Iterator<Item = (u8, u64)> {
        let default = Self::default().numbers();
        self.numbers()
            .into_iter()
            .zip(default)
            .filter(|(mine, default)| mine != default)
            .map(|(mine, _)| mine)
    }

    /// How many bytes the frame takes on the wire.
    pub fn encoded_len(&self) -> usize {
        let body = self.body_len();
        1 + varint_len(body as u64) + body
    }

    fn body_len(&self) -> usize {
        let boot_id = if self.boot_id == [0; 8] { 0 } else { 2 + self.boot_id.len() };
        let reset = self.reset.map_or(0, |ResetToken(token)| 2 + token.len());
        boot_id + reset + self.said().map(|(_, value)| 2 + varint_len(value)).sum::<usize>()
    }

    pub(super) fn put(&self, out: &mut Put<'_>) -> Option<()> {
        out.byte(kind::PARAMS)?;
        out.length(self.body_len())?;
        if self.boot_id != [0; 8] {
            out.byte(BOOT_ID)?;
            out.length(self.boot_id.len())?;
            out.bytes(&self.boot_id)?;
        }
        if let Some(ResetToken(token)) = &self.reset {
            out.byte(RESET_TOKEN)?;
            out.length(token.len())?;
            out.bytes(token)?;
        }
        for (id, value) in self.said() {
            out.byte(id)?;
            out.length(varint_len(value))?;
            out.varint(value)?;
        }
        Some(())
    }
}

const fn is_known(id: u8) -> bool {
    matches!(id, BASE..=DURABILITY)
}
