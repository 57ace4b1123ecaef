//! The policy of the far end, which allows only the named targets.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use super::target::{Host, HostName, Target, TargetError, split_port};

/// The error for a text that is not a pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PatternError {
    #[error(transparent)]
    Target(#[from] TargetError),
    #[error(
        "{0:?} is not a network: write ADDRESS/BITS:PORT, as in 10.0.0.0/8:443, where no bit is set behind \
         the first BITS"
    )]
    Network(String),
    #[error(
        "{0:?}: an asterisk stands for a whole host, or for labels at the front of a name, as in *.internal:443"
    )]
    Asterisk(String),
    #[error("{0:?} is not an address to listen at: write ADDRESS:PORT, with *:PORT for any address")]
    Place(String),
}

/// A range of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Network {
    base: IpAddr,
    bits: u8,
}

impl Network {
    /// None: there are more bits than the address has, or a bit beyond them is set.
    fn new(base: IpAddr, bits: u8) -> Option<Self> {
        let (length, set) = match base {
            IpAddr::V4(ip) => (32, u128::from(ip.to_bits()) << 96),
            IpAddr::V6(ip) => (128, ip.to_bits()),
        };
        let rest = set.checked_shl(bits.into()).unwrap_or(0);
        (bits <= length && rest == 0).then_some(Self { base, bits })
    }

    fn has(self, ip: IpAddr) -> bool {
        let differ = match (self.base, ip) {
            (IpAddr::V4(base), IpAddr::V4(ip)) => u128::from(base.to_bits() ^ ip.to_bits()) << 96,
            (IpAddr::V6(base), IpAddr::V6(ip)) => base.to_bits() ^ ip.to_bits(),
            _ => return false,
        };
        differ.leading_zeros() >= self.bits.into()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Hosts {
    Any,
    Network(Network),
    Name(HostName),
    /// Names that end with a dot and this name.
    Below(HostName),
}

/// Targets that are allowed: `HOST:PORT` as it is, `*.internal:443`, `10.0.0.0/8:5432`, `127.0.0.1:*`, `*:443`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pattern {
    hosts: Hosts,
    /// None: any.
    port: Option<u16>,
}

impl FromStr for Pattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        let no_port = || TargetError::NoPort(text.to_owned());
        // Brackets may stand around an address with its bits or without them.
        let (host, port) = match text.split_once("]/") {
            Some((ip, rest)) => {
                let (bits, port) = rest.split_once(':').ok_or_else(no_port)?;
                let ip = ip.strip_prefix('[').ok_or_else(no_port)?;
                (format!("{ip}/{bits}"), port)
            }
            None => split_port(text).map(|(host, port)| (host.to_owned(), port)).ok_or_else(no_port)?,
        };
        let port = match port {
            "*" => None,
            port => match port.parse().ok().filter(|port| *port > 0) {
                Some(port) => Some(port),
                None => return Err(TargetError::Port(text.to_owned()).into()),
            },
        };
        Ok(Self { hosts: hosts(&host, text)?, port })
    }
}

fn hosts(host: &str, text: &str) -> Result<Hosts, PatternError> {
    if host == "*" {
        return Ok(Hosts::Any);
    }
    if let Some(name) = host.strip_prefix("*.") {
        let name = name.parse().map_err(|_| PatternError::Asterisk(text.to_owned()))?;
        return Ok(Hosts::Below(name));
    }
    if host.contains('*') {
        return Err(PatternError::Asterisk(text.to_owned()));
    }
    if let Some((base, bits)) = host.split_once('/') {
        let network = base.parse().ok().zip(bits.parse().ok());
        let network = network.and_then(|(base, bits)| Network::new(base, bits));
        return network.map(Hosts::Network).ok_or_else(|| PatternError::Network(text.to_owned()));
    }
    Ok(match host.parse()? {
        Host::Ip(ip) => Hosts::Network(Network { base: ip, bits: if ip.is_ipv4() { 32 } else { 128 } }),
        Host::Name(name) => Hosts::Name(name),
    })
}

impl Pattern {
    fn has_port(&self, port: u16) -> bool {
        self.port.is_none_or(|own| own == port)
    }

    /// Whether the pattern allows this name, whatever its addresses.
    fn has_name(&self, name: &HostName, port: u16) -> bool {
        self.has_port(port)
            && match &self.hosts {
                Hosts::Any => true,
                Hosts::Network(_) => false,
                Hosts::Name(own) => own == name,
                Hosts::Below(own) => {
                    name.as_str().strip_suffix(own.as_str()).is_some_and(|front| front.ends_with('.'))
                }
            }
    }

    /// Whether the pattern allows this address, whatever its name.
    fn has_address(&self, address: SocketAddr) -> bool {
        self.has_port(address.port())
            && match self.hosts {
                Hosts::Any => true,
                Hosts::Network(network) => network.has(address.ip().to_canonical()),
                Hosts::Name(_) | Hosts::Below(_) => false,
            }
    }
}

/// The targets that may be connected to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Policy(Vec<Pattern>);

/// The decision of a policy on a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ruling {
    /// The target may be connected to, whatever its addresses.
    Allowed,
    /// No pattern has the name of the target, and some address with this port is allowed. The addresses decide, once
    /// the name has been looked up.
    ByAddress,
    Denied,
}

impl Policy {
    pub(crate) fn new(patterns: impl Into<Vec<Pattern>>) -> Self {
        Self(patterns.into())
    }

    pub(crate) fn rule(&self, target: &Target) -> Ruling {
        let port = target.port;
        let by_address =
            |pattern: &Pattern| pattern.has_port(port) && matches!(pattern.hosts, Hosts::Network(_));
        let allowed = match &target.host {
            Host::Ip(ip) => self.allows(SocketAddr::new(*ip, port)),
            Host::Name(name) => self.0.iter().any(|pattern| pattern.has_name(name, port)),
        };
        match &target.host {
            _ if allowed => Ruling::Allowed,
            Host::Name(_) if self.0.iter().any(by_address) => Ruling::ByAddress,
            _ => Ruling::Denied,
        }
    }

    /// Whether an address may be connected to, whatever its name.
    pub(crate) fn allows(&self, address: SocketAddr) -> bool {
        self.0.iter().any(|pattern| pattern.has_address(address))
    }
}

/// A place where a near end may ask the far end to listen: `127.0.0.1:8080`, `127.0.0.1:*`, `*:8080` (any address).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// None: any.
    ip: Option<IpAddr>,
    /// None: any.
    port: Option<u16>,
}

impl FromStr for Place {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        let wrong = || PatternError::Place(text.to_owned());
        let (host, port) = split_port(text).ok_or_else(wrong)?;
        let ip = if host == "*" { None } else { Some(host.parse().map_err(|_| wrong())?) };
        let port = if port == "*" { None } else { Some(port.parse().map_err(|_| wrong())?) };
        Ok(Self { ip, port })
    }
}

impl Place {
    pub(crate) fn has(self, address: SocketAddr) -> bool {
        self.ip.is_none_or(|ip| ip == address.ip()) && self.port.is_none_or(|port| port == address.port())
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.ip {
            Some(IpAddr::V6(ip)) => write!(f, "[{ip}]")?,
            Some(ip) => write!(f, "{ip}")?,
            None => f.write_str("*")?,
        }
        match self.port {
            Some(port) => write!(f, ":{port}"),
            None => f.write_str(":*"),
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.hosts {
            Hosts::Any => f.write_str("*")?,
            Hosts::Network(Network { base: IpAddr::V4(ip), bits: 32 }) => write!(f, "{ip}")?,
            Hosts::Network(Network { base: IpAddr::V6(ip), bits: 128 }) => write!(f, "[{ip}]")?,
            Hosts::Network(Network { base: IpAddr::V4(ip), bits }) => write!(f, "{ip}/{bits}")?,
            Hosts::Network(Network { base: IpAddr::V6(ip), bits }) => write!(f, "[{ip}]/{bits}")?,
            Hosts::Name(name) => f.write_str(name.as_str())?,
            Hosts::Below(name) => write!(f, "*.{}", name.as_str())?,
        }
        match self.port {
            Some(port) => write!(f, ":{port}"),
            None => f.write_str(":*"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ruling(pattern: &str, target: &str) -> Ruling {
        let policy = Policy::new([pattern.parse().unwrap()]);
        policy.rule(&target.parse().unwrap())
    }

    #[test]
    fn only_what_is_named_is_allowed() {
        use Ruling::{Allowed, ByAddress, Denied};
        for (pattern, target, expected) in [
            ("db:5432", "db:5432", Allowed),
            ("DB.:5432", "db:5432", Allowed),
            ("db:5432", "db:5433", Denied),
            ("db:5432", "db2:5432", Denied),
            ("db:*", "db:1", Allowed),
            ("*.internal:443", "a.internal:443", Allowed),
            ("*.internal:443", "a.b.internal:443", Allowed),
            ("*.internal:443", "internal:443", Denied),
            ("*.internal:443", "ainternal:443", Denied),
            ("*.internal:443", "a.internal.evil:443", Denied),
            ("*.internal:443", "a.internal:80", Denied),
            ("*.internal:443", "10.0.0.1:443", Denied),
            ("127.0.0.1:*", "127.0.0.1:9", Allowed),
            ("127.0.0.1:*", "127.0.0.2:9", Denied),
            ("127.0.0.1:*", "[::ffff:127.0.0.1]:9", Allowed),
            ("127.0.0.1:*", "localhost:9", ByAddress),
            ("127.0.0.1:80", "localhost:9", Denied),
            ("localhost:9", "127.0.0.1:9", Denied),
            ("10.0.0.0/8:443", "10.255.0.1:443", Allowed),
            ("10.0.0.0/8:443", "11.0.0.1:443", Denied),
            ("10.0.0.0/8:443", "[::a00:1]:443", Denied),
            ("[fd00::]/8:*", "[fdff::1]:1", Allowed),
            ("[fd00::/8]:*", "[fe00::1]:1", Denied),
            ("*:443", "anything:443", Allowed),
            ("*:443", "[::1]:443", Allowed),
            ("*:443", "[::1]:80", Denied),
            ("0.0.0.0/0:80", "1.2.3.4:80", Allowed),
            ("0.0.0.0/0:80", "[::1]:80", Denied),
        ] {
            assert_eq!(ruling(pattern, target), expected, "{pattern} {target}");
        }
        assert_eq!(Policy::default().rule(&"db:1".parse().unwrap()), Denied);
    }

    #[test]
    fn a_pattern_that_means_nothing_is_refused() {
        for text in [
            "",
            "db",
            "*",
            "10.0.0.1/8:1",
            "10.0.0.0/33:1",
            "a*:1",
            "*.1:1",
            "*.:1",
            "db:0",
            "10.0.0.0/x:1",
            "127.1:*",
        ] {
            assert!(text.parse::<Pattern>().is_err(), "{text}");
        }
        for text in ["db:1", "*.db:*", "10.0.0.0/8:1", "[fd00::]/8:1", "[::1]:1", "*:*"] {
            assert_eq!(text.parse::<Pattern>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn places_to_listen_are_addresses() {
        let has = |place: &str, address: &str| place.parse::<Place>().unwrap().has(address.parse().unwrap());
        assert!(has("127.0.0.1:80", "127.0.0.1:80") && !has("127.0.0.1:80", "127.0.0.1:81"));
        assert!(!has("127.0.0.1:80", "0.0.0.0:80") && has("127.0.0.1:*", "127.0.0.1:0"));
        assert!(has("*:80", "0.0.0.0:80") && !has("127.0.0.1:80", "127.0.0.1:0"));
        for text in ["127.0.0.1:80", "[::1]:*", "*:80"] {
            assert_eq!(text.parse::<Place>().unwrap().to_string(), text);
        }
        assert!("localhost:80".parse::<Place>().is_err() && "80".parse::<Place>().is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_harm(text: String) {
            let _ = (text.parse::<Pattern>(), text.parse::<Place>());
        }

        #[test]
        fn a_network_has_what_begins_as_it_does(base: u32, other: u32, bits in 0_u8..=32) {
            let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
            let network = Network::new(IpAddr::V4((base & mask).into()), bits).unwrap();
            prop_assert_eq!(network.has(IpAddr::V4(other.into())), base & mask == other & mask);
        }
    }
}
