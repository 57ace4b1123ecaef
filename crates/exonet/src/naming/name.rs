//! The names of services.

use core::fmt;
use core::str::FromStr;

/// What precedes a name where an address is possible too.
pub(crate) const PREFIX: &str = "name:";
/// The longest name, in bytes.
const LONGEST: usize = 64;

/// The name of a service: 1 to 64 characters of `A-Z a-z 0-9 . _ -`, the first of which is a letter. It is
/// case-sensitive.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Box<str>);

/// Why a text is not a [`Name`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no name: 1 to 64 of A-Z a-z 0-9 . _ - are wanted, beginning with a letter")]
pub struct NameError(String);

impl Name {
    /// The name as a string.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Name {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_name = text.len() <= LONGEST
            && text.starts_with(|c: char| c.is_ascii_alphabetic())
            && text.bytes().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'.' | b'_' | b'-'));
        if is_name { Ok(Self(text.into())) } else { Err(NameError(text.to_owned())) }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// Returns the name in a hint of the form `name:NAME`. A port is no name, so `name:4455` is the port of a host.
pub(crate) fn of_hint(hint: &str) -> Option<Name> {
    hint.strip_prefix(PREFIX)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_short_and_plain() {
        for good in ["a", "chat", "Chat-2.eu_west", &"n".repeat(64)] {
            assert_eq!(good.parse::<Name>().unwrap().to_string(), good);
        }
        for bad in ["", "7", ".a", "-a", "a b", "a/b", "a:b", "a@b", "é", &"n".repeat(65)] {
            assert!(bad.parse::<Name>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_hint_is_a_name_or_an_address() {
        assert_eq!(of_hint("name:chat").unwrap().as_str(), "chat");
        for address in ["name:4455", "host:4455", "name:", "chat"] {
            assert!(of_hint(address).is_none(), "{address}");
        }
    }
}
