//! The target of a connection: a host and a port.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The longest name of a host, in bytes (RFC 1035).
const LONGEST_NAME: usize = 253;
const LONGEST_LABEL: usize = 63;

/// The error for a text that is not a target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TargetError {
    #[error("{0:?} has no port: write HOST:PORT, and an IPv6 address in brackets, as in [::1]:80")]
    NoPort(String),
    #[error("{0:?} is not a port: write a number from 1 to 65535")]
    Port(String),
    #[error("{0:?} is not a host: write a name or an address; a name has letters, digits, - and _ only")]
    Host(String),
}

/// The host of a target: an address, or a name that the far end looks up. No text is both.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Host {
    /// An address. An IPv4-mapped IPv6 address is written as an IPv4 address.
    Ip(IpAddr),
    Name(HostName),
}

/// A host name, in lower case and without a trailing dot. Its last label is not a number, so no resolver takes it for
/// an address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct HostName(Box<str>);

impl HostName {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for HostName {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        let is_label = |label: &str| {
            (1..=LONGEST_LABEL).contains(&label.len())
                && label.bytes().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_'))
                && !label.starts_with('-')
        };
        let last = name.rsplit('.').next().unwrap_or_default();
        // `getaddrinfo` reads 127.1 and 0x7f000001 as addresses.
        let is_number = last.starts_with(|c: char| c.is_ascii_digit())
            && (last.bytes().all(|c| c.is_ascii_digit()) || last.starts_with("0x"));
        if name.len() > LONGEST_NAME || is_number || !name.split('.').all(is_label) {
            return Err(TargetError::Host(text.to_owned()));
        }
        Ok(Self(name.into()))
    }
}

impl From<IpAddr> for Host {
    fn from(ip: IpAddr) -> Self {
        Self::Ip(ip.to_canonical())
    }
}

impl FromStr for Host {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        match text.parse::<IpAddr>() {
            Ok(ip) => Ok(ip.into()),
            Err(_) => text.parse().map(Self::Name),
        }
    }
}

/// A host and a port, as `HOST:PORT`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Target {
    pub(crate) host: Host,
    pub(crate) port: u16,
}

impl From<SocketAddr> for Target {
    fn from(address: SocketAddr) -> Self {
        Self { host: address.ip().into(), port: address.port() }
    }
}

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        let (host, port) = split_port(text).ok_or_else(|| TargetError::NoPort(text.to_owned()))?;
        let host = host.parse()?;
        let port = port.parse().ok().filter(|port| *port > 0);
        Ok(Self { host, port: port.ok_or_else(|| TargetError::Port(text.to_owned()))? })
    }
}

/// Splits `HOST:PORT` into `HOST` and `PORT`. Brackets around an address with colons are removed.
pub(crate) fn split_port(text: &str) -> Option<(&str, &str)> {
    let (host, port) = text.rsplit_once(':')?;
    match host.strip_prefix('[') {
        Some(inner) => inner.strip_suffix(']').map(|inner| (inner, port)),
        None => (!host.contains(':')).then_some((host, port)),
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(IpAddr::V6(ip)) => write!(f, "[{ip}]"),
            Self::Ip(ip) => write!(f, "{ip}"),
            Self::Name(name) => f.write_str(name.as_str()),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl Serialize for Target {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'a> Deserialize<'a> for Target {
    fn deserialize<D: serde::Deserializer<'a>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn targets_are_names_or_addresses() {
        for (text, shown) in [
            ("db:5432", "db:5432"),
            ("DB.Internal.:1", "db.internal:1"),
            ("127.0.0.1:80", "127.0.0.1:80"),
            ("[::1]:80", "[::1]:80"),
            ("[::ffff:10.0.0.1]:80", "10.0.0.1:80"),
            ("a_b.x-1:65535", "a_b.x-1:65535"),
        ] {
            assert_eq!(text.parse::<Target>().unwrap().to_string(), shown);
        }
    }

    #[test]
    fn what_a_resolver_would_take_for_an_address_is_no_name() {
        for text in ["127.1:80", "2130706433:80", "0x7f000001:80", "a.0x1:80", "1.2.3.4.5:80", "x.1.:80"] {
            assert!(matches!(text.parse::<Target>(), Err(TargetError::Host(_))), "{text}");
        }
        for text in [
            "", "db", "db:", "db:0", "db:65536", "::1:80", ":80", "a..b:80", "-a:80", "a b:80", "ü:80",
            "[db:80",
        ] {
            assert!(text.parse::<Target>().is_err(), "{text}");
        }
        assert!(format!("{}:1", "a".repeat(64)).parse::<Target>().is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_harm_and_what_is_read_is_shown_alike(text: String) {
            if let Ok(target) = text.parse::<Target>() {
                prop_assert_eq!(target.to_string().parse::<Target>(), Ok(target));
            }
        }

        #[test]
        fn every_address_is_a_target(address: SocketAddr) {
            prop_assume!(address.port() > 0);
            let target = Target::from(address);
            prop_assert_eq!(target.to_string().parse::<Target>(), Ok(target));
        }
    }
}
