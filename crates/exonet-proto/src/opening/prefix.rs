//! The network part of an address.

/// The part of an address by which unknown nodes are counted: /24 of IPv4, /48 of IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Prefix(u64);

impl Prefix {
    /// None: the address is of this machine, whose programs share without bounds.
    pub fn told(ip: core::net::IpAddr) -> Option<Self> {
        (!ip.to_canonical().is_loopback()).then(|| Self::of(ip))
    }

    pub(crate) fn of(ip: core::net::IpAddr) -> Self {
        match ip.to_canonical() {
            core::net::IpAddr::V4(v4) => Self(u64::from(v4.to_bits() >> 8)),
            core::net::IpAddr::V6(v6) => {
                let [a, b, c, ..] = v6.segments();
                Self(1 << 63 | u64::from(a) << 32 | u64::from(b) << 16 | u64::from(c))
            }
        }
    }
}
