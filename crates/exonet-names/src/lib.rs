//! Services that keep [names](exonet::naming).
//!
//! | | Where | Takes names | Decides where an identity lives |
//! |---|---|---|---|
//! | [`FileNames`] | a file of this machine | yes | yes, on this machine |
//! | [`ServerNames`] | a [`NameServer`], which is a node reached by its id | from nodes that prove their id | yes |
//! | [`EtcdNames`] | etcd | from clients that etcd admits | yes |
//! | [`DnsNames`] | SRV and TXT records | no | no |
//!
//! [`open`] opens each of them, given a text such as `file:PATH`.
//!
//! ```
//! use exonet::naming::{Expect, Name, Naming, Record};
//! use exonet::{NodeId, PeerAddr};
//! use exonet_names::FileNames;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path().join("names");
//! let names = FileNames::new(path);
//! let chat: Name = "chat".parse()?;
//! let peer = PeerAddr::new(NodeId([7; 32]), ["192.0.2.7:3966"])?;
//! let record = Record { peer, generation: 0 };
//! names.bind(&chat, &record, Expect::Unbound).await?;
//! assert_eq!(names.look_up(&chat).await?.unwrap().record, record);
//! # Ok(())
//! # }
//! ```

mod choice;
mod client;
#[cfg(feature = "dns")]
mod dns;
#[cfg(feature = "etcd")]
mod etcd;
mod file;
mod server;
mod table;
mod watch;
mod wire;

pub use choice::{OpenError, check, open};
pub use client::ServerNames;
#[cfg(feature = "dns")]
pub use dns::DnsNames;
#[cfg(feature = "etcd")]
pub use etcd::EtcdNames;
pub use file::FileNames;
pub use server::{NameServer, ServerError};
pub use table::{MOST_NAMES, MOST_OF_ONE};

/// Compiles and runs the example of the page on names.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/naming.md")]
struct Page;
