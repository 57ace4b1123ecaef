//! Every name service, by the rules that all have.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "a test that cannot go on has failed"
)]

mod common;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use exonet::naming::{Expect, Naming, NamingError, Record, Term};
use exonet::state::{SecretKey, StateDir};
use exonet::{Allow, Node, Outcome, PeerAddr};
use exonet_names::{FileNames, NameServer, ServerNames};

use crate::common::{key, name, record, rules, term};

/// A name server, and where it keeps its names.
struct Served {
    node: Node,
    server: NameServer,
    place: tempfile::TempDir,
}

impl Served {
    async fn new() -> Self {
        let place = tempfile::tempdir().unwrap();
        let (node, server) = Self::start(&place).await;
        Self { node, server, place }
    }

    async fn start(place: &tempfile::TempDir) -> (Node, NameServer) {
        let state = place.path().join("state");
        let node =
            Node::builder(Allow::anyone()).state_dir(&state).bind("127.0.0.1:0").build().await.unwrap();
        let secret = exonet::state::StateDir::peek(&state).unwrap();
        let server = NameServer::start(&node, SecretKey::from_bytes(*secret), place.path().join("names"));
        (node.clone(), server.await.unwrap())
    }

    async fn again(self) -> Self {
        self.server.stop().await;
        self.node.close(Duration::from_secs(5)).await;
        let (node, server) = Self::start(&self.place).await;
        Self { node, server, place: self.place }
    }

    async fn client(&self, of: SecretKey) -> ServerNames {
        ServerNames::new(self.node.peer_addr()).await.unwrap().speaking_for(of)
    }
}

#[tokio::test]
async fn a_file_keeps_the_rules() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("names");
    rules([&FileNames::new(&path), &FileNames::new(&path)]).await;
}

#[tokio::test]
async fn a_server_keeps_the_rules_and_its_names() {
    let served = Served::new().await;
    let (one, two) = (served.client(key(1)).await, served.client(key(2)).await);
    rules([&one, &two]).await;
    let served = served.again().await;
    let two = served.client(key(2)).await;
    let found = two.look_up(&name("chat")).await.unwrap().unwrap();
    assert_eq!(found.record, record(key(2).node_id(), 2, 0));
    let one = served.client(key(1)).await;
    let left = one.claim(&key(1).node_id(), Term::default()).await;
    assert_eq!(left, Err(NamingError::Superseded { generation: 1 }));
    assert_eq!(two.list().await.unwrap(), [(name("chat"), found)]);
}

#[tokio::test]
async fn a_server_believes_only_those_that_prove_who_they_are() {
    let served = Served::new().await;
    let chat = name("chat");
    let (own, other) = (key(1).node_id(), key(2).node_id());
    let one = served.client(key(1)).await;
    let denied = |result: Result<_, NamingError>| matches!(result, Err(NamingError::Denied(_)));
    assert!(denied(one.bind(&chat, &record(other, 1, 0), Expect::Unbound).await.map(drop)));
    assert!(denied(one.claim(&other, term(1, 1)).await));
    let nobody = ServerNames::new(served.node.peer_addr()).await.unwrap();
    assert!(denied(nobody.bind(&chat, &record(own, 1, 0), Expect::Unbound).await.map(drop)));
    assert!(!nobody.is_authority());
    let bound = one.bind(&chat, &record(own, 1, 0), Expect::Unbound).await.unwrap();
    let two = served.client(key(2)).await;
    assert_eq!(two.unbind(&chat, bound).await, Err(NamingError::Taken { name: chat, owner: own }));
}

#[tokio::test]
async fn a_list_of_many_names_comes_in_parts() {
    let served = Served::new().await;
    for node in 1..=10 {
        let names = served.client(key(node)).await;
        let id = key(node).node_id();
        for n in 0..40 {
            names.bind(&name(&format!("n{node}.{n}")), &record(id, 1, 0), Expect::Unbound).await.unwrap();
        }
    }
    let listed = served.client(key(1)).await.list().await.unwrap();
    assert_eq!(listed, served.server.names());
    assert_eq!(listed.len(), 400);
}

#[tokio::test]
async fn one_server_at_a_time_has_a_file() {
    let served = Served::new().await;
    let other =
        Node::builder(Allow::anyone()).state_dir(served.place.path().join("other")).build().await.unwrap();
    let secret = exonet::state::StateDir::peek(served.place.path().join("other")).unwrap();
    let path = served.place.path().join("names");
    let second = NameServer::start(&other, SecretKey::from_bytes(*secret), &path).await;
    assert!(matches!(second, Err(exonet_names::ServerError::InUse(_))));
    let wrong = NameServer::start(&other, key(9), &path).await;
    assert!(matches!(wrong, Err(exonet_names::ServerError::Key)));
}

/// A file and the symbolic links that lead to it have one lock, and a change leaves the links as they are.
#[cfg(unix)]
#[tokio::test]
async fn a_link_to_a_file_leads_to_its_names() {
    let place = tempfile::tempdir().unwrap();
    let (path, link, second) =
        (place.path().join("names"), place.path().join("link"), place.path().join("second"));
    // Before the file exists, too.
    std::os::unix::fs::symlink("names", &link).unwrap();
    std::os::unix::fs::symlink(&link, &second).unwrap();
    let (chat, record) = (name("chat"), record(key(1).node_id(), 1, 0));
    FileNames::new(&second).bind(&chat, &record, Expect::Unbound).await.unwrap();
    assert!(link.is_symlink() && second.is_symlink() && !path.is_symlink());
    let found = FileNames::new(&path).look_up(&chat).await.unwrap().unwrap();
    assert_eq!(found.record, record);

    let start = async |path: &std::path::Path, state: &str| {
        let state = place.path().join(state);
        let node =
            Node::builder(Allow::anyone()).state_dir(&state).bind("127.0.0.1:0").build().await.unwrap();
        let secret = SecretKey::from_bytes(*StateDir::peek(&state).unwrap());
        NameServer::start(&node, secret, path).await
    };
    let one = start(&link, "one").await.unwrap();
    let other = start(&path, "other").await;
    assert!(matches!(other, Err(exonet_names::ServerError::InUse(_))), "{other:?}");
    let change = FileNames::new(&second).unbind(&chat, found.version).await;
    assert!(matches!(change, Err(NamingError::Storage(_))), "{change:?}");
    drop(one);

    let circle = place.path().join("circle");
    std::os::unix::fs::symlink(&circle, &circle).unwrap();
    let error = FileNames::new(&circle).look_up(&chat).await.unwrap_err();
    assert!(error.to_string().contains("in a circle"), "{error}");
}

/// A server that cannot store a change answers, and says why.
#[tokio::test]
async fn a_server_says_that_it_cannot_store_a_change() {
    let served = Served::new().await;
    let client = served.client(key(1)).await;
    let path = served.place.path().join("names");
    std::fs::create_dir(&path).unwrap();
    let record = record(key(1).node_id(), 1, 0);
    let error = client.bind(&name("chat"), &record, Expect::Unbound).await.unwrap_err();
    let claimed = client.claim(&key(1).node_id(), term(1, 1)).await.unwrap_err();
    for error in [error, claimed] {
        let said = format!("the name service cannot use its file: cannot write {}: ", path.display());
        let NamingError::Storage(why) = &error else { panic!("{error}") };
        assert!(error.to_string().starts_with(&said) && !why.contains("name service"), "{error}");
    }
    assert_eq!(client.look_up(&name("chat")).await, Ok(None));
}

#[tokio::test]
async fn a_damaged_file_is_named_and_stays() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("names");
    std::fs::write(&path, "{}").unwrap();
    let names = FileNames::new(&path);
    let Err(NamingError::Damaged(why)) = names.look_up(&name("chat")).await else { panic!() };
    assert!(why.contains("names"), "{why}");
    let id = key(1).node_id();
    assert!(names.bind(&name("chat"), &record(id, 1, 0), Expect::Unbound).await.is_err());
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "{}");
}

/// A service, found by its name.
async fn service(names: &FileNames, place: &tempfile::TempDir) -> Node {
    let state = place.path().join("service");
    let builder = Node::builder(Allow::anyone()).state_dir(state).bind("127.0.0.1:0").naming(names.clone());
    builder.build().await.unwrap()
}

#[tokio::test]
async fn a_service_that_comes_back_elsewhere_is_found_again() {
    let place = tempfile::tempdir().unwrap();
    let (names, chat) = (FileNames::new(place.path().join("names")), name("chat"));
    let first = service(&names, &place).await;
    let _bound = first.bind_name(&chat, [first.local_addr().to_string()]).await.unwrap();
    let client =
        Node::builder(Allow::anyone()).bind("127.0.0.1:0").naming(names.clone()).build().await.unwrap();
    let peer = client.named(&chat).await.unwrap();
    let receipt = peer.send("one").await.unwrap();
    assert_eq!(first.recv().await.unwrap().ack(), Ok(()));
    assert_eq!(receipt.await.outcome, Outcome::Delivered);
    let was: SocketAddr = first.local_addr();
    first.close(Duration::from_secs(5)).await;
    drop(first);
    // Nobody is there, and nobody asks for the name: the client looks it up again by itself.
    let receipt = peer.send("two").await.unwrap();
    let second = service(&names, &place).await;
    assert_ne!(second.local_addr(), was);
    let _bound = second.bind_name(&chat, [second.local_addr().to_string()]).await.unwrap();
    let mut delivery = second.recv().await.unwrap();
    assert_eq!(delivery.body_mut().bytes(10).await.unwrap(), "two");
    delivery.ack().unwrap();
    assert_eq!(receipt.await.outcome, Outcome::Delivered);
}

/// A name has addresses of both families, and the node answers at one of them.
#[tokio::test]
async fn one_address_of_two_families_is_enough() {
    use exonet::Carrier::{Auto, Tcp, Udp};
    for at in ["127.0.0.1:0", "[::1]:0"] {
        let place = tempfile::tempdir().unwrap();
        let (names, chat) = (FileNames::new(place.path().join("names")), name("chat"));
        let bob = Node::builder(Allow::anyone()).bind(at).carrier(Auto).build().await.unwrap();
        let port = bob.local_addr().port();
        let mut both = ["127.0.0.1", "[::1]"].map(|host| format!("{host}:{port}"));
        let mut bound = Expect::Unbound;
        for carrier in [Udp, Udp, Tcp, Tcp, Auto, Auto] {
            both.reverse();
            let record = Record { peer: PeerAddr::new(bob.id(), &both).unwrap(), generation: 0 };
            bound = Expect::Version(names.bind(&chat, &record, bound).await.unwrap());
            let alice = Node::builder(Allow::anyone()).carrier(carrier).naming(names.clone());
            let peer = alice.build().await.unwrap().named(&chat).await.unwrap();
            let receipt = peer.send("hello").await.unwrap();
            bob.recv().await.unwrap().ack().unwrap();
            assert_eq!(receipt.await.outcome, Outcome::Delivered, "{at} {carrier:?}");
            assert!(peer.ping(Duration::from_secs(60)).await.unwrap().is_some(), "{at} {carrier:?}");
        }
    }
}

#[tokio::test]
async fn a_name_that_leads_to_another_node_leads_nowhere() {
    let place = tempfile::tempdir().unwrap();
    let (names, chat) = (FileNames::new(place.path().join("names")), name("chat"));
    let bind = async |of: &Node| {
        names.bind(&chat, &record(of.id(), of.local_addr().port(), 0), Expect::Unbound).await
    };
    let node = async || {
        Node::builder(Allow::anyone()).bind("127.0.0.1:0").naming(names.clone()).build().await.unwrap()
    };
    let (right, wrong, client) = (node().await, node().await, node().await);
    let version = bind(&right).await.unwrap();
    let peer = client.named(&chat).await.unwrap();
    assert_eq!(peer.id(), right.id());
    names.unbind(&chat, version).await.unwrap();
    assert_eq!(client.named(&chat).await.map(drop), Err(NamingError::Unbound(chat.clone())));
    bind(&wrong).await.unwrap();
    let error = client.named(&chat).await.map(drop).unwrap_err();
    assert_eq!(error, NamingError::OtherNode { name: chat.clone(), pinned: right.id(), now: wrong.id() });
    // One that was told the id has it pinned from the start.
    let other = node().await;
    let certain = PeerAddr::new(right.id(), ["name:chat"]).unwrap();
    let error = other.peer(certain).send("x").await.unwrap_err().to_string();
    assert!(error.contains("another node"), "{error}");
}

/// The name service lies about a name that the node has met, and the liar's addresses come with the peer.
#[tokio::test]
async fn addresses_beside_a_name_are_not_used_for_another_node() {
    let place = tempfile::tempdir().unwrap();
    let (names, chat) = (FileNames::new(place.path().join("names")), name("chat"));
    let node = async || {
        Node::builder(Allow::anyone()).bind("127.0.0.1:0").naming(names.clone()).build().await.unwrap()
    };
    let (right, wrong, client) = (node().await, node().await, node().await);
    let _bound = right.bind_name(&chat, [right.local_addr().to_string()]).await.unwrap();
    client.named(&chat).await.unwrap();
    let liar = client.peer(wrong.peer_addr().with_name(&chat));
    let refused = |error: String| assert!(error.contains(&right.id().to_string()), "{error}");
    refused(liar.send("x").await.map(drop).unwrap_err().to_string());
    refused(liar.try_send("x").map(drop).unwrap_err().to_string());
    refused(liar.call("echo", "x").await.map(drop).unwrap_err().to_string());
    refused(liar.ping(Duration::from_secs(5)).await.map(drop).unwrap_err().to_string());
    refused(liar.session("s").unwrap().open().await.map(drop).unwrap_err().to_string());
    // Also if the node knows the way to the liar already.
    client.peer(wrong.peer_addr()).ping(Duration::from_secs(5)).await.unwrap().unwrap();
    refused(liar.send("x").await.map(drop).unwrap_err().to_string());
    // The first id that a peer of this name has counts, before any answer of the service.
    let other = node().await;
    other.peer(wrong.peer_addr().with_name(&chat)).ping(Duration::from_secs(5)).await.unwrap().unwrap();
    let error = other.named(&chat).await.map(drop).unwrap_err();
    assert_eq!(error, NamingError::OtherNode { name: chat, pinned: wrong.id(), now: right.id() });
}

/// An answer that is right for no peer that is wanted does not count as met.
#[tokio::test]
async fn a_lie_about_a_certain_id_is_not_remembered() {
    let place = tempfile::tempdir().unwrap();
    let (names, chat) = (FileNames::new(place.path().join("names")), name("chat"));
    let node = async || {
        Node::builder(Allow::anyone()).bind("127.0.0.1:0").naming(names.clone()).build().await.unwrap()
    };
    let (right, client) = (node().await, node().await);
    let version = names.bind(&chat, &record(key(2).node_id(), 1, 0), Expect::Unbound).await.unwrap();
    let certain = PeerAddr::new(right.id(), ["name:chat"]).unwrap();
    assert!(client.peer(certain).send("x").await.is_err());
    names.unbind(&chat, version).await.unwrap();
    let _bound = right.bind_name(&chat, [right.local_addr().to_string()]).await.unwrap();
    assert_eq!(client.named(&chat).await.unwrap().id(), right.id());
}

#[tokio::test]
async fn what_moved_away_does_not_start() {
    let place = tempfile::tempdir().unwrap();
    let names = FileNames::new(place.path().join("names"));
    let node = service(&names, &place).await;
    let id = node.id();
    node.close(Duration::from_secs(5)).await;
    names.claim(&id, term(1, 1)).await.unwrap();
    let state = place.path().join("service");
    let again = Node::builder(Allow::anyone()).state_dir(state).naming(names.clone()).build().await;
    let error = again.map(drop).unwrap_err();
    assert!(error.to_string().contains("lives elsewhere"), "{error}");
}

#[tokio::test]
async fn texts_lead_to_services() {
    let served = Served::new().await;
    let names = exonet_names::open(&served.node.peer_addr().to_string(), Some(key(1))).await.unwrap();
    assert!(names.is_authority());
    let id = key(1).node_id();
    names.bind(&name("chat"), &record(id, 1, 0), Expect::Unbound).await.unwrap();
    let path = served.place.path().join("names");
    let file = exonet_names::open(&format!("file:{}", path.display()), None).await.unwrap();
    assert_eq!(file.look_up(&name("chat")).await.unwrap().unwrap().record, record(id, 1, 0));
    assert!(exonet_names::open("nowhere", None).await.is_err());
    let _: Arc<dyn Naming> = file;
}

/// A copy of what a move left behind runs already: it stops when a peer says that it has met the later generation, and the name service
/// says so too.
#[tokio::test]
async fn a_copy_that_runs_stops_for_good() {
    let place = tempfile::tempdir().unwrap();
    let [here, copy, there] = ["here", "copy", "there"].map(|name| place.path().join(name));
    let names = FileNames::new(place.path().join("names"));
    let stored = async |path: &std::path::Path| {
        let node = Node::builder(Allow::anyone()).state_dir(path).bind("127.0.0.1:0").naming(names.clone());
        node.build().await
    };
    let alice = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await.unwrap();
    let bob = stored(&here).await.unwrap();
    bob.freeze(Duration::ZERO).await;
    drop(bob);
    std::fs::create_dir(&copy).unwrap();
    for name in ["key", "clock"] {
        std::fs::copy(here.join(name), copy.join(name)).unwrap();
    }
    let left = stored(&copy).await.unwrap();
    let dir = StateDir::open(&here).unwrap();
    let load = dir.checkpoint(&key(9).node_id(), &()).unwrap();
    let deed = dir.cede(&load).unwrap();
    exonet::state::restore::<()>(&there, &key(9), load.as_bytes(), deed.as_bytes()).unwrap();
    let bob = stored(&there).await.unwrap();
    let address = bob.local_addr().to_string();
    drop(bob.bind_name(&name("chat"), [address.clone()]).await.unwrap());
    let receipt = alice.peer(bob.peer_addr()).send("hello").await.unwrap();
    bob.recv().await.unwrap().ack().unwrap();
    assert_eq!(receipt.await.outcome, Outcome::Delivered);

    let said = left.peer(alice.peer_addr()).send("from the past").await.unwrap();
    let superseded = left.superseded().await;
    assert_eq!((superseded.generation, superseded.addresses), (1, vec![address]));
    assert_ne!(said.await.outcome, Outcome::Delivered);
    assert!(left.recv().await.is_err(), "it has stopped");
    left.close(Duration::ZERO).await;
    let again = Node::builder(Allow::anyone()).state_dir(&copy).build().await.map(drop).unwrap_err();
    assert!(again.to_string().contains("lives elsewhere as generation 1"), "{again}");
    assert!(!exonet::state::lives(&copy).unwrap() && exonet::state::lives(&there).unwrap());
}

/// Any peer may say that an identity has moved: a node does not stop for that alone.
#[tokio::test]
async fn a_peer_alone_stops_nobody() {
    let place = tempfile::tempdir().unwrap();
    let [here, copy, there] = ["here", "copy", "there"].map(|name| place.path().join(name));
    let stored = async |path: &std::path::Path| {
        Node::builder(Allow::anyone()).state_dir(path).bind("127.0.0.1:0").build().await.unwrap()
    };
    let alice = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await.unwrap();
    drop(StateDir::create(&here, &[5; 32]).unwrap());
    std::fs::create_dir(&copy).unwrap();
    for name in ["key", "clock"] {
        std::fs::copy(here.join(name), copy.join(name)).unwrap();
    }
    let dir = StateDir::open(&here).unwrap();
    let load = dir.checkpoint(&key(9).node_id(), &()).unwrap();
    let deed = dir.cede(&load).unwrap();
    exonet::state::restore::<()>(&there, &key(9), load.as_bytes(), deed.as_bytes()).unwrap();
    let (left, bob) = (stored(&copy).await, stored(&there).await);
    let receipt = alice.peer(bob.peer_addr()).send("hello").await.unwrap();
    bob.recv().await.unwrap().ack().unwrap();
    assert_eq!(receipt.await.outcome, Outcome::Delivered);
    let said = left.peer(alice.peer_addr()).send("from the past").await.unwrap();
    assert_ne!(said.await.outcome, Outcome::Delivered);
    assert!(left.peer(alice.id()).conflict().is_some());
    // Others, who have met nobody, reach it.
    let carol = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await.unwrap();
    let receipt = carol.peer(left.peer_addr()).send("hello").await.unwrap();
    left.recv().await.unwrap().ack().unwrap();
    assert_eq!(receipt.await.outcome, Outcome::Delivered);
}

#[tokio::test]
async fn a_stored_identity_keeps_whom_it_has_met_under_a_name() {
    let place = tempfile::tempdir().unwrap();
    let names = FileNames::new(place.path().join("names"));
    let state = place.path().join("client");
    let client = async || {
        let builder =
            Node::builder(Allow::anyone()).state_dir(&state).bind("127.0.0.1:0").naming(names.clone());
        builder.build().await.unwrap()
    };
    let (chat, [right, wrong]) = (name("chat"), [1, 2].map(|n| key(n).node_id()));
    let version = names.bind(&chat, &record(right, 1, 0), Expect::Unbound).await.unwrap();
    let node = client().await;
    assert_eq!(node.named(&chat).await.unwrap().id(), right);
    node.close(Duration::ZERO).await;
    drop(node);
    names.unbind(&chat, version).await.unwrap();
    names.bind(&chat, &record(wrong, 2, 0), Expect::Unbound).await.unwrap();
    let node = client().await;
    let error = node.named(&chat).await.map(drop).unwrap_err();
    assert_eq!(error, NamingError::OtherNode { name: chat.clone(), pinned: right, now: wrong });
    assert!(error.to_string().contains(&right.to_string()) && error.to_string().contains(&wrong.to_string()));
    node.close(Duration::ZERO).await;
    drop(node);
    // The way out, if the service was really made anew.
    let pins = state.join("pins").join("names");
    std::fs::write(&pins, "nonsense").unwrap();
    let damaged = Node::builder(Allow::anyone()).state_dir(&state).build().await.map(drop).unwrap_err();
    assert!(damaged.to_string().contains("remove it"), "{damaged}");
    std::fs::remove_file(&pins).unwrap();
    assert_eq!(client().await.named(&chat).await.unwrap().id(), wrong);
}
