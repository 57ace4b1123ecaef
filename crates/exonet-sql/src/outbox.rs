//! Messages, and the rows that they become.

use std::time::SystemTime;

use bytes::Bytes;

use exonet::PeerAddr;

use crate::database::Value;
use crate::statements::{Dialect, Statement};
use crate::{Error, Key};

/// The number of lanes of an outbox, which relays divide among themselves.
pub(crate) const LANES: u8 = 8;

/// The longest body of a row, in bytes: 1 MiB. A relay holds the rows that are under way in memory.
pub const MAX_BODY: usize = 1 << 20;

/// A message to send: a body, and how it should be treated.
///
/// ```
/// use exonet_sql::OutboxMessage;
///
/// let message = OutboxMessage::new("42.00").tag("payment").order("account 7");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutboxMessage {
    tag: Bytes,
    order: Bytes,
    body: Bytes,
}

impl OutboxMessage {
    /// Makes a message with this body, an empty tag and no order.
    pub fn new(body: impl Into<Bytes>) -> Self {
        Self { body: body.into(), ..Self::default() }
    }

    /// The tag, by which the receiver can dispatch the message: at most 255 bytes.
    #[must_use]
    pub fn tag(mut self, tag: impl Into<Bytes>) -> Self {
        self.tag = tag.into();
        self
    }

    /// The order key, of at most 255 bytes. Messages to one peer with the same order key are processed one after the
    /// other, in the order in which they were sent: each leaves once the one before has been processed. If two
    /// transactions run at the same time, either may come first. Messages without an order key do not wait for each
    /// other.
    #[must_use]
    pub fn order(mut self, key: impl Into<Bytes>) -> Self {
        self.order = key.into();
        self
    }
}

impl<T: Into<Bytes>> From<T> for OutboxMessage {
    fn from(body: T) -> Self {
        Self::new(body)
    }
}

impl OutboxMessage {
    /// Returns the key of a new row for this message, and the statement that inserts the row.
    pub(crate) fn row(self, dialect: Dialect, peer: &PeerAddr) -> Result<(Key, Statement), Error> {
        let Self { tag, order, body } = self;
        if body.len() > MAX_BODY {
            return Err(Error::BodyTooLarge { size: body.len(), limit: MAX_BODY });
        }
        if let Some(name) = [&tag, &order].into_iter().find(|name| name.len() > 255) {
            return Err(Error::NameTooLong(name.len()));
        }
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let key = Key::at(u64::try_from(now.as_millis()).unwrap_or_default())?;
        let hints = peer.hints().collect::<Vec<_>>().join(",");
        let args = vec![
            Value::blob(key.to_vec()),
            Value::Int(lane(if order.is_empty() { &key.0 } else { &order }).into()),
            Value::blob(peer.id.0),
            Value::Text((!hints.is_empty()).then_some(hints)),
            Value::Bytes((!order.is_empty()).then(|| order.to_vec())),
            Value::blob(tag),
            Value::blob(body),
        ];
        Ok((key, Statement { sql: dialect.statements().send, args }))
    }
}

/// The lane of an order or a message. Messages of one order are in one lane, so that one relay has them all. It is
/// FNV-1a, mixed.
fn lane(name: &[u8]) -> u8 {
    let hash = name.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    // For short names, the upper bits are nearly the same.
    let mixed = (hash ^ (hash >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let lane = (mixed >> 32) % u64::from(LANES);
    u8::try_from(lane).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_lane_is_used_and_an_order_has_one() {
        let lanes: std::collections::BTreeSet<_> = (0..200_u8).map(|n| lane(&[n])).collect();
        assert_eq!(lanes.len(), usize::from(LANES));
        assert_eq!(lane(b"account 7"), lane(b"account 7"));
    }
}
