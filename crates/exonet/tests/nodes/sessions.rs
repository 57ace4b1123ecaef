//! Sessions: order in both directions, messages of any size, ends, events, limits, processes that end.

use std::path::Path;
use std::time::Duration;

use crate::common::{builder, bytes, node, within};
use exonet::session::{
    PER_PEER, SessionEnd, SessionError, SessionEvent, SessionId, SessionMessage, SessionOpenError,
    SessionReceiver, SessionSendError,
};
use exonet::stream::OpenError;
use exonet::{Confirm, Durability, Message, Node, Outcome, PeerEvent, Session, Traceparent};

const LATE: Duration = Duration::from_secs(5);

async fn stored(state: &Path, bind: &str) -> Node {
    builder().state_dir(state).durability(Durability::Process).bind(bind).build().await.unwrap()
}

/// Both ends of a new session.
async fn session(alice: &Node, bob: &Node) -> (Session, Session) {
    let here = alice.peer(bob.peer_addr()).session("chat").unwrap().open().await.unwrap();
    let there = bob.accept_session().await.unwrap();
    (here, there)
}

/// A node that takes no messages says nothing in a session: its client is told by what opens the session.
#[tokio::test]
async fn a_node_that_takes_no_messages_refuses_sessions() {
    let alice = node().await;
    let bob =
        builder().config(|config| config.takes.messages = false).bind("127.0.0.1:0").build().await.unwrap();
    let mut session = alice.peer(bob.peer_addr()).session("chat").unwrap().open().await.unwrap();
    let end = within(session.recv()).await.unwrap_err();
    assert!(matches!(end, SessionError::Ended(SessionEnd::Refused(_))), "{end}");
}

async fn next(session: &mut Session) -> Option<String> {
    let message = session.recv().await.unwrap()?;
    Some(String::from_utf8_lossy(&message.take().unwrap()).into_owned())
}

/// Receives until the session has ended, and returns how it ended.
async fn rest(receiver: &mut SessionReceiver) -> SessionError {
    loop {
        match receiver.recv().await {
            Ok(Some(message)) => drop(message.take()),
            Ok(None) => panic!("it was closed"),
            Err(error) => return error,
        }
    }
}

/// Calls `try_recv` until it returns something.
async fn polled(session: &mut Session) -> Result<Option<SessionMessage>, SessionError> {
    loop {
        if let Some(found) = session.try_recv()? {
            return Ok(found);
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_session_is_polled_for_messages_and_for_its_end() {
    within(async {
        let (alice, bob) = (node().await, node().await);
        let (mut here, mut there) = session(&alice, &bob).await;
        assert!(there.try_recv().unwrap().is_none(), "the opening is no message");
        let large = bytes(200_000);
        let sends = async {
            drop(here.send("small").await.unwrap());
            drop(here.send(large.clone()).await.unwrap());
        };
        let polls = async {
            let first = polled(&mut there).await.unwrap().unwrap();
            assert_eq!((&first.body()[..], first.attempt()), (&b"small"[..], 1));
            assert!(there.try_recv().unwrap().is_none(), "the next one waits for this one");
            drop(first);
            let again = polled(&mut there).await.unwrap().unwrap();
            assert_eq!((again.body(), again.attempt()), (&"small".into(), 2));
            again.ack().unwrap();
            assert!(polled(&mut there).await.unwrap().unwrap().take().unwrap() == large);
            assert!(there.try_recv().unwrap().is_none());
        };
        tokio::join!(sends, polls);
        let (mut sender, _receiver) = here.split();
        drop(sender.close().await.unwrap());
        assert!(polled(&mut there).await.unwrap().is_none());
        assert!(there.try_recv().unwrap().unwrap().is_none(), "and it remains so");
    })
    .await;
}

#[tokio::test]
async fn a_session_that_is_polled_learns_that_it_is_refused_or_has_expired() {
    within(async {
        let alice = node().await;
        let deaf = builder().config(|config| config.takes.messages = false).build().await.unwrap();
        let mut here = alice.peer(deaf.peer_addr()).session("chat").unwrap().open().await.unwrap();
        let end = polled(&mut here).await.unwrap_err();
        assert!(matches!(end, SessionError::Ended(SessionEnd::Refused(_))), "{end}");

        let bob = node().await;
        let new = alice.peer(bob.peer_addr()).session("chat").unwrap();
        let mut here = new.idle(Duration::from_millis(30)).open().await.unwrap();
        let mut there = bob.accept_session().await.unwrap();
        let expired = SessionError::Ended(SessionEnd::Expired);
        assert_eq!(polled(&mut there).await.unwrap_err(), expired);
        assert_eq!(polled(&mut here).await.unwrap_err(), expired);
    })
    .await;
}

#[tokio::test]
async fn a_message_has_the_trace_of_its_sender() {
    within(async {
        let (alice, bob) = (node().await, node().await);
        let (mut here, mut there) = session(&alice, &bob).await;
        let parent: Traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".parse().unwrap();
        // The second one goes in parts.
        for body in [bytes(10), bytes(200_000)] {
            drop(here.send(Message::new(body.clone()).traceparent(parent)).await.unwrap());
            let message = there.recv().await.unwrap().unwrap();
            assert_eq!(message.traceparent(), Some(parent));
            assert!(message.take().unwrap() == body);
        }
        drop(here.send("plain").await.unwrap());
        assert_eq!(there.recv().await.unwrap().unwrap().traceparent(), None);
    })
    .await;
}

#[tokio::test]
async fn both_ends_talk_in_order_and_close() {
    within(async {
        let (alice, bob) = (node().await, node().await);
        let (mut here, mut there) = session(&alice, &bob).await;
        assert_eq!((here.id(), here.name()), (there.id(), there.name()));
        assert!(here.is_client() && !there.is_client());
        assert_eq!(there.peer().id(), alice.id());
        let mut receipts = Vec::new();
        for n in 0..200 {
            receipts.push(here.send(n.to_string()).await.unwrap());
            receipts.push(there.try_send(format!("-{n}")).unwrap());
        }
        for n in 0..200 {
            assert_eq!(next(&mut there).await.unwrap(), n.to_string());
            assert_eq!(next(&mut here).await.unwrap(), format!("-{n}"));
        }
        for receipt in receipts {
            assert_eq!(receipt.await.outcome, Outcome::Delivered);
        }
        let (mut sender, mut receiver) = here.split();
        let end = sender.close().await.unwrap();
        assert_eq!(sender.send("late").await.unwrap_err(), SessionSendError::Closing);
        assert_eq!(next(&mut there).await, None);
        assert_eq!(end.await.outcome, Outcome::Delivered);
        drop(there.send("the last word").await.unwrap());
        let (closed, last) = tokio::join!(there.close(LATE), async {
            let last = receiver.recv().await.unwrap().unwrap().take().unwrap();
            (last, receiver.recv().await.unwrap().is_none())
        });
        assert_eq!((closed, &last.0[..], last.1), (Ok(()), &b"the last word"[..], true));
        assert!(alice.try_recv().is_none() && bob.try_recv().is_none(), "none of it is a message beside");
    })
    .await;
}

#[tokio::test]
async fn halves_are_put_together_again_and_only_those_of_one_session() {
    within(async {
        let (alice, bob) = (node().await, node().await);
        let (here, there) = session(&alice, &bob).await;
        let (sender, receiver) = here.split();
        let (other_sender, other_receiver) = there.split();
        let (sender, other_receiver) = Session::unsplit(sender, other_receiver).unwrap_err();
        let mut here = Session::unsplit(sender, receiver).unwrap();
        let mut there = Session::unsplit(other_sender, other_receiver).unwrap();
        drop(here.send("hello").await.unwrap());
        assert_eq!(next(&mut there).await.unwrap(), "hello");
        let (closed, left) = tokio::join!(here.close(LATE), next(&mut there));
        closed.unwrap();
        assert!(left.is_none());
    })
    .await;
}

#[tokio::test]
async fn the_longest_message_is_that_also_in_one_part() {
    within(async {
        let (alice, bob) = (node().await, node().await);
        let (mut here, there) = session(&alice, &bob).await;
        let mut there = there.longest(1_000);
        let long = here.send(bytes(1_001)).await.unwrap();
        let fits = here.send(bytes(1_000)).await.unwrap();
        assert_eq!(next(&mut there).await.unwrap().len(), String::from_utf8_lossy(&bytes(1_000)).len());
        assert!(matches!(long.await.outcome, Outcome::Rejected { .. }));
        assert_eq!(fits.await.outcome, Outcome::Delivered);
    })
    .await;
}

#[tokio::test]
async fn a_message_of_any_size_keeps_its_boundaries() {
    within(async {
        let (alice, bob) = (node().await, node().await);
        let (mut here, there) = session(&alice, &bob).await;
        let mut there = there.longest(400_000);
        let (large, larger) = (bytes(300_000), bytes(400_001));
        let writes = async {
            let large = here.send(Message::new(large.clone()).confirm(Confirm::Processed)).await.unwrap();
            let larger = here.send(larger.clone()).await.unwrap();
            let (sender, _) = here.both();
            let mut chunks = sender.begin("").unwrap();
            for chunk in ["in ", "", "three ", "chunks"] {
                chunks.write(chunk.as_bytes()).await.unwrap();
                chunks.flush().await.unwrap();
            }
            let chunks = chunks.finish().await.unwrap();
            // A message that is not finished leaves no trace.
            let mut left = sender.begin("").unwrap();
            left.write(b"never").await.unwrap();
            left.flush().await.unwrap();
            drop(left);
            let empty = sender.send("").await.unwrap();
            (large.await.outcome, larger.await.outcome, chunks.await.outcome, empty.await.outcome)
        };
        let reads = async {
            let first = there.recv().await.unwrap().unwrap();
            assert!(first.body() == &large && first.attempt() == 1);
            drop(first);
            let again = there.recv().await.unwrap().unwrap();
            assert!(again.body() == &large && again.is_redelivered(), "the whole comes again");
            again.ack_with(9).unwrap();
            assert_eq!(next(&mut there).await.unwrap(), "in three chunks");
            assert_eq!(next(&mut there).await.unwrap(), "");
        };
        let (outcomes, ()) = tokio::join!(writes, reads);
        assert!(matches!(outcomes.0, Outcome::Processed { status: 9, .. }), "{outcomes:?}");
        assert!(matches!(outcomes.1, Outcome::Rejected { .. }), "it is longer than the reader takes");
        assert_eq!((outcomes.2, outcomes.3), (Outcome::Delivered, Outcome::Delivered));
        let long = here.try_send(vec![0; 70_000]).unwrap_err();
        assert!(long.to_string().contains("70000"), "{long}");
        assert_eq!(here.try_send(Message::new("x").tag("t")).unwrap_err(), SessionSendError::Tagged);
    })
    .await;
}

#[tokio::test]
async fn names_ids_and_handles_are_checked() {
    within(async {
        let (alice, bob) = (node().await, node().await);
        let to = alice.peer(bob.peer_addr());
        assert_eq!(to.session("").unwrap_err(), SessionOpenError::Name(0));
        assert_eq!(to.session(vec![b'x'; 201]).unwrap_err(), SessionOpenError::Name(201));
        assert_eq!(to.stream(&[0_u8, 1][..]).unwrap_err(), OpenError::Reserved);
        assert!("12".parse::<SessionId>().is_err() && "+123456789abcdef".parse::<SessionId>().is_err());
        let (here, _there) = session(&alice, &bob).await;
        let id = here.id();
        assert_eq!(id.to_string().parse(), Ok(id));
        let again = to.session("chat").unwrap().attach(id);
        assert_eq!(again.unwrap_err(), SessionOpenError::InUse);
        let listener = bob.session_listener("jobs").unwrap();
        assert_eq!(bob.session_listener("jobs").unwrap_err(), SessionOpenError::Listened);
        let job = to.session("jobs").unwrap().open().await.unwrap();
        assert_eq!(listener.accept().await.unwrap().id(), job.id());
    })
    .await;
}

/// The id of a session has no meaning under another key.
#[tokio::test]
async fn a_guessed_id_names_no_session() {
    within(async {
        let (alice, bob, eve) = (node().await, node().await, node().await);
        let (here, mut there) = session(&alice, &bob).await;
        let mut guess = eve.peer(bob.peer_addr()).session("chat").unwrap().attach(here.id()).unwrap();
        let told = guess.send("let me in").await.unwrap();
        let accepts = tokio::spawn({
            let bob = bob.clone();
            async move { bob.accept_session().await.map(|session| session.peer().id()) }
        });
        let (_sender, mut receiver) = guess.split();
        assert_eq!(rest(&mut receiver).await, SessionError::Ended(SessionEnd::Forgotten));
        assert_ne!(told.await.outcome, Outcome::Delivered, "nobody has it");
        accepts.abort();
        let mut here = here;
        drop(here.send("as ever").await.unwrap());
        assert_eq!(next(&mut there).await.unwrap(), "as ever");
    })
    .await;
}

#[tokio::test]
async fn a_refused_session_says_why_and_delivers_nothing() {
    within(async {
        let (alice, bob) = (node().await, node().await);
        let mut here = alice.peer(bob.peer_addr()).session("chat").unwrap().open().await.unwrap();
        let sent = here.send("hello").await.unwrap();
        bob.accept_session().await.unwrap().refuse("not today");
        let end = SessionEnd::Refused("not today".into());
        assert_eq!(here.recv().await.unwrap_err(), SessionError::Ended(end.clone()));
        assert_eq!(here.ended(), Some(end.clone()));
        assert_eq!(here.send("again").await.unwrap_err(), SessionSendError::Ended(end));
        assert!(matches!(sent.await.outcome, Outcome::Rejected { .. }));
    })
    .await;
}

/// Either side may end a session for a reason. The other side gets what was sent before.
#[tokio::test]
async fn a_session_that_ends_for_a_reason_says_it_behind_all_that_was_sent() {
    within(async {
        let (alice, bob) = (node().await, node().await);
        for by_client in [true, false] {
            let (here, there) = session(&alice, &bob).await;
            let (one, mut other) = if by_client { (here, there) } else { (there, here) };
            let (mut sender, mut receiver) = one.split();
            drop(sender.send("last").await.unwrap());
            let told = sender.refuse("out of paper").await.unwrap();
            let end = SessionEnd::Refused("out of paper".into());
            assert_eq!(next(&mut other).await.unwrap(), "last");
            assert_eq!(other.recv().await.unwrap_err(), SessionError::Ended(end.clone()));
            assert_eq!(receiver.recv().await.unwrap_err(), SessionError::Ended(end.clone()));
            assert_eq!(sender.send("more").await.unwrap_err(), SessionSendError::Ended(end));
            assert_eq!(told.await.outcome, Outcome::Delivered);
        }
    })
    .await;
}

#[tokio::test]
async fn an_abort_is_told_and_a_detached_session_goes_on() {
    within(async {
        let (alice, bob) = (node().await, node().await);
        let (here, mut there) = session(&alice, &bob).await;
        here.abort();
        assert_eq!(there.recv().await.unwrap_err(), SessionError::Ended(SessionEnd::Aborted));
        drop(there);

        let (here, mut there) = session(&alice, &bob).await;
        let id = here.detach();
        drop(there.send("are you there?").await.unwrap());
        let mut again = alice.accept_session().await.unwrap();
        assert_eq!((again.id(), again.name().as_ref()), (id, &b"chat"[..]));
        assert!(again.is_client());
        assert_eq!(next(&mut again).await.unwrap(), "are you there?");
        assert_eq!(again.detach(), id);
        let to = alice.peer(bob.peer_addr());
        let mut attached = to.session("chat").unwrap().attach(id).unwrap();
        drop(attached.send("yes").await.unwrap());
        assert_eq!(next(&mut there).await.unwrap(), "yes");
    })
    .await;
}

#[tokio::test]
async fn a_session_that_is_silent_or_old_expires_at_both_ends() {
    within(async {
        let (alice, bob) = (node().await, node().await);
        let to = alice.peer(bob.peer_addr());
        let soon = Duration::from_millis(30);
        let new = || to.session("chat").unwrap();
        for session in [new().idle(soon), new().idle(Duration::ZERO).life(soon)] {
            let mut here = session.open().await.unwrap();
            let mut there = bob.accept_session().await.unwrap();
            let expired = SessionError::Ended(SessionEnd::Expired);
            assert_eq!(there.recv().await.unwrap_err(), expired);
            assert_eq!(here.recv().await.unwrap_err(), expired);
            assert_eq!(here.ended(), Some(SessionEnd::Expired));
        }
        // An end that only sends does not extend the life of the session.
        let mut here = new().idle(Duration::from_nanos(1)).open().await.unwrap();
        let late = here.send("late").await.unwrap_err();
        assert_eq!(late, SessionSendError::Ended(SessionEnd::Expired));
    })
    .await;
}

#[tokio::test]
async fn a_peer_has_so_many_sessions_and_no_more() {
    within(async {
        let (alice, bob) = (node().await, node().await);
        let to = alice.peer(bob.peer_addr());
        let (mut here, mut there) = (Vec::new(), Vec::new());
        for _ in 0..PER_PEER {
            here.push(to.session("chat").unwrap().open().await.unwrap());
            there.push(bob.accept_session().await.unwrap());
        }
        let more = to.session("chat").unwrap().open().await;
        assert_eq!(more.unwrap_err(), SessionOpenError::TooMany(PER_PEER));
        // A client that does not count its sessions is told by the server.
        let left = here.pop().unwrap().detach();
        let mut one_more = to.session("chat").unwrap().open().await.unwrap();
        let bobs = bob.clone();
        let accepts = tokio::spawn(async move { bobs.accept_session().await.map(drop) });
        let end = one_more.recv().await.unwrap_err();
        assert!(matches!(end, SessionError::Ended(SessionEnd::Refused(_))), "{end:?}");
        // A session that ends makes room.
        drop((one_more, there.pop()));
        drop(to.session("chat").unwrap().attach(left).unwrap());
        let _next = to.session("chat").unwrap().open().await.unwrap();
        accepts.await.unwrap().unwrap();
    })
    .await;
}

/// A session outlives both processes if they keep journals.
#[tokio::test]
async fn a_session_goes_on_after_either_process() {
    let home = tempfile::tempdir().unwrap();
    let (here, there) = (home.path().join("here"), home.path().join("there"));
    within(async {
        let (mut alice, mut bob) = (stored(&here, "127.0.0.1:0").await, stored(&there, "127.0.0.1:0").await);
        let address = bob.peer_addr();
        let bind = address.hints().next().unwrap();
        let (mut client, mut server) = session(&alice, &bob).await;
        let id = client.id();
        for round in 0..3 {
            drop(client.send(format!("{round} to bob")).await.unwrap());
            assert_eq!(next(&mut server).await.unwrap(), format!("{round} to bob"));
            drop(server.send(format!("{round} to alice")).await.unwrap());
            assert_eq!(next(&mut client).await.unwrap(), format!("{round} to alice"));
            if round == 0 {
                // The server ends; messages that it had sent and that are not settled are still delivered.
                drop(server.send("before the end").await.unwrap());
                bob.close(Duration::ZERO).await;
                drop((server, bob));
                bob = stored(&there, &bind).await;
                assert_eq!(next(&mut client).await.unwrap(), "before the end");
                drop(client.send("anybody?").await.unwrap());
                server = bob.accept_session().await.unwrap();
                assert_eq!((server.id(), server.name().as_ref()), (id, &b"chat"[..]));
                assert_eq!(next(&mut server).await.unwrap(), "anybody?");
            } else {
                // The client ends; it has kept the id.
                alice.close(LATE).await;
                drop((client, alice));
                alice = stored(&here, "127.0.0.1:0").await;
                assert_eq!(alice.sessions(), [(bob.id(), id, "chat".into())]);
                client = alice.peer(&address).session("chat").unwrap().attach(id).unwrap();
            }
        }
    })
    .await;
}

/// A side that has forgotten the session says so: it does not silently begin anew.
#[tokio::test]
async fn a_server_that_has_forgotten_says_so() {
    let home = tempfile::tempdir().unwrap();
    within(async {
        let memory = |bind: String| {
            let state = home.path().join("bob");
            async move {
                builder().state_dir(&state).durability(Durability::Memory).bind(&bind).build().await.unwrap()
            }
        };
        let (alice, bob) = (node().await, memory("127.0.0.1:0".to_owned()).await);
        let bind = bob.peer_addr().hints().next().unwrap();
        let (mut here, mut there) = session(&alice, &bob).await;
        drop(here.send("1").await.unwrap());
        assert_eq!(next(&mut there).await.unwrap(), "1");
        drop((there, bob.close(LATE).await, bob));
        let bob = memory(bind).await;
        let accepts = tokio::spawn(async move { bob.accept_session().await.map(drop) });
        drop(here.send("2").await.unwrap());
        let (_sender, mut receiver) = here.split();
        assert_eq!(rest(&mut receiver).await, SessionError::Ended(SessionEnd::Forgotten));
        accepts.abort();
    })
    .await;
}

#[tokio::test]
async fn events_tell_what_happens_beside_messages() {
    within(async {
        let (alice, bob) = (node().await, node().await);
        let to = alice.peer(bob.peer_addr());
        let here = to.session("chat").unwrap().open().await.unwrap();
        let mut events = here.events();
        let mut watch = to.watch();
        let (mut sender, mut receiver) = here.split();
        let mut there = bob.accept_session().await.unwrap();
        let reads = tokio::spawn(async move {
            let got = receiver.recv().await.unwrap().unwrap().take().unwrap();
            let end = receiver.recv().await.unwrap().is_none();
            (got, end, receiver)
        });
        drop(there.send("hello").await.unwrap());
        let first = [events.next().await.unwrap(), events.next().await.unwrap()];
        assert!(first.contains(&SessionEvent::Accepted), "{first:?}");
        assert!(first.contains(&SessionEvent::Connected(bob.local_addr())), "{first:?}");
        assert_eq!(watch.next().await, Ok(PeerEvent::Connected(bob.local_addr())));
        let (closed, (got, end, receiver)) = tokio::join!(there.close(LATE), async { reads.await.unwrap() });
        assert_eq!((closed, &got[..], end), (Ok(()), &b"hello"[..], true));
        assert_eq!(events.next().await, Ok(SessionEvent::Closing));
        drop(sender.close().await.unwrap());
        assert_eq!(events.next().await, Ok(SessionEvent::Ended(SessionEnd::Closed)));
        drop((sender, receiver));
        alice.close(LATE).await;
        assert!(events.next().await.is_err() && watch.next().await.is_err());
    })
    .await;
}

/// A peer that does not answer is away, and is back when it answers.
#[tokio::test]
async fn a_peer_that_does_not_answer_is_away_until_it_does() {
    let home = tempfile::tempdir().unwrap();
    within(async {
        let (alice, bob) = (node().await, stored(home.path(), "127.0.0.1:0").await);
        let bind = bob.peer_addr().hints().next().unwrap();
        let (mut here, mut there) = session(&alice, &bob).await;
        let mut events = here.events();
        drop(here.send("1").await.unwrap());
        assert_eq!(next(&mut there).await.unwrap(), "1");
        // The process ends without a farewell.
        there.detach();
        bob.close(Duration::ZERO).await;
        drop(bob);
        let quiet = std::net::UdpSocket::bind(&bind).unwrap();
        drop(here.send("2").await.unwrap());
        let away = loop {
            match events.next().await.unwrap() {
                SessionEvent::Away(away) => break away,
                SessionEvent::Accepted | SessionEvent::Restarted => {}
                other => panic!("{other:?}"),
            }
        };
        assert!(events.away() >= Some(away));
        drop(quiet);
        let bob = stored(home.path(), &bind).await;
        let mut there = bob.accept_session().await.unwrap();
        let mut told = Vec::new();
        while !told.iter().any(|event| matches!(event, SessionEvent::Back(after) if *after >= away)) {
            told.push(events.next().await.unwrap());
        }
        assert_eq!(events.away(), None);
        assert_eq!(next(&mut there).await.unwrap(), "2");
    })
    .await;
}

#[tokio::test]
async fn objects_are_sent_and_received() {
    within(async {
        let (alice, bob) = (node().await, node().await);
        let (mut here, mut there) = session(&alice, &bob).await;
        drop(here.both().0.send_object(&("tea", 3_u32)).await.unwrap());
        let message = there.recv().await.unwrap().unwrap();
        assert_eq!(message.object::<(String, u32)>().unwrap(), ("tea".to_owned(), 3));
        assert!(message.object::<u32>().is_err());
        message.ack().unwrap();
    })
    .await;
}
