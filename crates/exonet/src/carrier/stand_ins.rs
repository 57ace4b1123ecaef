//! Addresses that stand for host names which a proxy looks up.

use core::fmt;
use core::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use blake2::{Blake2s256, Digest};

/// The prefix of these addresses, 100::/64 (RFC 6666). The network discards packets to it.
const FRONT: [u8; 8] = [1, 0, 0, 0, 0, 0, 0, 0];
/// The longest name in bytes that a proxy accepts: that of SOCKS5.
const LONGEST: usize = 255;
/// How many names are remembered. If a name is forgotten, its address means nothing until the application names the
/// peer again.
const CAPACITY: usize = 1_024;

/// Names, and the addresses that stand for them. Clones share them.
#[derive(Clone, Default)]
pub(super) struct StandIns(Arc<Mutex<BTreeMap<Ipv6Addr, Box<str>>>>);

/// What a proxy should connect to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Target {
    Address(SocketAddr),
    Name(Box<str>, u16),
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Name(host, port) => write!(f, "{host}:{port}"),
        }
    }
}

impl StandIns {
    /// The address that stands for `name`, which is `HOST:PORT`. It is the same in each process. None: no proxy
    /// accepts the name.
    pub(super) fn of(&self, name: &str) -> Option<SocketAddr> {
        let (host, port) = name.rsplit_once(':')?;
        let port = port.parse().ok()?;
        let fits = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'.' | b'-' | b'_');
        if host.is_empty() || host.len() > LONGEST || !host.bytes().all(fits) {
            return None;
        }
        let host = host.to_ascii_lowercase();
        let hash = Blake2s256::digest(&host);
        let mut ip = [0; 16];
        ip.iter_mut().zip(FRONT.iter().chain(&hash)).for_each(|(to, from)| *to = *from);
        let ip = Ipv6Addr::from(ip);
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if names.len() >= CAPACITY && !names.contains_key(&ip) {
            names.pop_first();
        }
        names.insert(ip, host.into());
        Some(SocketAddr::new(ip.into(), port))
    }

    /// What `address` stands for: a name, or the address itself. None: the table does not know the name.
    pub(super) fn target(&self, address: SocketAddr) -> Option<Target> {
        match address.ip() {
            IpAddr::V6(ip) if ip.octets().starts_with(&FRONT) => {
                let names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                names.get(&ip).map(|host| Target::Name(host.clone(), address.port()))
            }
            _ => Some(Target::Address(address)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_addresses_that_lead_back_to_them() {
        let names = StandIns::default();
        let shared = names.clone();
        let (a, b) = (names.of("A.example:1").unwrap(), names.of("b.example:1").unwrap());
        assert!(
            a != b && names.of("a.example:1") == Some(a) && StandIns::default().of("a.example:1") == Some(a)
        );
        assert_eq!(shared.target(a), Some(Target::Name("a.example".into(), 1)));
        assert_eq!(names.target(SocketAddr::new(a.ip(), 7)), Some(Target::Name("a.example".into(), 7)));
        assert_eq!(StandIns::default().target(a), None);
        let plain = "192.0.2.1:1".parse().unwrap();
        assert_eq!(names.target(plain), Some(Target::Address(plain)));
    }

    #[test]
    fn what_a_proxy_would_read_as_something_else_is_no_name() {
        let names = StandIns::default();
        for name in ["", "a", ":1", "a:", "a:x", "a b:1", "a\r\nX:1", "a/b:1", "[::1]:1", "\u{fc}:1"] {
            assert_eq!(names.of(name), None, "{name}");
        }
        assert_eq!(names.of(&format!("{}:1", "a".repeat(256))), None);
        assert!((0..=CAPACITY).all(|n| names.of(&format!("a{n}:1")).is_some()));
        assert_eq!(names.0.lock().unwrap().len(), CAPACITY);
    }
}
