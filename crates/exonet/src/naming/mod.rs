//! Names of services: which node has a name now, and at which addresses.
//!
//! A node is identified by its key, and addresses are only hints. A *name* leads to both. The node looks it up again
//! when the peer behind it does not answer, and so finds a service that has moved to another machine. A [`Naming`]
//! answers the look-ups: a file, a name server, etcd or DNS. The crate `exonet-names` has these.
//!
//! A node uses the addresses that a name service returns, since the handshake shows whether they are right. But the
//! service cannot change the identity of a peer: the first id that a node finds behind a name stays the only one to
//! which it talks under that name ([`NamingError::OtherNode`]), and `ID@name:chat` fixes the id from the start. So a
//! name service that lies can keep clients away from their service, but cannot impersonate it.
//!
//! ```
//! use exonet::naming::Name;
//! use exonet::{NodeId, PeerAddr};
//!
//! let name: Name = "chat".parse()?;
//! // The id of this peer is fixed; the node looks up its address by name.
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
use core::time::Duration;

use exonet_proto::NodeId;

use crate::peer_addr::PeerAddr;

pub use bound::BoundName;
pub use name::{Name, NameError};
pub(crate) use name::{PREFIX, of_hint};
pub(crate) use pins::Pins;
pub use superseded::Superseded;
pub(crate) use superseded::{claim, watch};

/// What a [`Naming`] returns: a boxed future, since a program chooses its service at run time.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, NamingError>> + Send + 'a>>;

/// The record of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The node, and hints about its address. No hint may be a name of a service.
    pub peer: PeerAddr,
    /// How many times the node's identity has [moved](crate::state::Term).
    pub generation: u64,
}

/// Identifies a record among all records of a name: each change of the record has another version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u64);

/// The result of a look-up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The record of the name.
    pub record: Record,
    /// The version of this record.
    pub version: Version,
}

/// The condition under which a change is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// The name is unbound.
    Unbound,
    /// The current record of the name has this version.
    Version(Version),
}

/// A name service.
///
/// Every change has a condition ([`Expect`]) and is atomic: if two nodes want a name at the same time, one of them
/// gets it. A service that cannot guarantee this refuses changes, and [`Self::is_authority`] says so.
pub trait Naming: Send + Sync + 'static {
    /// Returns the current record of `name`. None: the name is unbound.
    ///
    /// # Errors
    /// [`NamingError::Unreachable`], [`NamingError::Storage`], [`NamingError::Damaged`].
    fn look_up<'a>(&'a self, name: &'a Name) -> Answer<'a, Option<Found>>;

    /// Waits until the record of `name` is another than `since`, and returns the new one; None: the name is unbound.
    /// It may return the old record early.
    ///
    /// # Errors
    /// The errors of [`Self::look_up`].
    fn watch<'a>(&'a self, name: &'a Name, since: Option<Version>) -> Answer<'a, Option<Found>>;

    /// Returns all names and their records, in the order of the names.
    ///
    /// # Errors
    /// Those of [`Self::look_up`]; [`NamingError::NoAuthority`]: the service cannot list its names.
    fn list(&self) -> Answer<'_, Vec<(Name, Found)>>;

    /// Binds `name` to `record` if the condition holds.
    ///
    /// # Errors
    /// [`NamingError::Changed`]: the condition does not hold. [`NamingError::Superseded`]: the identity has moved on.
    /// [`NamingError::Denied`].
    fn bind<'a>(&'a self, name: &'a Name, record: &'a Record, expect: Expect) -> Answer<'a, Version>;

    /// Unbinds `name` if its record has this version.
    ///
    /// # Errors
    /// The errors of [`Self::bind`].
    fn unbind<'a>(&'a self, name: &'a Name, version: Version) -> Answer<'a, ()>;

    /// How long the service keeps the addresses of a name that no node [renews](Self::renew). None: until they are
    /// replaced. A node that runs renews the addresses of its names three times in this time.
    fn lease(&self) -> Option<Duration> {
        None
    }

    /// Says that the node with this record still runs, if the record of `name` has this version. After the first call,
    /// the service forgets the addresses if no further call comes within the [lease](Self::lease). The node keeps the
    /// name, and the service remembers its generation.
    ///
    /// # Errors
    /// The errors of [`Self::bind`].
    fn renew<'a>(&'a self, name: &'a Name, record: &'a Record, version: Version) -> Answer<'a, ()> {
        let _ = (name, record, version);
        Box::pin(async { Ok(()) })
    }

    /// Claims that the identity `id` lives where `term` says, and nowhere else. The service grants each generation
    /// once: to the first lineage that claims it. It grants the same claim again when it is repeated.
    ///
    /// # Errors
    /// [`NamingError::Superseded`]: the identity lives elsewhere. [`NamingError::NoAuthority`].
    fn claim<'a>(&'a self, id: &'a NodeId, term: Term) -> Answer<'a, ()>;

    /// Whether the service is an authority: it decides between concurrent calls of [`Self::bind`] and
    /// [`Self::claim`].
    fn is_authority(&self) -> bool;
}

pub use crate::state::Term;

/// The errors of a name service.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NamingError {
    /// The node was built without a name service.
    #[error("this node knows no name service: make the node with one")]
    NoService,
    /// The name is unbound.
    #[error("nothing is called {0:?} there")]
    Unbound(Name),
    /// The name is bound to another node than before.
    #[error(
        "{name:?} stands for node {now} now, and stood for {pinned}: one of the two is not the service that is wanted"
    )]
    OtherNode {
        /// The name.
        name: Name,
        /// The node that this node found under the name first.
        pinned: NodeId,
        /// The node that the name service returns now.
        now: NodeId,
    },
    /// The name belongs to another node.
    #[error("{name:?} stands for node {owner}: that one has to give it up first")]
    Taken {
        /// The name.
        name: Name,
        /// The node that has the name.
        owner: NodeId,
    },
    /// Another node has changed the record meanwhile.
    #[error("the record of {0:?} was changed meanwhile by somebody else")]
    Changed(Name),
    /// The identity lives elsewhere: it was moved, and this is what was left behind, or a copy.
    #[error("this identity has moved: it lives elsewhere as generation {generation}")]
    Superseded {
        /// The generation that lives.
        generation: u64,
    },
    /// The service is no authority, and accepts no changes.
    #[error("{0} only answers look-ups: it takes no names")]
    NoAuthority(&'static str),
    /// The service does not allow this node to do that.
    #[error("the name service refuses: {0}")]
    Denied(String),
    /// The service does not answer.
    #[error("the name service does not answer: {0}")]
    Unreachable(String),
    /// The service cannot read or write its data. The value says what it cannot do, and why.
    #[error("the name service cannot use its file: {0}")]
    Storage(String),
    /// The node answers, and serves no names.
    #[error("that node is no name server")]
    NoServer,
    /// The data of the service is damaged.
    #[error("the name service has something that is no record: {0}")]
    Damaged(String),
}
