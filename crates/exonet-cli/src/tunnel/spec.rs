//! Forwards, as `-L`, `-R` and `-D` specify them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use super::target::{Target, TargetError, split_port};

/// The error for a text that does not specify a forward.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SpecError {
    #[error("{0:?} is not [BIND:]PORT:HOST:PORT, as in 5432:db:5432 or [::1]:8080:127.0.0.1:80")]
    Forward(String),
    #[error("{0:?} is not [BIND:]PORT, as in 1080 or 127.0.0.1:1080")]
    Listen(String),
    #[error("{0:?} is not an address to listen at: write an address, localhost, or * for all")]
    Bind(String),
    #[error(transparent)]
    Target(#[from] TargetError),
}

/// `[BIND:]PORT:HOST:PORT`: connections to `bind` are forwarded to `to`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Spec {
    pub(crate) bind: SocketAddr,
    pub(crate) to: Target,
}

impl FromStr for Spec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let wrong = || SpecError::Forward(text.to_owned());
        let (front, _) = text.rsplit_once(':').ok_or_else(wrong)?;
        // The host of the target may contain colons only in brackets.
        let before_host = if front.ends_with(']') { front.rfind(":[") } else { front.rfind(':') };
        let (bind, rest) = text.split_at_checked(before_host.ok_or_else(wrong)?).ok_or_else(wrong)?;
        let to = rest.strip_prefix(':').ok_or_else(wrong)?.parse()?;
        let bind = bind.parse::<Bind>().map_err(|error| match error {
            SpecError::Listen(_) => wrong(),
            error => error,
        })?;
        Ok(Self { bind: bind.0, to })
    }
}

/// `[BIND:]PORT`: the address to listen at, by default a loopback address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bind(pub(crate) SocketAddr);

impl FromStr for Bind {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let wrong = || SpecError::Listen(text.to_owned());
        let (ip, port) = match text.parse::<u16>() {
            Ok(port) => (IpAddr::V4(Ipv4Addr::LOCALHOST), port),
            Err(_) => {
                let (host, port) = split_port(text).ok_or_else(wrong)?;
                let ip = match host {
                    "*" => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
                    "localhost" => IpAddr::V4(Ipv4Addr::LOCALHOST),
                    host => host.parse().map_err(|_| SpecError::Bind(host.to_owned()))?,
                };
                (ip, port.parse().map_err(|_| wrong())?)
            }
        };
        Ok(Self(SocketAddr::new(ip, port)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_forwarded_is_written_as_for_ssh() {
        for (text, bind, to) in [
            ("5432:db:5432", "127.0.0.1:5432", "db:5432"),
            ("0:db:5432", "127.0.0.1:0", "db:5432"),
            ("0.0.0.0:80:10.0.0.1:81", "0.0.0.0:80", "10.0.0.1:81"),
            ("*:80:db:81", "[::]:80", "db:81"),
            ("localhost:80:db:81", "127.0.0.1:80", "db:81"),
            ("[::1]:80:[::2]:81", "[::1]:80", "[::2]:81"),
            ("80:[::2]:81", "127.0.0.1:80", "[::2]:81"),
        ] {
            let spec = Spec { bind: bind.parse().unwrap(), to: to.parse().unwrap() };
            assert_eq!(text.parse(), Ok(spec), "{text}");
        }
        for text in ["", "80", "80:db", "db:80:81", "x:80:db:81", "80:db:0", "::1:80:db:81", "65536:db:1"] {
            assert!(text.parse::<Spec>().is_err(), "{text}");
        }
        assert_eq!("1080".parse(), Ok(Bind("127.0.0.1:1080".parse().unwrap())));
        assert_eq!("[::1]:1080".parse(), Ok(Bind("[::1]:1080".parse().unwrap())));
        assert!("db:1080".parse::<Bind>().is_err() && "".parse::<Bind>().is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_harm(text: String) {
            let _ = (text.parse::<Spec>(), text.parse::<Bind>());
        }
    }
}
