//! Names in a real etcd, which the test starts in a folder and on a port of its own.
#![cfg(all(feature = "etcd", unix))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "a test that cannot go on has failed"
)]

mod common;
#[path = "../../exonet/tests/common/free.rs"]
mod free;

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use exonet::naming::{Answer, Expect, Found, Name, Naming, NamingError, Record, Term, Version};
use exonet::{Allow, Node, NodeId};
use exonet_names::EtcdNames;
use tokio::sync::watch;

use crate::common::{key, name, record, rules, term};
use crate::free::free_address;

struct Etcd {
    process: Child,
    url: String,
    _place: tempfile::TempDir,
}

impl Etcd {
    /// None: there is no etcd on this machine.
    async fn start() -> Option<Self> {
        if Command::new("etcd").arg("--version").stdout(Stdio::null()).status().is_err() {
            assert!(std::env::var_os("EXONET_NO_SKIPS").is_none(), "etcd is not installed");
            println!("SKIPPED: etcd is not installed");
            return None;
        }
        let place = tempfile::tempdir().unwrap();
        let [url, peers] = [(); 2].map(|()| format!("http://{}", free_address()));
        let process = Command::new("etcd")
            .args(["--name", "one", "--listen-client-urls", &url, "--advertise-client-urls", &url])
            .args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers])
            .args(["--initial-cluster", &format!("one={peers}"), "--log-level", "error"])
            .arg("--data-dir")
            .arg(place.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let etcd = Self { process, url, _place: place };
        let (names, until) = (etcd.names(), Instant::now() + Duration::from_secs(60));
        while let Err(error) = names.look_up(&name("none")).await {
            assert!(Instant::now() < until, "etcd does not come up: {error}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Some(etcd)
    }

    fn names(&self) -> EtcdNames {
        EtcdNames::new(&self.url)
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[tokio::test]
async fn etcd_keeps_the_rules() {
    let Some(etcd) = Etcd::start().await else { return };
    rules([&etcd.names(), &etcd.names()]).await;
}

#[tokio::test]
async fn of_many_that_want_a_name_at_once_one_gets_it() {
    let Some(etcd) = Etcd::start().await else { return };
    let chat = name("chat");
    let wants = (1..=8).map(|n| {
        let (names, chat) = (etcd.names(), chat.clone());
        tokio::spawn(async move { names.bind(&chat, &record(key(n).node_id(), 1, 0), Expect::Unbound).await })
    });
    let mut got = 0;
    for want in wants.collect::<Vec<_>>() {
        match want.await.unwrap() {
            Ok(_) => got += 1,
            Err(NamingError::Changed(_) | NamingError::Taken { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(got, 1);
}

/// Names in etcd that count how often they are renewed.
struct Counted {
    names: EtcdNames,
    renewed: watch::Sender<u32>,
    /// Whether the record of the name changes before it is renewed for the first time.
    changes: bool,
}

impl Naming for Counted {
    fn look_up<'a>(&'a self, name: &'a Name) -> Answer<'a, Option<Found>> {
        self.names.look_up(name)
    }

    fn watch<'a>(&'a self, name: &'a Name, since: Option<Version>) -> Answer<'a, Option<Found>> {
        self.names.watch(name, since)
    }

    fn list(&self) -> Answer<'_, Vec<(Name, Found)>> {
        self.names.list()
    }

    fn bind<'a>(&'a self, name: &'a Name, record: &'a Record, expect: Expect) -> Answer<'a, Version> {
        self.names.bind(name, record, expect)
    }

    fn unbind<'a>(&'a self, name: &'a Name, version: Version) -> Answer<'a, ()> {
        self.names.unbind(name, version)
    }

    fn lease(&self) -> Option<Duration> {
        self.names.lease()
    }

    fn renew<'a>(&'a self, name: &'a Name, record: &'a Record, version: Version) -> Answer<'a, ()> {
        self.renewed.send_modify(|renewed| *renewed += 1);
        let changes = self.changes && *self.renewed.borrow() == 1;
        Box::pin(async move {
            if changes {
                self.names.bind(name, record, Expect::Version(version)).await?;
            }
            self.names.renew(name, record, version).await
        })
    }

    fn claim<'a>(&'a self, id: &'a NodeId, term: Term) -> Answer<'a, ()> {
        self.names.claim(id, term)
    }

    fn is_authority(&self) -> bool {
        self.names.is_authority()
    }
}

/// A look-up finds the address of a node as long as the node runs. After that, the node still has its name, and the service
/// still knows its generation.
#[tokio::test]
async fn the_address_of_a_node_that_is_gone_is_forgotten_and_nothing_else() {
    let Some(etcd) = Etcd::start().await else { return };
    let names = etcd.names().lease_for(Duration::from_secs(2));
    let (renewed, mut renewals) = watch::channel(0);
    let counted = Counted { names: names.clone(), renewed, changes: false };
    let (chat, other) = (name("chat"), name("other"));
    let node = Node::builder(Allow::anyone()).bind("127.0.0.1:0").naming(counted).build().await.unwrap();
    let (id, at) = (node.id(), node.local_addr().to_string());
    drop(node.bind_name(&chat, [&at]).await.unwrap());
    let looks = etcd.names();
    let live = looks.look_up(&chat).await.unwrap().unwrap();
    assert_eq!(live.record.peer.hints().collect::<Vec<_>>(), [at]);
    // After six renewals, the lease has lasted twice as long as it was granted for.
    renewals.wait_for(|renewed| *renewed > 6).await.unwrap();
    assert_eq!(looks.look_up(&chat).await.unwrap().unwrap(), live);
    node.close(Duration::ZERO).await;
    // A watcher sees that the address is gone.
    let mut gone = live.clone();
    while gone.version == live.version {
        gone = looks.watch(&chat, Some(live.version)).await.unwrap().unwrap();
    }
    assert_eq!((gone.record.peer.id, gone.record.generation), (id, 0));
    assert_eq!(gone.record.peer.hints().count(), 0);
    assert_eq!(looks.list().await.unwrap(), [(chat.clone(), gone)]);
    // No other node gets the name, and an earlier generation cannot bind it.
    let taken = looks.bind(&chat, &record(key(2).node_id(), 2, 0), Expect::Unbound).await;
    assert_eq!(taken, Err(NamingError::Taken { name: chat.clone(), owner: id }));
    looks.claim(&id, term(1, 7)).await.unwrap();
    let superseded = Err(NamingError::Superseded { generation: 1 });
    assert_eq!(looks.bind(&chat, &record(id, 4, 0), Expect::Version(live.version)).await, superseded);
    assert_eq!(looks.bind(&other, &record(id, 4, 0), Expect::Unbound).await, superseded);
    // The former place cannot bring its address back.
    looks.bind(&chat, &record(id, 5, 1), Expect::Version(live.version)).await.unwrap();
    let late = names.renew(&chat, &record(id, 4, 0), live.version).await;
    assert_eq!(late, Err(NamingError::Superseded { generation: 1 }));
    assert_eq!(looks.look_up(&chat).await.unwrap().unwrap().record, record(id, 5, 1));
}

/// etcd forgets the lease while the node runs, as in an outage. The node brings its address back.
#[tokio::test]
async fn a_lease_that_lapsed_is_taken_anew() {
    let Some(etcd) = Etcd::start().await else { return };
    let (names, chat, id) = (etcd.names().lease_for(Duration::from_secs(1)), name("chat"), key(1).node_id());
    let version = names.bind(&chat, &record(id, 1, 0), Expect::Unbound).await.unwrap();
    // An address that was never renewed has no lease, and stays.
    assert_eq!(names.look_up(&chat).await.unwrap().unwrap().record, record(id, 1, 0));
    names.renew(&chat, &record(id, 1, 0), version).await.unwrap();
    while names.look_up(&chat).await.unwrap().unwrap().version == version {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    names.renew(&chat, &record(id, 1, 0), version).await.unwrap();
    let again = names.look_up(&chat).await.unwrap().unwrap();
    assert_eq!((again.record, again.version), (record(id, 1, 0), version));
    names.unbind(&chat, version).await.unwrap();
    assert_eq!(names.look_up(&chat).await, Ok(None));
    assert_eq!(names.renew(&chat, &record(id, 1, 0), version).await, Err(NamingError::Changed(chat.clone())));
    assert_eq!(names.look_up(&chat).await, Ok(None));
}

/// A node can renew only the present record of a name. It does not matter which node replaced the record before.
#[tokio::test]
async fn a_record_that_was_replaced_is_not_renewed() {
    let Some(etcd) = Etcd::start().await else { return };
    let (names, chat, id) = (etcd.names(), name("chat"), key(1).node_id());
    let changed = Err(NamingError::Changed(chat.clone()));
    let first = names.bind(&chat, &record(id, 1, 0), Expect::Unbound).await.unwrap();
    names.renew(&chat, &record(id, 1, 0), first).await.unwrap();
    let second = names.bind(&chat, &record(id, 2, 0), Expect::Version(first)).await.unwrap();
    names.renew(&chat, &record(id, 2, 0), second).await.unwrap();
    assert_eq!(names.renew(&chat, &record(id, 1, 0), first).await, changed);
    // The lease of the second record stays.
    names.renew(&chat, &record(id, 2, 0), second).await.unwrap();
    let elsewhere = etcd.names();
    let third = elsewhere.bind(&chat, &record(id, 3, 0), Expect::Version(second)).await.unwrap();
    assert_eq!(names.renew(&chat, &record(id, 2, 0), second).await, changed);
    elsewhere.renew(&chat, &record(id, 3, 0), third).await.unwrap();
    assert_eq!(names.look_up(&chat).await.unwrap().unwrap().record, record(id, 3, 0));
}

/// Another place claims an identity, and has not bound its name yet. The former place cannot renew the address.
#[tokio::test]
async fn the_former_place_renews_no_address_once_another_place_has_claimed_the_identity() {
    let Some(etcd) = Etcd::start().await else { return };
    let elsewhere = etcd.names();
    let superseded = Err(NamingError::Superseded { generation: 1 });
    // One identity has a lease already. The other one would get its first.
    let (with, without) = (key(1).node_id(), key(2).node_id());
    for (id, has_lease) in [(with, true), (without, false)] {
        let (names, chat) = (etcd.names(), name(&format!("chat{}", u8::from(has_lease))));
        let version = names.bind(&chat, &record(id, 1, 0), Expect::Unbound).await.unwrap();
        if has_lease {
            names.renew(&chat, &record(id, 1, 0), version).await.unwrap();
        }
        elsewhere.claim(&id, term(1, 7)).await.unwrap();
        assert_eq!(names.renew(&chat, &record(id, 1, 0), version).await, superseded);
        // The place that has the identity now binds the name and renews its address.
        let rebound = elsewhere.bind(&chat, &record(id, 2, 1), Expect::Version(version)).await.unwrap();
        elsewhere.renew(&chat, &record(id, 2, 1), rebound).await.unwrap();
        assert_eq!(names.renew(&chat, &record(id, 1, 0), version).await, superseded);
        assert_eq!(elsewhere.look_up(&chat).await.unwrap().unwrap().record, record(id, 2, 1));
    }
}

/// If a record is replaced before its first renewal, the node binds the name again.
#[tokio::test]
async fn a_name_whose_record_changes_meanwhile_is_bound_again() {
    let Some(etcd) = Etcd::start().await else { return };
    let (renewed, chat) = (watch::channel(0).0, name("chat"));
    let counted = Counted { names: etcd.names(), renewed, changes: true };
    let node = Node::builder(Allow::anyone()).bind("127.0.0.1:0").naming(counted).build().await.unwrap();
    let at = node.local_addr().to_string();
    drop(node.bind_name(&chat, [&at]).await.unwrap());
    let found = etcd.names().look_up(&chat).await.unwrap().unwrap();
    assert_eq!(found.record.peer.hints().collect::<Vec<_>>(), [at]);
    node.close(Duration::ZERO).await;
}

/// A node renews three times in the time of a lease, so a lease cannot be zero.
#[test]
fn a_lease_lasts_a_second_at_least() {
    let names = EtcdNames::new("http://127.0.0.1:9").lease_for(Duration::ZERO);
    assert_eq!(names.lease(), Some(Duration::from_secs(1)));
}

#[tokio::test]
async fn an_etcd_that_is_gone_is_named() {
    let names = EtcdNames::new("http://127.0.0.1:9");
    let error = names.look_up(&name("chat")).await.unwrap_err();
    assert!(matches!(&error, NamingError::Unreachable(why) if why.contains("127.0.0.1:9")), "{error}");
}
