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

use exonet::naming::{Expect, Naming, NamingError};
use exonet_names::EtcdNames;

use crate::common::{key, name, record, rules};
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

#[tokio::test]
async fn an_etcd_that_is_gone_is_named() {
    let names = EtcdNames::new("http://127.0.0.1:9");
    let error = names.look_up(&name("chat")).await.unwrap_err();
    assert!(matches!(&error, NamingError::Unreachable(why) if why.contains("127.0.0.1:9")), "{error}");
}
