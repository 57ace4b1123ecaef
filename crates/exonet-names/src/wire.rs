//! The protocol between a name server and its clients: calls whose bodies are JSON.

use exonet::NodeId;
use exonet::naming::{Expect, Found, Name, NamingError, Record, Term, Version};
use serde::{Deserialize, Serialize};

/// The method that a name server serves.
pub(crate) const METHOD: &str = "exonet.names.1";
/// The longest request and reply, in bytes.
pub(crate) const LONGEST: u64 = 64 * 1024;
/// How long a server lets a watcher wait for a change.
pub(crate) const WATCH: std::time::Duration = std::time::Duration::from_secs(20);
/// The number of names in one list reply.
pub(crate) const PAGE: usize = 256;

/// A request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Request {
    LookUp {
        name: String,
    },
    Watch {
        name: String,
        since: Option<u64>,
    },
    /// The names after this one, in order.
    List {
        after: Option<String>,
    },
    /// A change: see [`Signed`].
    Change {
        signed: Signed,
    },
}

/// A change, with the proof that the node which it concerns has asked for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Signed {
    /// The node to which the proof belongs.
    pub(crate) by: String,
    /// A [`Change`] as text. The proof covers the id of the caller and this text.
    pub(crate) change: String,
    pub(crate) proof: [u8; 16],
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Change {
    Bind {
        name: String,
        peer: String,
        generation: u64,
        /// None: the name must be unbound.
        version: Option<u64>,
    },
    Unbind {
        name: String,
        version: u64,
    },
    Claim {
        generation: u64,
        lineage: [u8; 8],
    },
}

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub(crate) enum Reply {
    Found {
        peer: String,
        generation: u64,
        version: u64,
    },
    Unbound,
    Names {
        names: Vec<Named>,
    },
    Bound {
        version: u64,
    },
    Done,
    /// Nothing was changed.
    Taken {
        owner: String,
    },
    Changed,
    Superseded {
        generation: u64,
    },
    Denied {
        why: String,
    },
    /// The server cannot store the change.
    Failed {
        why: String,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Named {
    pub(crate) name: String,
    pub(crate) peer: String,
    pub(crate) generation: u64,
    pub(crate) version: u64,
}

/// The bytes that the proof of a change covers. The proof is valid for one caller, which sends a change once.
pub(crate) fn said<'a>(caller: &'a NodeId, change: &'a str) -> [&'a [u8]; 3] {
    [b"exonet names", &caller.0, change.as_bytes()]
}

impl Change {
    pub(crate) fn bind(name: &Name, record: &Record, expect: Expect) -> Self {
        let version = match expect {
            Expect::Unbound => None,
            Expect::Version(version) => Some(version.0),
        };
        let (peer, generation) = (record.peer.to_string(), record.generation);
        Self::Bind { name: name.to_string(), peer, generation, version }
    }

    pub(crate) const fn claim(term: Term) -> Self {
        Self::Claim { generation: term.generation, lineage: term.lineage }
    }
}

impl Reply {
    pub(crate) fn of(found: Option<&Found>) -> Self {
        found.map_or(Self::Unbound, |Found { record, version }| Self::Found {
            peer: record.peer.to_string(),
            generation: record.generation,
            version: version.0,
        })
    }

    pub(crate) fn of_error(error: NamingError) -> Self {
        match error {
            NamingError::Taken { owner, .. } => Self::Taken { owner: owner.to_string() },
            NamingError::Changed(_) => Self::Changed,
            NamingError::Unbound(_) => Self::Unbound,
            NamingError::Superseded { generation } => Self::Superseded { generation },
            NamingError::Denied(why) => Self::Denied { why },
            NamingError::Storage(why) => Self::Failed { why },
            other => Self::Failed { why: other.to_string() },
        }
    }

    /// The result of a look-up of `name`; an error if this is another kind of reply.
    pub(crate) fn found(self, name: &Name) -> Result<Option<Found>, NamingError> {
        match self {
            Self::Unbound => Ok(None),
            Self::Found { peer, generation, version } => {
                let damaged = |e: &dyn std::fmt::Display| NamingError::Damaged(e.to_string());
                let record = Record { peer: peer.parse().map_err(|e| damaged(&e))?, generation };
                Ok(Some(Found { record, version: Version(version) }))
            }
            other => Err(other.error(name)),
        }
    }

    /// The error in this reply, which is not of the expected kind.
    pub(crate) fn error(self, name: &Name) -> NamingError {
        let damaged = |what: &str| NamingError::Damaged(format!("the server answered with {what}"));
        match self {
            Self::Taken { owner } => match owner.parse() {
                Ok(owner) => NamingError::Taken { name: name.clone(), owner },
                Err(_) => damaged("an owner that is no id"),
            },
            Self::Changed => NamingError::Changed(name.clone()),
            Self::Unbound => NamingError::Unbound(name.clone()),
            Self::Superseded { generation } => NamingError::Superseded { generation },
            Self::Denied { why } => NamingError::Denied(why),
            Self::Failed { why } => NamingError::Storage(why),
            Self::Found { .. } | Self::Names { .. } | Self::Bound { .. } | Self::Done => {
                damaged("the answer to another question")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Other implementations may speak this protocol, so its text must not change by accident.
    #[test]
    fn it_is_written_like_this() {
        for text in [
            r#"{"do":"look_up","name":"chat"}"#,
            r#"{"do":"watch","name":"chat","since":3}"#,
            r#"{"do":"list","after":null}"#,
        ] {
            let read: Request = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::to_string(&read).unwrap(), text);
        }
        let text = r#"{"do":"bind","name":"chat","peer":"p","generation":1,"version":null}"#;
        let read: Change = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
        let text = r#"{"is":"found","peer":"p","generation":0,"version":2}"#;
        let read: Reply = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
    }

    proptest! {
        #[test]
        fn nothing_that_comes_upsets_a_reader(text: String) {
            let _ = serde_json::from_str::<Request>(&text);
            let _ = serde_json::from_str::<Change>(&text);
            if let Ok(reply) = serde_json::from_str::<Reply>(&text) {
                let _ = reply.found(&"chat".parse().unwrap());
            }
        }
    }
}
