//! The rules that all name services keep, and what tests of them share.
#![allow(dead_code, reason = "not every test needs everything")]

use exonet::naming::{Expect, Name, Naming, NamingError, Record, Term};
use exonet::state::SecretKey;
use exonet::{NodeId, PeerAddr};

pub(crate) fn name(text: &str) -> Name {
    text.parse().unwrap()
}

pub(crate) fn key(n: u8) -> SecretKey {
    SecretKey::from_bytes([n; 32])
}

pub(crate) fn record(of: NodeId, port: u16, generation: u64) -> Record {
    Record { peer: PeerAddr::new(of, [format!("127.0.0.1:{port}")]).unwrap(), generation }
}

pub(crate) fn term(generation: u64, lineage: u8) -> Term {
    Term { generation, lineage: [lineage; 8] }
}

/// The rules, as one node and then another one meet them: `names` speak for the nodes of the keys 1 and 2.
pub(crate) async fn rules(names: [&dyn Naming; 2]) {
    let [one, two] = names;
    let (chat, ids) = (name("chat"), [1, 2].map(|n| key(n).node_id()));
    assert_eq!(one.look_up(&chat).await, Ok(None));
    let first = one.bind(&chat, &record(ids[0], 1, 0), Expect::Unbound).await.unwrap();
    let found = two.look_up(&chat).await.unwrap().unwrap();
    assert_eq!((found.record, found.version), (record(ids[0], 1, 0), first));
    let taken = two.bind(&chat, &record(ids[1], 2, 0), Expect::Unbound).await;
    assert_eq!(taken, Err(NamingError::Taken { name: chat.clone(), owner: ids[0] }));
    let changed = Err(NamingError::Changed(chat.clone()));
    assert_eq!(one.bind(&chat, &record(ids[0], 3, 0), Expect::Unbound).await, changed);

    // A watcher hears of the next record.
    let (watched, rebound) = tokio::join!(two.watch(&chat, Some(first)), async {
        one.bind(&chat, &record(ids[0], 3, 0), Expect::Version(first)).await
    });
    let second = rebound.unwrap();
    assert_eq!(watched.unwrap().unwrap().version, second);

    // The node moves: what it left behind is not heard any more.
    one.claim(&ids[0], Term::default()).await.unwrap();
    one.claim(&ids[0], term(1, 7)).await.unwrap();
    one.claim(&ids[0], term(1, 7)).await.unwrap();
    let superseded = NamingError::Superseded { generation: 1 };
    assert_eq!(one.claim(&ids[0], term(1, 8)).await, Err(superseded.clone()));
    assert_eq!(one.claim(&ids[0], Term::default()).await, Err(superseded.clone()));
    let left = one.bind(&chat, &record(ids[0], 4, 0), Expect::Version(second)).await;
    assert_eq!(left, Err(superseded));
    let third = one.bind(&chat, &record(ids[0], 5, 1), Expect::Version(second)).await.unwrap();

    let listed = two.list().await.unwrap();
    assert_eq!(
        listed.iter().map(|(name, found)| (name, found.version)).collect::<Vec<_>>(),
        [(&chat, third)]
    );
    assert!(one.unbind(&chat, second).await.is_err(), "an old look");
    one.unbind(&chat, third).await.unwrap();
    assert_eq!(two.look_up(&chat).await, Ok(None));
    two.bind(&chat, &record(ids[1], 2, 0), Expect::Unbound).await.unwrap();
}
