//! What the two ends say to each other. `docs/tunnel.md` has the fields.

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

use super::target::Target;
use crate::failure::Failure;

/// The version of all messages.
const VERSION: u8 = 1;
/// What the names of streams begin with: of connections, and of those by which a run is kept.
const CONNECTION: &str = "tcp/";
const CONTROL: &str = "tunnel/";
/// Ports that a near end may ask for.
pub(crate) const MOST_LISTENED: usize = 256;

/// One run of an end: a random number, known to both ends and to no one else.
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

/// What the name of a stream says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    /// A connection that the end opened which has this run.
    Connection(Run),
    /// What the near end of this run says.
    Hello(Run),
    /// What the far end says to that of a near end.
    Welcome { far: Run, near: Run },
}

impl Name {
    /// None: it is no name of a tunnel.
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

    /// The stream in which the near end says that it is there.
    pub(crate) fn hello(near: Run) -> Bytes {
        format!("{CONTROL}{near}").into()
    }

    /// The one in which the far end answers that.
    pub(crate) fn welcome(far: Run, near: Run) -> Bytes {
        format!("{CONTROL}{far}/{near}").into()
    }
}

/// Names for the connections that one run opens, each once.
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

/// As it is sent.
#[derive(Serialize, Deserialize)]
struct Versioned<M> {
    v: u8,
    #[serde(flatten)]
    message: M,
}

/// A message of one kind.
pub(crate) trait Message: Serialize + DeserializeOwned {
    fn encode(&self) -> Bytes {
        // Made of strings and numbers, it has a form in JSON.
        serde_json::to_vec(&Versioned { v: VERSION, message: self }).unwrap_or_default().into()
    }

    /// # Errors
    /// What is wrong with it, for the other end.
    fn decode(bytes: &[u8]) -> Result<Self, Refusal> {
        let garbled = |error: serde_json::Error| Refusal::new(Code::Malformed, error.to_string());
        // The version comes first: another may look different.
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
    /// As the name of the stream says: bytes of a connection cannot be taken for this message by an end that was restarted.
    pub(crate) run: Run,
    #[serde(flatten)]
    pub(crate) goal: Goal,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Goal {
    /// The far end is to connect to this.
    To(Target),
    /// It came to a port that the near end asked for.
    Reverse(Reverse),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Reverse {
    /// The run of the near end that asked.
    pub(crate) near: Run,
    /// Which of the ports in its [`Hello`].
    pub(crate) port: usize,
    /// Where the connection came from.
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
    /// What it is connected to.
    pub(crate) address: String,
    /// The run of the end that answers.
    pub(crate) run: Run,
}

/// Why there is no connection, or no port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Refusal {
    pub(crate) code: Code,
    /// For people.
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
    /// The policy of the far end does not name it.
    Denied,
    /// Nothing listens at the target.
    Refused,
    NoSuchHost,
    HostUnreachable,
    NetworkUnreachable,
    TimedOut,
    /// There are as many connections as may be.
    Busy,
    /// The message made no sense.
    Malformed,
    /// The run has ended.
    Gone,
    /// Anything else.
    #[serde(other)]
    Failed,
}

/// What a near end says again and again: that it is there, and what it wants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Hello {
    /// Where the far end is to listen.
    #[serde(default)]
    pub(crate) listen: Vec<SocketAddr>,
}

/// What the far end says to each [`Hello`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Welcome {
    /// What became of each.
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
        let open = |goal| String::from_utf8(Open { run: RUN, goal }.encode().to_vec()).unwrap();
        let reverse = Reverse { near: RUN, port: 0, from: "192.0.2.7:40112".to_owned() };
        let text = |bytes: Bytes| String::from_utf8(bytes.to_vec()).unwrap();
        for message in [
            open(Goal::To("db:5432".parse().unwrap())),
            open(Goal::Reverse(reverse)),
            text(Answer::Ok(Connected { address: "10.0.0.7:5432".to_owned(), run: RUN }).encode()),
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
