//! Explicit congestion notification (RFC 3168, RFC 9000 section 13.4): the counts.
//!
//! Validation of a path's ECN support (RFC 9000, section 13.4.2) belongs here and is not done yet.

/// How many packets arrived with each ECN codepoint since the epoch began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EcnCounts {
    /// Packets marked ECT(0).
    pub ect0: u64,
    /// Packets marked ECT(1).
    pub ect1: u64,
    /// Packets marked CE: congestion was experienced.
    pub ce: u64,
}

impl EcnCounts {
    /// Counts a packet by the two ECN bits of its IP header; `bits` above the low two are ignored.
    pub fn count(&mut self, bits: u8) {
        let counter = match bits & 0b11 {
            0b01 => &mut self.ect1,
            0b10 => &mut self.ect0,
            0b11 => &mut self.ce,
            _ => return,
        };
        *counter = counter.saturating_add(1);
    }

    /// Whether any marked packet has been counted: without one the counts need not be reported.
    pub fn any(&self) -> bool {
        *self != Self::default()
    }
}
