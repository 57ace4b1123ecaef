//! An identity that moves to another place, with everything in flight.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use exonet::error::StateError;
use exonet::state::{self, Ahead, Ceded, Landing, SecretKey, StateDir, Term};
use exonet::{Allow, Node, NodeId, Outcome, PeerAddr};
use tempfile::TempDir;

const LONG: Duration = Duration::from_secs(10);

async fn stored(path: &Path) -> Node {
    Node::builder(Allow::anyone()).state_dir(path).bind("127.0.0.1:0").build().await.unwrap()
}

async fn ephemeral() -> Node {
    Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await.unwrap()
}

fn target() -> SecretKey {
    SecretKey::from_bytes([42; 32])
}

/// Cedes the identity in the directory at `from`: returns load and deed.
fn leave(from: &Path, application: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let dir = StateDir::open(from).unwrap();
    let load = dir.checkpoint(&target().node_id(), &application.to_vec()).unwrap();
    let deed = dir.cede(&load).unwrap();
    (load.as_bytes().to_vec(), deed.as_bytes().to_vec())
}

/// Moves the identity at `from` to `to`.
fn carry(from: &Path, to: &Path) -> Term {
    let (load, deed) = leave(from, b"");
    state::restore::<Vec<u8>>(to, &target(), &load, &deed).unwrap().term
}

/// Makes each know where the other is.
async fn meet(alice: &Node, bob: &Node) {
    let receipt = alice.peer(bob.peer_addr()).send("hello").await.unwrap();
    bob.recv().await.unwrap().ack().unwrap();
    assert_eq!(receipt.await.outcome, Outcome::Delivered);
}

async fn body(delivery: &mut exonet::Delivery) -> String {
    String::from_utf8(delivery.body_mut().bytes(100).await.unwrap().to_vec()).unwrap()
}

#[tokio::test]
async fn what_is_under_way_goes_on_elsewhere() {
    let place = TempDir::new().unwrap();
    let (here, there) = (place.path().join("here"), place.path().join("there"));
    let bob = stored(&here).await;
    let alice = ephemeral().await;
    let to_bob = alice.peer(bob.peer_addr());
    let mut receipts = Vec::new();
    for n in 0..100 {
        receipts.push(to_bob.send(n.to_string()).await.unwrap());
    }
    // A message of his own, which is not taken yet; and forty of hers are taken.
    let carol = ephemeral().await;
    let to_carol = PeerAddr::new(carol.id(), [carol.local_addr().to_string()]).unwrap();
    let own = bob.peer(&to_carol).send("from bob").await.unwrap();
    let mut taken = Vec::new();
    for _ in 0..40 {
        let mut delivery = bob.recv().await.unwrap();
        taken.push(body(&mut delivery).await);
        delivery.ack().unwrap();
    }
    let was = bob.local_addr();
    bob.freeze(Duration::ZERO).await;
    assert_eq!(own.await.outcome, Outcome::Kept);
    drop(bob);

    let term = carry(&here, &there);
    assert_eq!(term.generation, 1);
    let bob = stored(&there).await;
    assert_ne!(bob.local_addr(), was);
    // He finds her: she need not be told.
    bob.greet();
    while taken.len() < 100 {
        let mut delivery = bob.recv().await.unwrap();
        taken.push(body(&mut delivery).await);
        delivery.ack().unwrap();
    }
    for receipt in receipts {
        assert_eq!(receipt.await.outcome, Outcome::Delivered);
    }
    taken.sort_by_key(|n| n.parse::<u32>().unwrap());
    assert_eq!(taken, (0..100).map(|n| n.to_string()).collect::<Vec<_>>());
    let mut delivery = carol.recv().await.unwrap();
    assert_eq!(body(&mut delivery).await, "from bob");
    delivery.ack().unwrap();
    assert!(alice.close(LONG).await.is_empty());
    assert!(bob.close(LONG).await.is_empty());
}

#[tokio::test]
async fn what_was_left_behind_does_not_open() {
    let place = TempDir::new().unwrap();
    let (here, there) = (place.path().join("here"), place.path().join("there"));
    let id = {
        let bob = stored(&here).await;
        bob.freeze(Duration::ZERO).await;
        bob.id()
    };
    let (load, deed) = leave(&here, b"state of the application");
    assert!(matches!(StateDir::open(&here), Err(StateError::Moved { to, .. }) if to == target().node_id()));
    let built = Node::builder(Allow::anyone()).state_dir(&here).build().await.map(drop);
    assert!(built.unwrap_err().to_string().contains("has moved"));
    // The deed can be made again, for a target that has not received it.
    let Ceded { to, generation, .. } = state::ceded(&here).unwrap().unwrap();
    assert_eq!((to, generation), (target().node_id(), 1));
    let again = state::deed(&here).unwrap();
    let restored = state::restore::<Vec<u8>>(&there, &target(), &load, again.as_bytes()).unwrap();
    assert_eq!((restored.id, restored.application.as_slice()), (id, &b"state of the application"[..]));
    assert_eq!(StateDir::open(&there).unwrap().term(), restored.term);
    // It cannot be restored twice at one place.
    let twice = state::restore::<Vec<u8>>(&there, &target(), &load, &deed);
    assert!(matches!(twice, Err(StateError::Exists { .. })));
}

#[tokio::test]
async fn peers_that_have_met_a_later_generation_talk_to_no_earlier_one() {
    let place = TempDir::new().unwrap();
    let [here, copy, there] = ["here", "copy", "there"].map(|name| place.path().join(name));
    let bob = stored(&here).await;
    let alice = ephemeral().await;
    let receipt = alice.peer(bob.peer_addr()).send("one").await.unwrap();
    bob.recv().await.unwrap().ack().unwrap();
    assert_eq!(receipt.await.outcome, Outcome::Delivered);
    bob.freeze(Duration::ZERO).await;
    drop(bob);
    // A copy is kept of the state before the move.
    copy_directory(&here, &copy);
    carry(&here, &there);
    let bob = stored(&there).await;
    let to_bob = alice.peer(bob.peer_addr());
    let receipt = to_bob.send("two").await.unwrap();
    bob.recv().await.unwrap().ack().unwrap();
    assert_eq!(receipt.await.outcome, Outcome::Delivered);

    // The copy is started, and sends a message: it is told that it is a copy, and the live one continues.
    let left = stored(&copy).await;
    let said = left.peer(alice.peer_addr()).send("from the past").await.unwrap();
    assert_ne!(said.await.outcome, Outcome::Delivered);
    assert_eq!(left.peer(alice.id()).conflict(), Some(exonet::stats::Conflict::Moved));
    let receipt = to_bob.send("three").await.unwrap();
    bob.recv().await.unwrap().ack().unwrap();
    assert_eq!(receipt.await.outcome, Outcome::Delivered);
    assert_eq!(alice.peer(bob.id()).conflict(), None);
}

/// One state and its deed are restored at two places, where no name service decides. Alice has met the first.
#[tokio::test]
async fn of_two_places_of_one_checkpoint_a_peer_keeps_to_the_one_that_it_has_met() {
    let place = TempDir::new().unwrap();
    let [here, first, second] = ["here", "first", "second"].map(|name| place.path().join(name));
    let bob = stored(&here).await;
    let alice = ephemeral().await;
    meet(&alice, &bob).await;
    bob.freeze(Duration::ZERO).await;
    drop(bob);
    let (load, deed) = leave(&here, b"");
    let terms =
        [&first, &second].map(|to| state::restore::<Vec<u8>>(to, &target(), &load, &deed).unwrap().term);
    assert_eq!(terms[0].generation, terms[1].generation);
    let bob = stored(&first).await;
    let to_bob = alice.peer(bob.peer_addr());
    let receipt = to_bob.send("one").await.unwrap();
    bob.recv().await.unwrap().ack().unwrap();
    assert_eq!(receipt.await.outcome, Outcome::Delivered);

    // The second place has started more often: it would pass for a later life of the first.
    let other = stored(&second).await;
    other.freeze(Duration::ZERO).await;
    drop(other);
    let other = stored(&second).await;
    let said = other.peer(alice.peer_addr()).send("from the second").await.unwrap();
    assert_ne!(said.await.outcome, Outcome::Delivered);
    assert_eq!(other.peer(alice.id()).conflict(), Some(exonet::stats::Conflict::Moved));
    let receipt = to_bob.send("two").await.unwrap();
    bob.recv().await.unwrap().ack().unwrap();
    assert_eq!(receipt.await.outcome, Outcome::Delivered);
    assert_eq!(alice.peer(bob.id()).conflict(), None);
}

#[tokio::test]
async fn an_identity_moves_there_and_back() {
    let place = TempDir::new().unwrap();
    let (here, there) = (place.path().join("here"), place.path().join("there"));
    let alice = ephemeral().await;
    let mut bob = stored(&here).await;
    meet(&alice, &bob).await;
    for (n, (from, to)) in [(&here, &there), (&there, &here), (&here, &there)].into_iter().enumerate() {
        let receipt = alice.peer(bob.peer_addr()).send("x").await.unwrap();
        // He has received it, and has not acknowledged it.
        drop(bob.recv().await.unwrap());
        bob.freeze(Duration::ZERO).await;
        drop(bob);
        assert_eq!(carry(from, to).generation, n as u64 + 1);
        bob = stored(to).await;
        bob.greet();
        bob.recv().await.unwrap().ack().unwrap();
        assert_eq!(receipt.await.outcome, Outcome::Delivered);
    }
}

#[test]
fn what_does_not_belong_together_is_refused_and_changes_nothing() {
    let place = TempDir::new().unwrap();
    let [one, two, there] = ["one", "two", "there"].map(|name| place.path().join(name));
    for (n, path) in [(1, &one), (2, &two)] {
        drop(StateDir::create(path, &[n; 32]).unwrap());
    }
    {
        let dir = StateDir::open(&one).unwrap();
        let own = SecretKey::from_bytes([1; 32]).node_id();
        for to in [own, NodeId([0xff; 32])] {
            assert!(matches!(dir.checkpoint(&to, &()), Err(StateError::Target { .. })));
        }
    }
    let ((load, deed), (other, other_deed)) = (leave(&one, b""), leave(&two, b""));
    let refused = |reader: &SecretKey, load: &[u8], deed: &[u8]| {
        let restored = state::restore::<Vec<u8>>(&there, reader, load, deed);
        assert!(matches!(restored, Err(StateError::Checkpoint { .. })), "{restored:?}");
        assert!(!there.exists());
    };
    refused(&target(), &load, &other_deed);
    refused(&target(), &other, &deed);
    refused(&SecretKey::from_bytes([9; 32]), &load, &deed);
    refused(&target(), &load[..load.len() - 1], &deed);
    refused(&target(), &load, &deed[1..]);
    refused(&target(), &deed, &load);
    // A directory with other content is left alone.
    std::fs::create_dir(&there).unwrap();
    std::fs::write(there.join("thesis"), "x").unwrap();
    assert!(matches!(
        state::restore::<Vec<u8>>(&there, &target(), &load, &deed),
        Err(StateError::Occupied { .. })
    ));
    assert_eq!(std::fs::read_to_string(there.join("thesis")).unwrap(), "x");
}

#[tokio::test]
async fn what_never_arrived_is_taken_back() {
    let place = TempDir::new().unwrap();
    let here = place.path().join("here");
    let alice = ephemeral().await;
    let bob = stored(&here).await;
    meet(&alice, &bob).await;
    let receipt = alice.peer(bob.peer_addr()).send("x").await.unwrap();
    drop(bob.recv().await.unwrap());
    bob.freeze(Duration::ZERO).await;
    drop(bob);
    drop(leave(&here, b""));
    assert!(StateDir::open(&here).is_err());
    assert_eq!(state::take_back(&here).unwrap().generation, 2);
    assert!(matches!(state::take_back(&here), Err(StateError::Missing { .. })));
    let bob = stored(&here).await;
    bob.greet();
    bob.recv().await.unwrap().ack().unwrap();
    assert_eq!(receipt.await.outcome, Outcome::Delivered);
}

/// Carries the settled part of the running identity at `from` to `landing`; returns the number of bytes.
fn carry_ahead(ahead: &mut Ahead, landing: &mut Landing) -> u64 {
    let found = ahead.look().unwrap();
    while let Some(piece) = ahead.next_piece().unwrap() {
        landing.ahead(&piece).unwrap();
    }
    found
}

#[tokio::test]
async fn what_went_ahead_is_not_in_the_load() {
    let place = TempDir::new().unwrap();
    let (here, there) = (place.path().join("here"), place.path().join("there"));
    let bob = stored(&here).await;
    let nobody = PeerAddr::new(ephemeral().await.id(), ["127.0.0.1:9"]).unwrap();
    let mut sent = Vec::new();
    let mut send = async |from: u32, to: u32| {
        for n in from..to {
            let body = [&n.to_be_bytes()[..], &[7; 30_000]].concat();
            drop(bob.peer(&nobody).send(body).await.unwrap());
            sent.push(n);
        }
    };
    let (mut ahead, mut landing) = (Ahead::begin(&here).unwrap(), Landing::beside(&there));
    // More than a segment, while the node runs; data that was carried is not carried again.
    send(0, 300).await;
    let first = carry_ahead(&mut ahead, &mut landing);
    assert!(first > 300 * 30_000);
    #[cfg(unix)]
    for entry in std::fs::read_dir(place.path().join("there.arriving").join("journal")).unwrap() {
        // The journal maps its files: a hole would kill the process that finds the disk full.
        let about = std::os::unix::fs::MetadataExt::blocks(&entry.unwrap().metadata().unwrap()) * 512;
        assert!(about >= 1 << 20, "{about}");
    }
    send(300, 310).await;
    let second = carry_ahead(&mut ahead, &mut landing);
    assert!((10 * 30_000..first / 4).contains(&second));
    assert_eq!(carry_ahead(&mut ahead, &mut landing), 0);
    send(310, 320).await;
    bob.freeze(Duration::ZERO).await;
    drop(bob);
    let dir = StateDir::open(&here).unwrap();
    let load = dir.checkpoint_after(&target().node_id(), &(), Some(&ahead)).unwrap();
    assert!((10 * 30_000..20 * 30_000).contains(&load.as_bytes().len()), "{}", load.as_bytes().len());
    // A target without the data that was carried ahead does not take the load for everything.
    let arriving = state::open_load(load.as_bytes(), &target()).unwrap();
    let mut other = Landing::beside(place.path().join("other"));
    assert!(matches!(other.land(&arriving), Err(StateError::Checkpoint { .. })));
    landing.land(&arriving).unwrap();
    let deed = dir.cede(&load).unwrap();
    // The process that took the identity in has ended meanwhile.
    drop(landing);
    let restored = state::restore::<Vec<u8>>(&there, &target(), load.as_bytes(), deed.as_bytes()).unwrap();
    assert_eq!(restored.term.generation, 1);
    let bob = stored(&there).await;
    let mut found: Vec<u32> = bob
        .outbox(4)
        .iter()
        .map(|waiting| u32::from_be_bytes(waiting.body[..4].try_into().unwrap()))
        .collect();
    found.sort_unstable();
    assert_eq!(found, sent);
}

#[tokio::test]
async fn what_was_settled_and_used_again_is_carried_again() {
    let place = TempDir::new().unwrap();
    let (here, there) = (place.path().join("here"), place.path().join("there"));
    let (alice, bob) = (ephemeral().await, stored(&here).await);
    let (mut ahead, mut landing) = (Ahead::begin(&here).unwrap(), Landing::beside(&there));
    // The journal wraps around several times: snapshots replace segments, which are used again.
    let to_alice = bob.peer(alice.peer_addr());
    for n in 0..1_500_u32 {
        let receipt = to_alice.send(vec![n.to_le_bytes()[0]; 60_000]).await.unwrap();
        alice.recv().await.unwrap().ack().unwrap();
        assert_eq!(receipt.await.outcome, Outcome::Delivered);
        if n % 100 == 50 {
            carry_ahead(&mut ahead, &mut landing);
        }
    }
    let nobody = PeerAddr::new(ephemeral().await.id(), ["127.0.0.1:9"]).unwrap();
    drop(bob.peer(&nobody).send("the last").await.unwrap());
    bob.freeze(Duration::ZERO).await;
    drop((bob, to_alice));
    let dir = StateDir::open(&here).unwrap();
    let load = dir.checkpoint_after(&target().node_id(), &(), Some(&ahead)).unwrap();
    let arriving = state::open_load(load.as_bytes(), &target()).unwrap();
    landing.land(&arriving).unwrap();
    let deed = dir.cede(&load).unwrap();
    landing.restore::<Vec<u8>>(&target(), &arriving, deed.as_bytes()).unwrap();
    let bob = stored(&there).await;
    assert_eq!(bob.outbox(100).iter().map(|it| &it.body[..]).collect::<Vec<_>>(), [b"the last"]);
}

#[tokio::test]
async fn what_a_killed_process_left_moves_whole() {
    let place = TempDir::new().unwrap();
    let (here, killed, there) =
        (place.path().join("here"), place.path().join("killed"), place.path().join("there"));
    let bob = stored(&here).await;
    let nobody = PeerAddr::new(ephemeral().await.id(), ["127.0.0.1:9"]).unwrap();
    drop(bob.peer(&nobody).send("still to be sent").await.unwrap());
    bob.journaled().await.unwrap();
    // As if the process had died now: its journal does not record an end.
    copy_directory(&here, &killed);
    std::fs::remove_file(killed.join("lock")).unwrap();
    let (load, deed) = leave(&killed, b"");
    // Another machine, whose memory does not show that nothing is missing.
    bob.freeze(Duration::ZERO).await;
    drop(bob);
    state::restore::<Vec<u8>>(&there, &target(), &load, &deed).unwrap();
    let bob = stored(&there).await;
    assert_eq!(bob.outbox(100).iter().map(|it| &it.body[..]).collect::<Vec<_>>(), [b"still to be sent"]);
}

/// The process that restores an identity dies between the last two steps: the key is there, and the directory is not
/// in its place.
#[test]
fn what_was_cut_off_at_its_arrival_goes_on() {
    let place = TempDir::new().unwrap();
    let (here, there) = (place.path().join("here"), place.path().join("there"));
    drop(StateDir::create(&here, &[1; 32]).unwrap());
    let (load, deed) = leave(&here, b"");
    let first = state::restore::<Vec<u8>>(&there, &target(), &load, &deed).unwrap();
    std::fs::rename(&there, place.path().join("there.arriving")).unwrap();
    assert!(!state::lives(&there).unwrap());
    let again = state::restore::<Vec<u8>>(&there, &target(), &load, &deed).unwrap();
    assert_eq!(again.term, first.term, "it is the same arrival");
    assert!(state::lives(&there).unwrap() && !state::lives(&here).unwrap());
    // A half that was cleared away for another attempt is not taken for the whole.
    let back = SecretKey::from_bytes([8; 32]);
    let dir = StateDir::open(&there).unwrap();
    let load = dir.checkpoint(&back.node_id(), &()).unwrap();
    let mut landing = Landing::beside(&here);
    let arriving = state::open_load(load.as_bytes(), &back).unwrap();
    landing.land(&arriving).unwrap();
    landing.clear().unwrap();
    let deed = dir.cede(&load).unwrap();
    assert_eq!(landing.restore::<Vec<u8>>(&back, &arriving, deed.as_bytes()).unwrap().term.generation, 2);
    assert!(StateDir::open(&here).is_ok());
}

/// Copies a directory in which files may be made and renamed meanwhile: repeats until none was.
fn copy_directory(from: &Path, to: &Path) {
    loop {
        let before = files(from);
        if before.iter().all(|file| copied(&from.join(file), &to.join(file))) && files(from) == before {
            return;
        }
        std::fs::remove_dir_all(to).unwrap();
    }
}

/// Copies a file. Returns whether the file still existed.
fn copied(from: &Path, to: &Path) -> bool {
    std::fs::create_dir_all(to.parent().unwrap()).unwrap();
    match std::fs::copy(from, to) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => false,
        copied => copied.map(|_| true).unwrap(),
    }
}

/// The files below a directory, by their paths in it.
fn files(directory: &Path) -> BTreeSet<PathBuf> {
    let mut files = BTreeSet::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = PathBuf::from(path.file_name().unwrap());
        if path.is_dir() {
            files.extend(self::files(&path).into_iter().map(|file| name.join(file)));
        } else {
            files.insert(name);
        }
    }
    files
}
