//! The messages of the two ends. `docs/tunnel.md` describes the fields.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use rand::TryRngCore;
use rand::rngs::OsRng;
use serde::de::{DeserializeOwned, Error as _, IgnoredAny};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::keep::Token;
use super::target::Target;
use crate::failure::Failure;

/// The version of all messages.
const VERSION: u8 = 1;
/// The prefixes of the names of streams: for connections, and for control streams.
const CONNECTION: &str = "tcp/";
const CONTROL: &str = "tunnel/";
/// The maximum number of ports that a near end may ask for.
pub(crate) const MOST_LISTENED: usize = 256;

/// One run of an end: a random number that only the two ends know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Run(u64);

impl Run {
    /// # Errors
    /// The system has no randomness.
    pub(crate) fn random() -> Result<Self, Failure> {
        let number = OsRng.try_next_u64();
        number.map(Self).map_err(|error| Failure::new("no randomness").because(&error))
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl FromStr for Run {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let digits = text.bytes().all(|c| c.is_ascii_digit() || matches!(c, b'a'..=b'f'));
        if text.len() != 16 || !digits {
            return Err(());
        }
        u64::from_str_radix(text, 16).map(Self).map_err(drop)
    }
}

impl Serialize for Run {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'a> Deserialize<'a> for Run {
    fn deserialize<D: Deserializer<'a>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(|()| D::Error::custom("no run"))
    }
}

/// The parsed name of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    /// A connection, opened by the end with this run.
    Connection(Run),
    /// The control stream of the near end with this run.
    Hello(Run),
    /// The control stream of the far end, as its answer to that of a near end.
    Welcome { far: Run, near: Run },
}

impl Name {
    /// Parses a name. None: it does not belong to a tunnel.
    pub(crate) fn of(name: &[u8]) -> Option<Self> {
        let name = std::str::from_utf8(name).ok()?;
        if let Some(runs) = name.strip_prefix(CONTROL) {
            return match runs.split_once('/') {
                None => runs.parse().ok().map(Self::Hello),
                Some((far, near)) => {
                    far.parse().ok().zip(near.parse().ok()).map(|(far, near)| Self::Welcome { far, near })
                }
            };
        }
        let (run, number) = name.strip_prefix(CONNECTION)?.split_once('/')?;
        number.parse::<u64>().ok()?;
        run.parse().ok().map(Self::Connection)
    }

    /// The name of the stream in which the near end announces itself.
    pub(crate) fn hello(near: Run) -> Bytes {
        format!("{CONTROL}{near}").into()
    }

    /// The name of the stream in which the far end answers.
    pub(crate) fn welcome(far: Run, near: Run) -> Bytes {
        format!("{CONTROL}{far}/{near}").into()
    }
}

/// Generates the names of the connections that one run opens. Each name is used once.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    run: Run,
    next: Arc<AtomicU64>,
}

impl Names {
    pub(crate) fn new(run: Run) -> Self {
        Self { run, next: Arc::default() }
    }

    pub(crate) fn run(&self) -> Run {
        self.run
    }

    pub(crate) fn next(&self) -> Bytes {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        format!("{CONNECTION}{}/{number}", self.run).into()
    }
}

/// A message as it is sent.
#[derive(Serialize, Deserialize)]
struct Versioned<M> {
    v: u8,
    #[serde(flatten)]
    message: M,
}

/// A message of one kind.
pub(crate) trait Message: Serialize + DeserializeOwned {
    fn encode(&self) -> Bytes {
        // A message has only strings and numbers, so it can always be written as JSON.
        serde_json::to_vec(&Versioned { v: VERSION, message: self }).unwrap_or_default().into()
    }

    /// # Errors
    /// The message is invalid; the refusal is for the other end.
    fn decode(bytes: &[u8]) -> Result<Self, Refusal> {
        let garbled = |error: serde_json::Error| Refusal::new(Code::Malformed, error.to_string());
        // The version is checked first, since another version may have other fields.
        let Versioned { v, message: IgnoredAny } = serde_json::from_slice(bytes).map_err(garbled)?;
        if v != VERSION {
            let text = format!("version {v} is not known here, only version {VERSION}");
            return Err(Refusal::new(Code::Malformed, text));
        }
        let Versioned { message, .. } = serde_json::from_slice(bytes).map_err(garbled)?;
        Ok(message)
    }
}

impl Message for Open {}
impl Message for Answer {}
impl Message for Hello {}
impl Message for Welcome {}

/// The first message of a connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Open {
    /// The run, as in the name of the stream. Because it is repeated here, an end that was restarted cannot take
    /// bytes of a connection for this message.
    pub(crate) run: Run,
    #[serde(flatten)]
    pub(crate) goal: Goal,
    /// This end keeps the connection if the other end does, under this number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) keep: Option<Token>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Goal {
    /// The target that the far end should connect to.
    To(Target),
    /// A connection that both ends keep, and whose link was lost.
    Resume(Token),
    /// The connection arrived at a port that the near end asked for.
    Reverse(Reverse),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Reverse {
    /// The run of the near end that asked.
    pub(crate) near: Run,
    /// The index of the port in its [`Hello`].
    pub(crate) port: usize,
    /// The address that the connection came from.
    pub(crate) from: String,
}

/// The first message back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    Ok(Connected),
    Error(Refusal),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Connected {
    /// The address that the connection leads to.
    pub(crate) address: String,
    /// The run of the end that answers.
    pub(crate) run: Run,
    /// The end that answers keeps the connection.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) kept: bool,
}

/// The reason why there is no connection, or no port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Refusal {
    pub(crate) code: Code,
    /// The reason in words, for people.
    #[serde(default)]
    pub(crate) text: String,
}

impl Refusal {
    pub(crate) fn new(code: Code, text: impl Into<String>) -> Self {
        Self { code, text: text.into() }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Code {
    /// The policy of the far end does not allow the target.
    Denied,
    /// Nothing listens at the target.
    Refused,
    NoSuchHost,
    HostUnreachable,
    NetworkUnreachable,
    TimedOut,
    /// The maximum number of connections is reached.
    Busy,
    /// The message was invalid.
    Malformed,
    /// The run has ended.
    Gone,
    /// Anything else.
    #[serde(other)]
    Failed,
}

/// The message that a near end repeats: it announces the near end, and lists the ports that it asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Hello {
    /// The addresses at which the far end should listen.
    #[serde(default)]
    pub(crate) listen: Vec<SocketAddr>,
}

/// The answer of the far end to each [`Hello`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Welcome {
    /// The result for each requested address.
    pub(crate) listen: Vec<Listened>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Listened {
    Ok(SocketAddr),
    Error(Refusal),
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RUN: Run = Run(0x0123_4567_89ab_cdef);

    #[test]
    fn messages_are_as_the_page_says() {
        let page = include_str!("../../../../docs/tunnel.md");
        let text = |bytes: Bytes| String::from_utf8(bytes.to_vec()).unwrap();
        let open = |goal, keep| text(Open { run: RUN, goal, keep }.encode());
        let reverse = Reverse { near: RUN, port: 0, from: "192.0.2.7:40112".to_owned() };
        let token: Token = "0123456789abcdef0123456789abcdef".parse().unwrap();
        let connected = |kept| Connected { address: "10.0.0.7:5432".to_owned(), run: RUN, kept };
        for message in [
            open(Goal::To("db:5432".parse().unwrap()), None),
            open(Goal::Reverse(reverse), None),
            open(Goal::To("db:5432".parse().unwrap()), Some(token)),
            open(Goal::Resume(token), None),
            text(Answer::Ok(connected(false)).encode()),
            text(Answer::Ok(connected(true)).encode()),
            text(Answer::Error(Refusal::new(Code::Refused, "Connection refused")).encode()),
            text(Hello { listen: vec!["127.0.0.1:8080".parse().unwrap()] }.encode()),
            text(Welcome { listen: vec![Listened::Ok("127.0.0.1:8080".parse().unwrap())] }.encode()),
        ] {
            assert!(page.contains(&message), "not on the page: {message}");
        }
        assert!(page.contains(&format!("`{}`", text(Name::hello(RUN)))));
        assert!(page.contains(&format!("`{}`", text(Name::welcome(RUN, RUN)))));
        assert!(page.contains(&text(Names::new(RUN).next())));
    }

    #[test]
    fn what_is_not_of_this_version_or_makes_no_sense_is_told() {
        let later = br#"{"v":2,"run":"0123456789abcdef","to":"db:1"}"#;
        assert!(Open::decode(later).unwrap_err().text.contains("version 2"));
        for wrong in [
            &b""[..],
            b"GET / HTTP/1.1\r\n",
            br#"{"v":1}"#,
            br#"{"v":1,"run":"0123456789abcdef"}"#,
            br#"{"v":1,"run":"0123456789ABCDEF","to":"db:1"}"#,
            br#"{"v":1,"run":"0123456789abcdef","to":"db"}"#,
            br#"{"v":1,"run":"0123456789abcdef","to":"127.1:80"}"#,
        ] {
            assert_eq!(Open::decode(wrong).unwrap_err().code, Code::Malformed, "{wrong:?}");
        }
        let unknown = br#"{"v":1,"error":{"code":"later","more":1}}"#;
        assert_eq!(Answer::decode(unknown), Ok(Answer::Error(Refusal::new(Code::Failed, ""))));
    }

    #[test]
    fn a_stream_is_known_by_its_name() {
        assert_eq!(Name::of(&Name::hello(RUN)), Some(Name::Hello(RUN)));
        assert_eq!(Name::of(&Name::welcome(RUN, RUN)), Some(Name::Welcome { far: RUN, near: RUN }));
        let names = Names::new(RUN);
        let (first, second) = (names.next(), names.next());
        assert_ne!(first, second);
        assert_eq!(Name::of(&second), Some(Name::Connection(RUN)));
        for other in
            ["tcp/", "tcp/1/1", "tunnel/x", "orders", "tcp/0123456789abcdef/x", "tcp/0123456789abcdef"]
        {
            assert_eq!(Name::of(other.as_bytes()), None, "{other}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_harm(bytes: Vec<u8>) {
            let _ = (Open::decode(&bytes), Answer::decode(&bytes), Hello::decode(&bytes), Welcome::decode(&bytes));
            let _ = Name::of(&bytes);
        }
    }
}
