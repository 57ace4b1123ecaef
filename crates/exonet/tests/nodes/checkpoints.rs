//! An identity that moves as one file, with the state of its application.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use exonet::error::StateError;
use exonet::naming::{Answer, Expect, Found, Name, Naming, NamingError, Record, Version};
use exonet::state::{
    self, ApplicationError, Arrival, Checkpoint, Landing, RestoreError, Restored, SecretKey, StateDir, Term,
};
use exonet::{Allow, Message, Node, NodeId, Outcome};
use tempfile::TempDir;

const LONG: Duration = Duration::from_secs(10);

/// An application whose state is a number.
#[derive(Debug, PartialEq, Eq)]
struct Count(u64);

impl Checkpoint for Count {
    fn checkpoint(&self) -> Result<Vec<u8>, ApplicationError> {
        if self.0 == u64::MAX { Err("it counts still".into()) } else { Ok(self.0.to_be_bytes().to_vec()) }
    }

    fn restore(bytes: &[u8]) -> Result<Self, ApplicationError> {
        Ok(Self(u64::from_be_bytes(bytes.try_into()?)))
    }
}

/// The old machine, the new one with an identity of its own, and the file between them.
struct World {
    place: TempDir,
    target: NodeId,
}

impl World {
    fn new() -> Self {
        let place = TempDir::new().unwrap();
        let world = Self { place, target: SecretKey::from_bytes([42; 32]).node_id() };
        drop(StateDir::create(world.path("machine"), &[42; 32]).unwrap());
        world
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    async fn stored(&self, name: &str) -> Node {
        let node = Node::builder(Allow::anyone()).state_dir(self.path(name)).bind("127.0.0.1:0");
        node.build().await.unwrap()
    }

    /// Creates an identity that no process runs.
    fn create(&self, name: &str, key: u8) {
        drop(StateDir::create(self.path(name), &[key; 32]).unwrap());
    }

    async fn leave(&self, node: Node, file: &str) {
        let ceded = node.checkpoint(LONG, &self.target, &Count(7), self.path(file)).await.unwrap();
        assert_eq!(ceded.to, self.target);
    }

    async fn restore<A: Checkpoint + Send + 'static>(
        &self,
        file: &str,
        to: &str,
        naming: Option<&dyn Naming>,
    ) -> Result<Restored<A>, RestoreError> {
        state::restore_file(self.path(file), self.path("machine"), self.path(to), naming).await
    }

    /// Checks that an error says which file or directory it is about.
    fn names_path(&self, name: &str, error: &impl std::fmt::Display) {
        assert!(error.to_string().contains(&format!("{}", self.path(name).display())), "{error}");
    }

    /// The names in the directory of this world.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.place.path()).unwrap();
        let mut names: Vec<_> = entries.map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Checks that the file is refused, and that nothing is left behind.
    async fn refused(&self, file: &str, to: &str, why: &str) {
        let before = self.names();
        let error = self.restore::<Count>(file, to, None).await.unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
        assert!(error.contains(&self.place.path().display().to_string()), "{error}");
        assert_eq!(self.names(), before);
    }
}

/// A name service that grants each generation once, or does not answer.
#[derive(Default)]
struct Judge {
    granted: std::sync::Mutex<Option<Term>>,
    is_down: std::sync::atomic::AtomicBool,
    /// A path that gets other content when a claim is granted, so that no identity can live there.
    blocks: Option<PathBuf>,
}

impl Naming for Judge {
    fn look_up<'a>(&'a self, _: &'a Name) -> Answer<'a, Option<Found>> {
        Box::pin(async { Ok(None) })
    }

    fn watch<'a>(&'a self, _: &'a Name, _: Option<Version>) -> Answer<'a, Option<Found>> {
        Box::pin(async { Ok(None) })
    }

    fn list(&self) -> Answer<'_, Vec<(Name, Found)>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn bind<'a>(&'a self, _: &'a Name, _: &'a Record, _: Expect) -> Answer<'a, Version> {
        Box::pin(async { Err(NamingError::NoAuthority("it")) })
    }

    fn unbind<'a>(&'a self, _: &'a Name, _: Version) -> Answer<'a, ()> {
        Box::pin(async { Err(NamingError::NoAuthority("it")) })
    }

    fn claim<'a>(&'a self, _: &'a NodeId, term: Term) -> Answer<'a, ()> {
        Box::pin(async move {
            let mut granted = self.granted.lock().unwrap();
            let answer = match *granted {
                Some(known) if known != term && term.generation <= known.generation => {
                    Err(NamingError::Superseded { generation: known.generation })
                }
                _ => Ok(()),
            };
            if answer.is_ok() {
                *granted = Some(term);
            }
            if let Some(path) = &self.blocks {
                fs::create_dir(path).unwrap();
                fs::write(path.join("thesis"), "x").unwrap();
            }
            // The claim is granted, and the answer is lost.
            let is_down = self.is_down.load(std::sync::atomic::Ordering::Relaxed);
            if is_down { Err(NamingError::Unreachable("it is down".to_owned())) } else { answer }
        })
    }

    fn is_authority(&self) -> bool {
        true
    }
}

#[tokio::test]
async fn a_file_carries_what_is_under_way_and_the_state_of_the_application() {
    let world = World::new();
    let bob = world.stored("here").await;
    let alice = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await.unwrap();
    let receipt = alice.peer(bob.peer_addr()).send("hello").await.unwrap();
    bob.recv().await.unwrap().ack().unwrap();
    assert_eq!(receipt.await.outcome, Outcome::Delivered);
    let receipt = alice.peer(bob.peer_addr()).send("one").await.unwrap();
    drop(bob.recv().await.unwrap());
    let id = bob.id();
    world.leave(bob, "file").await;
    assert!(matches!(StateDir::open(world.path("here")), Err(StateError::Moved { .. })));
    // Only its owner may read the file, since it has the key of the identity.
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(fs::metadata(world.path("file")).unwrap().permissions().mode() & 0o777, 0o600);
    }

    let restored = world.restore::<Count>("file", "there", None).await.unwrap();
    assert_eq!((restored.id, restored.application, restored.term.generation), (id, Count(7), 1));
    assert!(state::lives(&restored.place).unwrap(), "{}", restored.place.display());
    let bob = world.stored("there").await;
    bob.greet();
    bob.recv().await.unwrap().ack().unwrap();
    assert_eq!(receipt.await.outcome, Outcome::Delivered);
}

#[tokio::test]
async fn outcomes_move_with_their_identity() {
    let world = World::new();
    let alice = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await.unwrap();
    let bob = world.stored("here").await;
    let receipt = bob.peer(alice.peer_addr()).send("hello").await.unwrap();
    alice.recv().await.unwrap().ack().unwrap();
    let settled = receipt.await;
    let nobody = crate::common::nobody().await;
    let never_left = bob.peer(nobody).send(Message::new("x").early(false)).await.unwrap();
    let number = bob.waiting(&never_left.open_message().unwrap(), 0).unwrap().number.unwrap();
    never_left.abandon();
    assert_eq!(never_left.await.outcome, Outcome::Cancelled);
    let before = bob.past_outcomes().await.unwrap();
    world.leave(bob, "file").await;

    world.restore::<Count>("file", "there", None).await.unwrap();
    assert_eq!(StateDir::open(world.path("there")).unwrap().outbox().unwrap().past, before);
    let bob = world.stored("there").await;
    let past = bob.past_outcomes().await.unwrap();
    assert_eq!(past, before);
    let (_, told) = past.by_id(&settled.id.unwrap()).unwrap();
    assert_eq!((told.peer, told.outcome), (alice.id(), Outcome::Delivered));
    assert_eq!(
        past.by_number(number).map(|ended| (ended.id, ended.outcome)),
        Some((None, Outcome::Cancelled))
    );
    assert_eq!(past.by_number(number + 1), None);
}

#[tokio::test]
async fn a_checkpoint_is_restored_once_even_elsewhere() {
    let world = World::new();
    world.leave(world.stored("here").await, "first").await;
    world.restore::<Count>("first", "there", None).await.unwrap();
    world.refused("first", "there", "has arrived in").await;
    world.refused("first", "other", "generation 1").await;
    // The identity moves on to another file. The first file is older then.
    let node = world.stored("there").await;
    world.leave(node, "second").await;
    fs::remove_dir_all(world.path("there")).unwrap();
    world.restore::<Count>("second", "there", None).await.unwrap();
    fs::remove_dir_all(world.path("there")).unwrap();
    world.refused("second", "there", "generation 2 of").await;
    world.refused("first", "there", "generation 2 before").await;
}

#[tokio::test]
async fn what_cannot_be_restored_leaves_nothing() {
    let world = World::new();
    world.leave(world.stored("here").await, "file").await;
    let whole = fs::read(world.path("file")).unwrap();
    let put = |name: &str, bytes: &[u8]| fs::write(world.path(name), bytes).unwrap();
    put("short", &whole[..whole.len() - 1]);
    put("shorter", &whole[..40]);
    put("empty", b"");
    put("foreign", b"%PDF-1.7");
    put("newer", b"exonet-checkpoint-file-2\n...");
    for at in [30, 60, 100, 120, whole.len() / 2, whole.len() - 40, whole.len() - 1] {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        put("damaged", &damaged);
        world.refused("damaged", "there", "is damaged").await;
    }
    for (name, why) in [
        ("short", "is damaged"),
        ("shorter", "is damaged"),
        ("empty", "is no checkpoint"),
        ("foreign", "is no checkpoint"),
        ("newer", "another version"),
        ("absent", "cannot open"),
    ] {
        world.refused(name, "there", why).await;
    }
    // Another node cannot open it.
    world.create("stranger", 43);
    let before = world.names();
    let (file, stranger) = (world.path("file"), world.path("stranger"));
    let error = state::restore_file::<Count>(&file, &stranger, world.path("there"), None).await;
    let error = error.unwrap_err();
    assert!(matches!(error, RestoreError::State(StateError::OtherTarget { to, .. }) if to == world.target));
    // A program without the application cannot restore it either.
    let error = world.restore::<()>("file", "there", None).await.unwrap_err();
    assert!(matches!(error, RestoreError::State(StateError::Application { .. })), "{error}");
    world.names_path("file", &error);
    // A place that has another identity stays as it is.
    let error = world.restore::<Count>("file", "stranger", None).await.unwrap_err();
    assert!(matches!(error, RestoreError::State(StateError::Exists { .. })), "{error}");
    assert_eq!(world.names(), before);
    world.restore::<Count>("file", "there", None).await.unwrap();
}

#[tokio::test]
async fn what_cannot_be_written_changes_nothing() {
    let world = World::new();
    fs::write(world.path("taken"), "thesis").unwrap();
    world.create("here", 1);
    let own = SecretKey::from_bytes([1; 32]).node_id();
    fs::create_dir(world.path("folder.part")).unwrap();
    for (to, count, file, why) in [
        (world.target, 7, "taken", "already"),
        (world.target, 7, "no/such/folder", "does not exist"),
        (world.target, 7, "new/", "is not the name of a file"),
        (world.target, 7, "new/.", "is not the name of a file"),
        (world.target, 7, "folder", "is not a regular file"),
        (world.target, u64::MAX, "file", "it counts still"),
        (own, 7, "file", "cannot be ceded"),
        (NodeId([0; 32]), 7, "file", "cannot be ceded"),
    ] {
        let node = world.stored("here").await;
        let error = node.checkpoint(LONG, &to, &Count(count), world.path(file)).await.unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
        // The node still runs, unless its application does not give its state.
        let runs = matches!(StateDir::open(world.path("here")), Err(StateError::Locked { .. }));
        assert!(runs || count == u64::MAX, "{file}: {error}");
        node.freeze(Duration::ZERO).await;
        assert!(state::lives(world.path("here")).unwrap());
        assert_eq!(world.names(), ["folder.part", "here", "machine", "taken"]);
    }
    assert_eq!(fs::read_to_string(world.path("taken")).unwrap(), "thesis");
    let temporary = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await.unwrap();
    let error = temporary.checkpoint(LONG, &world.target, &(), world.path("file")).await.unwrap_err();
    assert!(matches!(error, StateError::Temporary));
}

/// The process dies after it has ceded the identity. Its file is finished, and no other file.
#[tokio::test]
async fn a_file_that_was_cut_off_is_finished() {
    let world = World::new();
    world.create("here", 1);
    let (here, file) = (world.path("here"), world.path("file"));
    let missing = state::finish_file(&here, &file);
    assert!(matches!(missing, Err(StateError::Missing { .. })), "it lives here: {missing:?}");
    let cut = |more: &[u8]| {
        let dir = StateDir::open(&here).unwrap();
        let load = dir.checkpoint(&world.target, &Count(9)).unwrap();
        drop(state::Draft::write(&file, &load).unwrap());
        let part = world.path("file.part");
        let mut bytes = fs::read(&part).unwrap();
        bytes.extend_from_slice(more);
        fs::write(&part, bytes).unwrap();
        (dir, load)
    };
    // Before the identity is ceded, the unfinished file is replaced.
    drop(cut(b""));
    assert!(matches!(state::finish_file(&here, &file), Err(StateError::Missing { .. })));
    let (dir, load) = cut(b"a part of the deed");
    dir.cede(&load).unwrap();
    world.refused("file.part", "there", "is damaged").await;
    // Another file cannot be finished in its place.
    let other = state::finish_file(&here, world.path("other")).unwrap_err();
    assert!(matches!(other, StateError::OtherFile { .. }), "{other}");
    world.names_path("other", &other);
    state::finish_file(&here, &file).unwrap();
    state::finish_file(&here, &file).unwrap();
    assert!(!world.path("file.part").exists());
    assert_eq!(world.restore::<Count>("file", "there", None).await.unwrap().application, Count(9));
}

#[tokio::test]
async fn the_unfinished_checkpoint_of_another_identity_is_left_alone() {
    let world = World::new();
    world.create("one", 1);
    world.create("two", 2);
    let dir = StateDir::open(world.path("one")).unwrap();
    let load = dir.checkpoint(&world.target, &()).unwrap();
    drop(state::Draft::write(world.path("file"), &load).unwrap());
    dir.cede(&load).unwrap();
    let node = world.stored("two").await;
    let error = node.checkpoint(LONG, &world.target, &(), world.path("file")).await.unwrap_err();
    assert!(error.to_string().contains("another identity"), "{error}");
    state::finish_file(world.path("one"), world.path("file")).unwrap();
}

/// Two machines with the target's key restore the file. The name service lets the identity live at one of them.
#[tokio::test]
async fn a_name_service_lets_one_place_restore() {
    let world = World::new();
    let judge = Judge::default();
    let machine = world.path("machine");
    let twin = world.path("twin");
    fs::create_dir(&twin).unwrap();
    for entry in fs::read_dir(&machine).unwrap().map(Result::unwrap).filter(|it| it.path().is_file()) {
        fs::copy(entry.path(), twin.join(entry.file_name())).unwrap();
    }
    world.leave(world.stored("here").await, "file").await;
    // The answer is lost, so the identity does not live yet. The same call repeats the same claim.
    judge.is_down.store(true, std::sync::atomic::Ordering::Relaxed);
    let error = world.restore::<Count>("file", "there", Some(&judge)).await.unwrap_err();
    assert!(matches!(error, RestoreError::Naming { error: NamingError::Unreachable(_), .. }), "{error}");
    assert!(!world.path("there").exists());
    judge.is_down.store(false, std::sync::atomic::Ordering::Relaxed);
    let restored = world.restore::<Count>("file", "there", Some(&judge)).await.unwrap();
    assert_eq!(Some(restored.term), *judge.granted.lock().unwrap());
    let before = world.names();
    let file = world.path("file");
    let second = state::restore_file::<Count>(&file, &twin, world.path("second"), Some(&judge)).await;
    let error = second.unwrap_err();
    let superseded = NamingError::Superseded { generation: 1 };
    assert!(matches!(&error, RestoreError::Naming { error, .. } if *error == superseded), "{error}");
    world.names_path("second", &error);
    assert_eq!(world.names(), before);
}

/// The process that restores the file dies before it has written the record, and then between that and the last step.
#[tokio::test]
async fn a_restoring_that_was_cut_off_goes_on_at_its_place_only() {
    let world = World::new();
    world.leave(world.stored("here").await, "file").await;
    let down = Judge { is_down: true.into(), ..Judge::default() };
    world.restore::<Count>("file", "there", Some(&down)).await.unwrap_err();
    assert!(world.path("there.arriving").exists());
    // The file is restored to another place, where other content appears meanwhile. The record does not change.
    let blocking = Judge { blocks: Some(world.path("other")), ..Judge::default() };
    let error = world.restore::<Count>("file", "other", Some(&blocking)).await.unwrap_err();
    assert!(matches!(error, RestoreError::State(StateError::Occupied { .. })), "{error}");
    fs::remove_dir_all(world.path("other")).unwrap();
    world.restore::<Count>("file", "other", None).await.unwrap();
    fs::rename(world.path("other"), world.path("other.arriving")).unwrap();
    assert!(state::has_arrived(world.path("other.arriving")).unwrap());
    let error = world.restore::<Count>("file", "there", None).await.unwrap_err();
    assert!(matches!(error, RestoreError::State(StateError::Restored { last: 1, .. })), "{error}");
    world.names_path("file", &error);
    // Only that place has the key now, so no other identity may replace it.
    world.leave(world.stored("second").await, "second file").await;
    world.refused("second file", "other", "other.arriving already").await;
    world.restore::<Count>("file", "other", None).await.unwrap();
    assert!(!world.path("there").exists());
    is_private(&world.path("machine"));
}

/// An identity has arrived until its node says that the peers know the new place.
#[tokio::test]
async fn an_arrival_lasts_until_it_is_forgotten() {
    let world = World::new();
    world.leave(world.stored("here").await, "file").await;
    world.restore::<Count>("file", "there", None).await.unwrap();
    let there = world.path("there");
    assert!(state::has_arrived(&there).unwrap());
    world.stored("there").await.close(Duration::ZERO).await;
    assert!(state::has_arrived(&there).unwrap());
    for _ in 0..2 {
        state::forget_arrival(&there).unwrap();
        assert!(!state::has_arrived(&there).unwrap());
    }
}

/// Checks that the target has one record, in its own directory.
fn is_private(machine: &Path) {
    assert_eq!(fs::read_dir(machine.join("restored")).unwrap().count(), 1);
}

/// A record that cannot be read says nothing about the checkpoint, so the file is refused.
#[tokio::test]
async fn a_damaged_record_refuses_every_file() {
    let world = World::new();
    world.create("here", 1);
    world.leave(world.stored("here").await, "file").await;
    let records = world.path("machine").join("restored");
    let record = records.join(SecretKey::from_bytes([1; 32]).node_id().to_string());
    fs::create_dir(&records).unwrap();
    fs::write(&record, "exonet-restored-1 ").unwrap();
    world.refused("file", "there", "certainly never restored, remove this file").await;
    fs::write(&record, "exonet-restored-2 ").unwrap();
    world.refused("file", "there", "another version").await;
    fs::remove_file(&record).unwrap();
    world.restore::<Count>("file", "there", None).await.unwrap();
}

#[tokio::test]
async fn an_identity_beside_the_place_is_left_alone() {
    let world = World::new();
    world.leave(world.stored("here").await, "file").await;
    world.create("there.arriving", 1);
    world.refused("file", "there", "there.arriving already").await;
    assert!(state::lives(world.path("there.arriving")).unwrap());
    // The identity comes back. Its former directory would have to replace that of another identity.
    world.restore::<Count>("file", "other", None).await.unwrap();
    world.leave(world.stored("other").await, "back").await;
    world.create("here.former", 2);
    world.refused("back", "here", "here.former already").await;
    assert!(state::lives(world.path("here.former")).unwrap());
    fs::rename(world.path("here.former"), world.path("elsewhere")).unwrap();
    world.restore::<Count>("back", "here", None).await.unwrap();
    assert!(!state::lives(world.path("here.former")).unwrap());
}

#[tokio::test]
async fn a_place_that_is_taken_meanwhile_is_left_alone() {
    let world = World::new();
    world.leave(world.stored("here").await, "file").await;
    let arrival = Arrival::<Count>::read(world.path("file"), world.path("machine"), world.path("there"));
    let arrival = arrival.await.unwrap();
    let taken = StateDir::create(world.path("there"), &[1; 32]).unwrap();
    let error = arrival.live().await.unwrap_err();
    assert!(matches!(error, RestoreError::State(StateError::Exists { .. })), "{error}");
    taken.store(taken.load()).unwrap();
    world.restore::<Count>("file", "other", None).await.unwrap();
}

#[tokio::test]
async fn one_process_at_a_time_restores_to_a_place() {
    let world = World::new();
    world.leave(world.stored("here").await, "file").await;
    let dir = StateDir::create(world.path("one"), &[1; 32]).unwrap();
    let load = dir.checkpoint(&world.target, &()).unwrap();
    let mut landing = Landing::beside(world.path("there"));
    let arriving = state::open_load(load.as_bytes(), &SecretKey::from_bytes([42; 32])).unwrap();
    landing.land(&arriving).unwrap();
    world.refused("file", "there", "there.arriving is in use").await;
    // The other process ends before it has a key, so its files can be replaced.
    drop(landing);
    let down = Judge { is_down: true.into(), ..Judge::default() };
    world.restore::<Count>("file", "there", Some(&down)).await.unwrap_err();
    // A landing without a term does not count as the first generation.
    let term = world.path("there.arriving").join("term");
    let kept = fs::read(&term).unwrap();
    fs::remove_file(&term).unwrap();
    let error = world.restore::<Count>("file", "there", None).await.unwrap_err();
    assert!(matches!(error, RestoreError::State(StateError::CorruptTerm { .. })), "{error}");
    fs::write(&term, kept).unwrap();
    assert_eq!(world.restore::<Count>("file", "there", None).await.unwrap().term.generation, 1);
    assert_eq!(world.names(), ["file", "here", "machine", "one", "there"]);
}

#[tokio::test]
async fn a_place_that_cannot_be_used_costs_nothing() {
    let world = World::new();
    world.leave(world.stored("here").await, "file").await;
    fs::create_dir(world.path("thesis")).unwrap();
    fs::write(world.path("thesis").join("notes.txt"), "x").unwrap();
    world.refused("file", "thesis", "files of something else").await;
    world.restore::<Count>("file", "there/", None).await.unwrap();
    world.leave(world.stored("there").await, "second").await;
    fs::create_dir(world.path("real")).unwrap();
    world.restore::<Count>("second", "real/.", None).await.unwrap();
    world.leave(world.stored("real").await, "third").await;
    #[cfg(unix)]
    {
        fs::create_dir(world.path("aim")).unwrap();
        std::os::unix::fs::symlink(world.path("aim"), world.path("link")).unwrap();
        world.restore::<Count>("third", "link", None).await.unwrap();
        assert!(state::lives(world.path("aim")).unwrap() && world.path("link").is_symlink());
    }
}

#[tokio::test]
async fn what_is_under_the_first_name_of_a_file_is_left_alone() {
    let world = World::new();
    let node = world.stored("here").await;
    let write = async |file: &str| {
        let error = node.checkpoint(LONG, &world.target, &(), world.path(file)).await.unwrap_err();
        error.to_string()
    };
    fs::write(world.path("thesis.part"), "a thesis").unwrap();
    assert!(write("thesis").await.contains("not the start of a checkpoint"));
    assert_eq!(fs::read_to_string(world.path("thesis.part")).unwrap(), "a thesis");
    fs::create_dir(world.path("folder.part")).unwrap();
    assert!(write("folder").await.contains("not a regular file"));
    #[cfg(unix)]
    {
        let made = std::process::Command::new("mkfifo").arg(world.path("pipe.part")).status().unwrap();
        assert!(made.success());
        assert!(write("pipe").await.contains("not a regular file"));
    }
    // The node goes on.
    assert!(matches!(StateDir::open(world.path("here")), Err(StateError::Locked { .. })));
    // A file that was cut off within its head is replaced.
    fs::write(world.path("file.part"), "exonet-checkpoint-file-1\nabc").unwrap();
    world.leave(node, "file").await;
    world.restore::<Count>("file", "there", None).await.unwrap();
}

#[tokio::test]
async fn of_two_identities_one_gets_the_file() {
    let world = World::new();
    let [one, two] = [1, 2].map(|key| {
        let dir = StateDir::create(world.path(&format!("identity {key}")), &[key; 32]).unwrap();
        let load = dir.checkpoint(&world.target, &()).unwrap();
        (dir, load)
    });
    let file = world.path("file");
    let draft = state::Draft::write(&file, &one.1).unwrap();
    let error = state::Draft::write(&file, &two.1).unwrap_err();
    assert!(error.to_string().contains("another process is writing it"), "{error}");
    // Another file gets the name meanwhile, and keeps it.
    fs::write(&file, "a thesis").unwrap();
    let part = fs::metadata(world.path("file.part")).unwrap().len();
    let deed = one.0.cede(&one.1).unwrap();
    let error = draft.finish(&deed).unwrap_err();
    assert!(error.to_string().contains("another file has this name now"), "{error}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "a thesis");
    // The file had room for the deed before.
    assert!(fs::metadata(world.path("file.part")).unwrap().len() <= part);
    fs::rename(&file, world.path("thesis")).unwrap();
    state::finish_file(world.path("identity 1"), &file).unwrap();
    // The process dies before it removes the first name.
    fs::hard_link(&file, world.path("file.part")).unwrap();
    state::finish_file(world.path("identity 1"), &file).unwrap();
    assert!(!world.path("file.part").exists());
    world.restore::<()>("file", "there", None).await.unwrap();
}

/// Many threads each checkpoint an identity to the same file. One identity is ceded, and has the file.
#[test]
fn in_a_race_for_a_file_nobody_is_lost() {
    for _ in 0..10 {
        let world = World::new();
        let file = world.path("file");
        let gate = std::sync::Barrier::new(4);
        std::thread::scope(|scope| {
            for key in 1..=4 {
                let dir = StateDir::create(world.path(&key.to_string()), &[key; 32]).unwrap();
                let (target, file, gate) = (&world.target, &file, &gate);
                scope.spawn(move || {
                    gate.wait();
                    drop(dir.checkpoint_file(target, &(), file));
                });
            }
        });
        let places = (1..=4).map(|key| world.path(&key.to_string()));
        let ceded: Vec<_> = places.filter(|place| !state::lives(place).unwrap()).collect();
        assert_eq!(ceded.len(), 1, "{ceded:?}");
        state::finish_file(&ceded[0], &file).unwrap();
    }
}
