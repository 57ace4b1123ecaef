//! W3C Trace Context: the distributed trace that a message is part of. Nothing here depends on it.

use core::fmt;
use core::str::FromStr;

use super::Tlvs;

/// The id of the extension of a message's head that holds the trace.
pub(crate) const TRACE: u64 = 3;
/// The bytes of its value: trace, parent, flags.
const VALUE: usize = 25;

/// A `traceparent` of W3C Trace Context: a trace, the span in it that sends a message, and flags. The receiver's span is a child
/// of that span.
///
/// ```
/// use exonet_proto::Traceparent;
/// let text = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
/// let parent: Traceparent = text.parse().unwrap();
/// assert_eq!((parent.to_string().as_str(), parent.is_sampled()), (text, true));
/// assert!("00-00000000000000000000000000000000-00f067aa0ba902b7-01".parse::<Traceparent>().is_err());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Traceparent {
    trace: [u8; 16],
    parent: [u8; 8],
    flags: u8,
}

/// Why a text is not a `traceparent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a traceparent is 00-TRACE-PARENT-FLAGS, with 32, 16 and 2 digits of lower-case hexadecimal, and neither id is zero"
)]
pub struct ParseTraceparentError;

impl Traceparent {
    /// The most bytes that it takes in a head: its extension, and the length of the extensions.
    pub(crate) const MAX: usize = 3 + VALUE;
    /// The bytes of its extension.
    pub(crate) const EXTENSION: usize = 2 + VALUE;

    /// None: an id is zero, which is not valid.
    pub fn new(trace: [u8; 16], parent: [u8; 8], flags: u8) -> Option<Self> {
        (trace != [0; 16] && parent != [0; 8]).then_some(Self { trace, parent, flags })
    }

    /// The trace.
    pub const fn trace_id(&self) -> [u8; 16] {
        self.trace
    }

    /// The span that sends the message.
    pub const fn parent_id(&self) -> [u8; 8] {
        self.parent
    }

    /// The flags; bit 0: [`Self::is_sampled`].
    pub const fn flags(&self) -> u8 {
        self.flags
    }

    /// Whether the sender may have recorded its span.
    pub const fn is_sampled(&self) -> bool {
        self.flags & 1 > 0
    }

    /// The trace in a head. None: there is none, or it is not valid.
    pub(crate) fn of(extensions: Tlvs<'_>) -> Option<Self> {
        Self::from_bytes(extensions.get(TRACE)?)
    }

    pub(crate) fn from_bytes(value: &[u8]) -> Option<Self> {
        let value: &[u8; VALUE] = value.try_into().ok()?;
        let (trace, rest) = value.split_first_chunk()?;
        let (parent, rest) = rest.split_first_chunk()?;
        Self::new(*trace, *parent, *rest.first()?)
    }

    pub(crate) fn to_bytes(self) -> [u8; VALUE] {
        let mut value = [0; VALUE];
        let parts = self.trace.into_iter().chain(self.parent).chain([self.flags]);
        value.iter_mut().zip(parts).for_each(|(to, from)| *to = from);
        value
    }
}

/// Parses `N` bytes in lower-case hexadecimal, and nothing else.
fn hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digit = |at: u8| match at {
        b'0'..=b'9' => Some(at - b'0'),
        b'a'..=b'f' => Some(at - b'a' + 10),
        _ => None,
    };
    let (mut bytes, digits) = ([0; N], text.as_bytes());
    if digits.len() != 2 * N {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        let [high, low] = pair else { return None };
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(bytes)
}

impl FromStr for Traceparent {
    type Err = ParseTraceparentError;

    /// From a later version, the parts that this version knows are read, as W3C demands.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let read = || {
            let mut parts = text.splitn(5, '-');
            let [version] = hex(parts.next()?)?;
            let (trace, parent, [flags]) = (hex(parts.next()?)?, hex(parts.next()?)?, hex(parts.next()?)?);
            let known = match version {
                0 => parts.next().is_none(),
                0xff => false,
                _ => true,
            };
            Self::new(trace, parent, flags).filter(|_| known)
        };
        read().ok_or(ParseTraceparentError)
    }
}

impl fmt::Display for Traceparent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (trace, parent) = (u128::from_be_bytes(self.trace), u64::from_be_bytes(self.parent));
        write!(f, "00-{trace:032x}-{parent:016x}-{:02x}", self.flags)
    }
}

impl fmt::Debug for Traceparent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const PARENT: &str = "00f067aa0ba902b7";

    #[test]
    fn only_what_w3c_calls_valid_is_read() {
        let reads = |text: &str| text.parse::<Traceparent>().is_ok();
        let of = |version: &str, trace: &str, parent: &str, rest: &str| {
            format!("{version}-{trace}-{parent}-{rest}")
        };
        assert!(reads(&of("00", TRACE, PARENT, "01")));
        assert!(
            reads(&of("cc", TRACE, PARENT, "01"))
                && reads(&of("cc", TRACE, PARENT, "01-what-later-versions-add"))
        );
        for wrong in [
            of("ff", TRACE, PARENT, "01"),
            of("00", TRACE, PARENT, "01-more"),
            of("00", TRACE, PARENT, "01-"),
            of("cc", TRACE, PARENT, "01.more"),
            of("00", &"0".repeat(32), PARENT, "01"),
            of("00", TRACE, &"0".repeat(16), "01"),
            of("00", &TRACE.to_uppercase(), PARENT, "01"),
            of("00", &TRACE[1..], PARENT, "01"),
            of("00", TRACE, &format!("{PARENT}0"), "01"),
            of("0", TRACE, PARENT, "01"),
            of("00", TRACE, PARENT, "1"),
            of("00", TRACE, PARENT, ""),
            format!("00-{TRACE}-{PARENT}"),
            format!(" 00-{TRACE}-{PARENT}-01"),
            String::new(),
            "é".repeat(55),
        ] {
            assert!(!reads(&wrong), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn text_and_bytes_come_back(trace: [u8; 16], parent: [u8; 8], flags: u8) {
            if let Some(one) = Traceparent::new(trace, parent, flags) {
                prop_assert_eq!(one.to_string().parse(), Ok(one));
                prop_assert_eq!(Traceparent::from_bytes(&one.to_bytes()), Some(one));
                prop_assert_eq!((one.trace_id(), one.parent_id(), one.flags()), (trace, parent, flags));
            }
        }

        #[test]
        fn no_text_panics(text: String) {
            let _ = text.parse::<Traceparent>();
        }
    }
}
