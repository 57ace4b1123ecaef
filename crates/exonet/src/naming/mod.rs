//! Names of services: who has a name now, and where.
//!
//! A node is its key, and addresses are hints. A *name* leads to both, and is looked up again when the peer behind it does not
//! answer: so a service that moves to another machine is found again. What answers is a [`Naming`]: a file, a name server,
//! etcd, DNS; the crate `exonet-names` has these.
//!
//! A name service is believed about addresses, which the handshake with the node proves right or wrong. It is not believed twice
//! about identity: the first id that a node finds behind a name stays the one that it talks to under that name
//! ([`NamingError::OtherNode`]), and `ID@name:chat` says from the start which one that is. So a name service that lies
//! keeps clients from their service, and cannot put itself in its place.
//!
//! ```
//! use exonet::naming::Name;
//! use exonet::{NodeId, PeerAddr};
//!
//! let name: Name = "chat".parse()?;
//! // A peer whose address is looked up by name, and whose id is certain.
//! let peer: PeerAddr = format!("{}@name:chat", NodeId([7; 32])).parse()?;
//! assert_eq!(peer.hints().next().as_deref(), Some("name:chat"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod bound;
mod name;
mod pins;
mod superseded;

use core::future::Future;
use core::pin::Pin;

use exonet_proto::NodeId;

use crate::peer_addr::PeerAddr;

pub use bound::BoundName;
pub use name::{Name, NameError};
pub(crate) use name::{PREFIX, of_hint};
pub(crate) use pins::Pins;
pub use superseded::Superseded;
pub(crate) use superseded::watch;

/// What a [`Naming`] gives: a future behind a pointer, since services are chosen while a program runs.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, NamingError>> + Send + 'a>>;

/// What a name stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The node, and hints about its address. A hint is no name of this kind.
    pub peer: PeerAddr,
    /// How often the node's identity has [moved](crate::state::Term).
    pub generation: u64,
}

/// Which of the records of a name it is: each change makes another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u64);

/// What a look-up gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// What the name stands for.
    pub record: Record,
    /// Of this record.
    pub version: Version,
}

/// What must be so for a change to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// The name stands for nothing.
    Unbound,
    /// Its record is this one.
    Version(Version),
}

/// Where names are kept.
///
/// Every change says what must be so for it ([`Expect`]), and is made as a whole or not at all: of two that want a name at once, one
/// gets it. A service that cannot keep that promise ([`Self::is_authority`]) refuses changes.
pub trait Naming: Send + Sync + 'static {
    /// What `name` stands for. None: nothing.
    ///
    /// # Errors
    /// [`NamingError::Unreachable`], [`NamingError::Damaged`].
    fn look_up<'a>(&'a self, name: &'a Name) -> Answer<'a, Option<Found>>;

    /// Waits until the record of `name` is another one than `since`, and gives it; None: the name stands for nothing. May end early
    /// with what was there before.
    ///
    /// # Errors
    /// As [`Self::look_up`].
    fn watch<'a>(&'a self, name: &'a Name, since: Option<Version>) -> Answer<'a, Option<Found>>;

    /// All names and their records, in the order of the names.
    ///
    /// # Errors
    /// As [`Self::look_up`]; [`NamingError::NoAuthority`]: the service cannot list them.
    fn list(&self) -> Answer<'_, Vec<(Name, Found)>>;

    /// Lets `name` stand for `record` if what is expected is so.
    ///
    /// # Errors
    /// [`NamingError::Changed`]: it is not. [`NamingError::Superseded`]: the identity has moved on. [`NamingError::Denied`].
    fn bind<'a>(&'a self, name: &'a Name, record: &'a Record, expect: Expect) -> Answer<'a, Version>;

    /// Lets `name` stand for nothing, if its record is `version`.
    ///
    /// # Errors
    /// As [`Self::bind`].
    fn unbind<'a>(&'a self, name: &'a Name, version: Version) -> Answer<'a, ()>;

    /// Asks that the identity `id` lives where `term` says, and nowhere else. It is granted once for each generation: to the first
    /// lineage that asks. Whoever asks again with the same term is granted it again.
    ///
    /// # Errors
    /// [`NamingError::Superseded`]: it lives elsewhere. [`NamingError::NoAuthority`].
    fn claim<'a>(&'a self, id: &'a NodeId, term: Term) -> Answer<'a, ()>;

    /// Whether [`Self::bind`] and [`Self::claim`] decide between those that ask at once.
    fn is_authority(&self) -> bool;
}

pub use crate::state::Term;

/// Why a name service did not do what was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NamingError {
    /// The node was built without a name service.
    #[error("this node knows no name service: give it one by `Builder::naming`")]
    NoService,
    /// The name stands for nothing.
    #[error("nothing is called {0:?} there")]
    Unbound(Name),
    /// The name stands for another node than before.
    #[error(
        "{name:?} stands for node {now} now, and stood for {pinned}: one of the two is not the service that is wanted"
    )]
    OtherNode {
        /// The name.
        name: Name,
        /// The node that this node has met under the name.
        pinned: NodeId,
        /// The node that the name service gives now.
        now: NodeId,
    },
    /// The name belongs to another node.
    #[error("{name:?} stands for node {owner}: that one has to give it up first")]
    Taken {
        /// The name.
        name: Name,
        /// Its owner.
        owner: NodeId,
    },
    /// Somebody else has changed the record meanwhile.
    #[error("the record of {0:?} was changed meanwhile by somebody else")]
    Changed(Name),
    /// The identity lives elsewhere: it was moved, and this is what was left behind, or a copy.
    #[error("this identity has moved: it lives elsewhere as generation {generation}")]
    Superseded {
        /// The generation that lives.
        generation: u64,
    },
    /// The service does not decide between those that ask at once, and takes no changes.
    #[error("{0} only answers look-ups: it takes no names")]
    NoAuthority(&'static str),
    /// The service does not let this node do that.
    #[error("the name service refuses: {0}")]
    Denied(String),
    /// The service does not answer.
    #[error("the name service does not answer: {0}")]
    Unreachable(String),
    /// What the service has is damaged.
    #[error("the name service has something that is no record: {0}")]
    Damaged(String),
}
