//! Effects of real links on datagrams: their size, and their marks. The tests use their own networks, which only root
//! may make.
#![cfg(target_os = "linux")]

use std::sync::mpsc;

use crate::common::host::Host;
use crate::common::{bytes, skipped, within};
use exonet::{Allow, Message, Node, Outcome};

/// Hosts without cables.
pub(super) fn hosts<const N: usize>() -> Option<[Host; N]> {
    let hosts = [(); N].map(|()| Host::new());
    if hosts.iter().any(Option::is_none) {
        skipped("only root may make networks");
        return None;
    }
    Some(hosts.map(Option::unwrap))
}

pub(super) fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(within(work))
}

/// Two hosts with a router between them: 10.7.1.1 at `a0`, and 10.7.2.1 at `b0`. The router has 10.7.1.2 at `r0` and
/// 10.7.2.2 at `r1`.
pub(super) fn routed(mtu: u32) -> Option<[Host; 3]> {
    let [one, router, two] = hosts()?;
    one.cable("a0", "10.7.1.1", &router, "r0", "10.7.1.2", mtu);
    two.cable("b0", "10.7.2.1", &router, "r1", "10.7.2.2", mtu);
    router.run(|| std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap());
    one.ip("route add default via 10.7.1.2".into());
    two.ip("route add default via 10.7.2.2".into());
    Some([one, router, two])
}

/// Sends two thousand messages of 20,000 bytes from one host to the other, and calls `halfway` in the middle. Returns
/// the size of datagrams at the end.
fn bulk(from: &Host, to: &Host, bind: &'static str, halfway: impl FnOnce()) -> u16 {
    let (tell, told) = mpsc::channel();
    let received = to.begin(move || {
        block_on(async {
            let node = Node::builder(Allow::anyone()).bind(bind).build().await.unwrap();
            tell.send(node.peer_addr()).unwrap();
            for _ in 0..2_000 {
                assert_eq!(
                    node.at_most_once().recv().await.unwrap().body.bytes(20_000).await.unwrap(),
                    bytes(20_000)
                );
            }
            node.close(std::time::Duration::from_secs(5)).await;
        });
    });
    let address = told.recv().unwrap();
    let (pause, paused) = mpsc::channel();
    let (resume, resumed) = mpsc::channel::<()>();
    let sent = from.begin(move || {
        block_on(async {
            let node = Node::builder(Allow::anyone()).build().await.unwrap();
            let mut mtu = 0;
            for half in 0..2 {
                let mut receipts = Vec::new();
                for _ in 0..1_000 {
                    receipts.push(node.peer(&address).send(Message::new(bytes(20_000))).await.unwrap());
                }
                for receipt in receipts {
                    assert_eq!(receipt.await.outcome, Outcome::Delivered);
                }
                mtu = node.peer(address.id).stats().unwrap().mtu;
                if half == 0 {
                    pause.send(()).unwrap();
                    resumed.recv().unwrap();
                }
            }
            mtu
        })
    });
    paused.recv().unwrap();
    halfway();
    resume.send(()).unwrap();
    received.recv().unwrap();
    sent.recv().unwrap()
}

#[test]
fn datagrams_grow_to_what_the_link_carries_and_bear_marks() {
    for (mtu, sizes) in [(1_500, 1_452..=1_472), (9_000, 8_952..=8_972), (65_535, 65_000..=65_000)] {
        let Some([one, two]) = hosts() else { return };
        one.cable("a0", "10.7.0.1", &two, "b0", "10.7.0.2", mtu);
        let found = bulk(&one, &two, "10.7.0.2:7000", || ());
        assert!(sizes.contains(&found), "{mtu}: {found}");
        for host in [&one, &two] {
            let [marked, bare] = host.marks();
            assert!(marked > bare, "{mtu}: {marked} marked, {bare} not");
        }
    }
}

#[test]
fn a_first_link_that_narrows_is_obeyed() {
    let Some([one, two]) = hosts() else { return };
    one.cable("a0", "10.7.0.1", &two, "b0", "10.7.0.2", 9_000);
    let found = bulk(&one, &two, "10.7.0.2:7000", || one.set("a0", "mtu 1500"));
    assert!((1_452..=1_472).contains(&found), "{found}");
}

#[test]
fn a_path_that_narrows_behind_the_first_link_is_found_out() {
    let Some([one, router, two]) = routed(9_000) else { return };
    let found = bulk(&one, &two, "10.7.2.1:7000", || router.set("r1", "mtu 1500"));
    assert!((1_452..=1_472).contains(&found), "{found}");
}
