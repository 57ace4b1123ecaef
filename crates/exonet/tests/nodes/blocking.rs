//! A node in a program without an async runtime.

use std::time::Duration;

use exonet::blocking::{Node, Request, Session};
use exonet::call::{Failure, ReplyStatus};
use exonet::error::{CallError, Closed, SendError};
use exonet::group::Mode;
use exonet::receive::{Filter, NotAnswered};
use exonet::session::{SessionEnd, SessionError, SessionEvent, SessionMessage, SessionSendError};
use exonet::{Allow, Message, Outcome};

const LONG: Duration = Duration::from_secs(50);

fn node() -> Node {
    Node::build(exonet::Node::builder(Allow::anyone()).bind("127.0.0.1:0")).unwrap()
}

#[test]
fn messages_go_and_come_and_nodes_end() {
    let (alice, bob) = (node(), node());
    let to_bob = alice.peer(bob.get_ref().peer_addr());
    let mut receipt = to_bob.send(Message::new("hello").tag("t")).unwrap();
    assert_eq!(receipt.wait_timeout(Duration::ZERO), None);
    let delivery = bob.recv().unwrap();
    assert_eq!((delivery.from(), &delivery.get_ref().tag()[..]), (alice.get_ref().id(), &b"t"[..]));
    drop(delivery);
    let again = bob.recv_timeout(LONG).unwrap().unwrap();
    let id = again.id();
    assert_eq!(again.take().unwrap().body.as_whole().unwrap(), "hello");
    let settled = receipt.wait();
    assert_eq!((settled.outcome, settled.id), (Outcome::Delivered, Some(id)));
    assert!(bob.recv_timeout(Duration::ZERO).unwrap().is_none());
    assert!(to_bob.ping(LONG).unwrap().is_some());
    assert!(alice.flush(Some(LONG)).is_empty() && alice.close(LONG).is_empty());
    bob.close(LONG);
    assert_eq!(bob.recv().unwrap_err(), Closed);
}

#[test]
fn a_message_is_answered_and_sent_on() {
    let (alice, bob) = (node(), node());
    let receipt = alice.peer(bob.get_ref().peer_addr()).send("question").unwrap();
    let tagged = || Message::new("answer").tag(vec![0; 300]);
    let error = bob.recv().unwrap().answer(tagged()).unwrap_err();
    assert_eq!(error.why, NotAnswered::Send(SendError::TagTooLong(300)));
    let back = bob.peer(alice.get_ref().id());
    let error = error.into_delivery().unwrap().ack_and_send(&back, tagged()).unwrap_err();
    let mut question = error.into_delivery().unwrap();
    assert_eq!((question.attempt(), question.bytes(100).unwrap()), (1, "question".into()));
    drop(question.answer("answer").unwrap());
    let to_bob = alice.peer(bob.get_ref().id());
    drop(alice.recv().unwrap().ack_and_send(&to_bob, "thanks").unwrap());
    let thanks = bob.recv().unwrap();
    let error = back.reserve().unwrap().ack_and_send(thanks, tagged()).unwrap_err();
    drop(back.reserve().unwrap().ack_and_send(error.into_delivery().unwrap(), "well").unwrap());
    drop(alice.recv().unwrap().answer("thanks").unwrap());
    assert_eq!(bob.recv().unwrap().take().unwrap().body.as_whole().unwrap(), "thanks");
    assert_eq!(receipt.wait().outcome, Outcome::Delivered);
    let (mut ask, _) = to_bob.stream("s").unwrap().split();
    let asked = ask.send("question").unwrap();
    let (mut answers, mut questions) = bob.accept_stream().unwrap().split();
    let question = questions.recv().unwrap().unwrap();
    let error = answers.ack_and_send(question, tagged()).unwrap_err();
    drop(answers.ack_and_send(error.into_delivery().unwrap(), "answer").unwrap());
    assert_eq!(asked.wait().outcome, Outcome::Delivered);
    let mut here = alice.peer(bob.get_ref().peer_addr()).session("s", |builder| builder).unwrap();
    drop(here.send("question").unwrap());
    let mut there = bob.accept_session().unwrap();
    let question = there.recv().unwrap().unwrap();
    let error = there.answer(question, tagged()).unwrap_err();
    drop(there.answer(error.into_delivery().unwrap(), "answer").unwrap());
    let answer = here.recv().unwrap().unwrap();
    let (mut sender, _) = here.split();
    drop(sender.answer(answer, "thanks").unwrap());
    assert_eq!(there.recv().unwrap().unwrap().take().unwrap(), "thanks");
}

#[test]
fn a_body_is_read_and_written_as_it_goes() {
    const LEN: u64 = 3 << 20;
    let (alice, bob) = (node(), node());
    let to_bob = alice.peer(bob.get_ref().peer_addr());
    let sending = std::thread::spawn(move || {
        to_bob.send_from("", LEN, std::io::Read::take(std::io::repeat(7), LEN)).unwrap().wait()
    });
    let mut delivery = bob.recv().unwrap();
    assert_eq!(delivery.bytes(LEN).unwrap().len() as u64, LEN);
    delivery.ack().unwrap();
    assert_eq!(sending.join().unwrap().outcome, Outcome::Delivered);
}

#[test]
fn functions_that_block_answer_calls() {
    let (alice, bob) = (node(), node());
    let serve = |mut request: Request| match &request.bytes(100)?[..] {
        b"panic" => panic!("as it was asked to"),
        name => Ok::<_, Failure>([b"hello, ", name].concat()),
    };
    let _serving = bob.serve("greet", serve).unwrap();
    let to_bob = alice.peer(bob.get_ref().peer_addr());
    let reply = to_bob.call("greet", "alice", Some(LONG)).unwrap();
    assert_eq!(reply.get_ref().body.as_whole().unwrap(), "hello, alice");
    let error = to_bob.call("greet", "panic", None).unwrap_err();
    assert!(matches!(error, CallError::Failed { status: ReplyStatus::PANICKED, .. }), "{error}");
}

#[test]
fn within_a_runtime_it_blocks_and_does_not_panic() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (alice, bob) = (node(), node());
        let receipt = alice.peer(bob.get_ref().peer_addr()).send("x").unwrap();
        bob.recv().unwrap().ack().unwrap();
        assert_eq!(receipt.wait().outcome, Outcome::Delivered);
    });
}

#[test]
fn there_is_a_way_to_each_kind_of_receiving() {
    let (alice, bob) = (node(), node());
    let to_bob = alice.peer(bob.get_ref().peer_addr());
    let (orders, readings) = (bob.receiver(Filter::any().tag("order")), bob.at_most_once());
    let sent = to_bob.send_batch([Message::new("tea").tag("order"), Message::new("21 degrees")]).unwrap();
    assert!(readings.recv_timeout(LONG).unwrap().unwrap().bytes(100).unwrap() == "21 degrees");
    assert!(orders.recv_timeout(Duration::ZERO).is_ok());
    let mut orders = orders;
    let order = orders.next().unwrap();
    assert_eq!(order.take().unwrap().body.as_whole().unwrap(), "tea");
    assert_eq!(sent.wait().delivered, 2);

    let mut sent = to_bob.send_bodies([b"a", b"b"]).unwrap();
    assert_eq!(sent.wait_timeout(Duration::ZERO), None);
    let mut taken = 0;
    while taken < 2 {
        taken += readings.recv_batch(2).unwrap().count();
    }
    assert_eq!((taken, sent.wait().delivered), (2, 2));
    bob.close(LONG);
    assert!(orders.next().is_none() && readings.recv().is_err());
}

#[test]
fn a_sink_and_a_permit_wait_for_room() {
    let (alice, bob) = (node(), node());
    let to_bob = alice.peer(bob.get_ref().peer_addr());
    let mut sink = to_bob.sink();
    for n in 0..3 {
        sink.feed(n.to_string()).unwrap();
    }
    sink.flush().unwrap();
    let permitted = to_bob.reserve().unwrap().send("3").unwrap();
    for n in 0..4 {
        let mut delivery = bob.recv().unwrap();
        assert_eq!(delivery.bytes(9).unwrap(), n.to_string());
        delivery.ack().unwrap();
    }
    assert_eq!((sink.settled().unwrap().delivered, permitted.wait().outcome), (3, Outcome::Delivered));
    assert!(to_bob.close(LONG).is_empty());
}

#[test]
fn types_go_and_come() {
    let (alice, bob) = (node(), node());
    let half = |n: u32| if n.is_multiple_of(2) { Ok(n / 2) } else { Err("odd".to_owned()) };
    let _serving = bob.serve_typed("half", half).unwrap();
    let to_bob = alice.peer(bob.get_ref().peer_addr());
    assert_eq!(to_bob.call_typed::<_, u32, String>("half", &42, Some(LONG)).unwrap(), 21);
    let odd = to_bob.call_typed::<_, u32, String>("half", &43, Some(LONG)).unwrap_err();
    assert_eq!(odd.to_string(), "the method returned an error: \"odd\"");
    let wrong = to_bob.call_typed::<_, u32, String>("half", "x", Some(LONG)).unwrap_err();
    assert!(wrong.has_not_run() && format!("{wrong:?}").contains("ReplyStatus(bad request)"), "{wrong:?}");
}

#[test]
fn streams_are_in_order_and_are_bytes() {
    let (alice, bob) = (node(), node());
    let to_bob = alice.peer(bob.get_ref().peer_addr());
    let listener = bob.stream_listener("log").unwrap();
    let (mut out, mut answers) = to_bob.stream("log").unwrap().split();
    for n in 0..40 {
        drop(out.send(n.to_string()).unwrap());
    }
    let batch = out.send_batch((40..50).map(|n: i32| n.to_string())).unwrap();
    let end = out.close().unwrap();
    let (mut reply, mut lines) = listener.accept().unwrap().split();
    let mut count = 0;
    while let Some(mut line) = lines.recv().unwrap() {
        assert_eq!(line.bytes(10).unwrap(), count.to_string());
        line.ack().unwrap();
        count += 1;
    }
    assert_eq!((count, end.wait().outcome), (50, Outcome::Delivered));
    assert_eq!(batch.wait().delivered, 10);
    assert!(answers.recv_timeout(Duration::ZERO).unwrap().is_none());
    drop(reply.send("50").unwrap());
    drop(reply.close().unwrap());
    assert_eq!(answers.recv_at_most_once().unwrap().unwrap().bytes(9).unwrap(), "50");
    assert!(answers.recv_timeout(LONG).unwrap().unwrap().is_none(), "it has ended");

    let echo = std::thread::spawn(move || {
        let (mut reader, mut writer) = bob.accept_stream().unwrap().into_bytes();
        std::io::copy(&mut reader, &mut writer).unwrap();
        writer.shutdown().unwrap();
        // The node stays open until its peer has everything.
        bob.close(LONG);
    });
    let (mut reader, mut writer) = to_bob.stream("bytes").unwrap().into_bytes();
    let data = vec![7; 300_000];
    let writing = std::thread::spawn(move || {
        std::io::Write::write_all(&mut writer, &vec![7; 300_000]).unwrap();
        writer.shutdown().unwrap();
        writer
    });
    let mut back = Vec::new();
    std::io::Read::read_to_end(&mut reader, &mut back).unwrap();
    assert_eq!(back, data);
    drop(writing.join().unwrap());
    echo.join().unwrap();
}

#[test]
fn a_stream_to_a_group_is_sent_and_read_by_threads() {
    let (alice, bob, carol) = (node(), node(), node());
    let members = [&bob, &carol].map(|member| member.get_ref().peer_addr());
    let group = alice.group(alice.get_ref().group(members)).unwrap();
    let stream = group.stream("s").unwrap();
    let mut receipts: Vec<_> = (0..20).map(|n| stream.send(Mode::All, n.to_string()).unwrap()).collect();
    let mut end = stream.close().unwrap();
    for member in [&bob, &carol] {
        let (_, mut lines) = member.accept_stream().unwrap().split();
        let mut heard = Vec::new();
        while let Some(batch) = lines.recv_batch(7).unwrap() {
            assert!(batch.len() <= 7);
            heard.extend(batch.map(|line| line.body.as_whole().unwrap().clone()));
        }
        assert_eq!(heard, (0..20).map(|n| n.to_string()).collect::<Vec<_>>());
    }
    assert!(receipts.iter_mut().all(|receipt| receipt.decided().is_reached()) && end.decided().is_reached());
    assert_eq!((stream.departed(), end.ended().len()), (None, 2));
    let mut all = group.send(Mode::All, "beside it").unwrap();
    assert_eq!(all.decided_timeout(Duration::ZERO), None);
    [&bob, &carol].iter().for_each(|member| member.recv().unwrap().ack().unwrap());
    assert!(all.decided().is_reached());
}

/// Both ends of a new session.
fn session(alice: &Node, bob: &Node) -> (Session, Session) {
    let here = alice.peer(bob.get_ref().peer_addr()).session("chat", |session| session).unwrap();
    (here, bob.accept_session().unwrap())
}

/// Calls `look` until it finds something. The library does not wait.
fn polled<T>(mut look: impl FnMut() -> Option<T>) -> T {
    loop {
        if let Some(found) = look() {
            return found;
        }
        std::thread::yield_now();
    }
}

fn text(message: Option<SessionMessage>) -> String {
    String::from_utf8_lossy(&message.unwrap().take().unwrap()).into_owned()
}

#[test]
fn sessions_send_whole_and_in_chunks_and_as_objects() {
    let (alice, bob) = (node(), node());
    let (mut here, there) = session(&alice, &bob);
    let mut there = there.longest(200_000);
    drop(here.send("whole").unwrap());
    let tried = here.try_send("at once").unwrap();
    drop(here.send_object(&("tea", 3_u32)).unwrap());
    let mut chunks = here.begin(Message::new("").confirm(exonet::Confirm::Processed)).unwrap();
    chunks.write(b"in ").unwrap();
    chunks.flush().unwrap();
    chunks.write(b"chunks").unwrap();
    let chunked = chunks.finish().unwrap();
    let mut left = here.begin("").unwrap();
    left.write(b"never").unwrap();
    left.flush().unwrap();
    drop(left);
    let long = here.send(vec![7; 200_001]).unwrap();
    assert!(matches!(
        here.try_send(vec![7; 70_000]),
        Err(SessionSendError::Send(SendError::TooLarge { .. }))
    ));

    assert_eq!(text(there.recv().unwrap()), "whole");
    assert_eq!(text(there.recv_timeout(LONG).unwrap().unwrap()), "at once");
    let object = there.recv().unwrap().unwrap();
    assert_eq!(object.object::<(String, u32)>().unwrap(), ("tea".to_owned(), 3));
    object.ack().unwrap();
    let last = polled(|| there.try_recv().unwrap()).unwrap();
    assert_eq!(last.body(), "in chunks");
    last.ack_with(9).unwrap();
    // The reader rejects the long one, and goes on.
    let ((mut sender, mut receiver), (mut answers, mut questions)) = (here.split(), there.split());
    drop(sender.try_send("try").unwrap());
    drop(sender.send_object("object").unwrap());
    drop(sender.begin("").unwrap().finish().unwrap());
    assert_eq!(text(questions.recv_timeout(LONG).unwrap().unwrap()), "try");
    assert_eq!(text(polled(|| questions.try_recv().unwrap())), "\"object\"");
    assert_eq!(text(questions.recv().unwrap()), "");
    assert!(questions.recv_timeout(Duration::ZERO).unwrap().is_none());
    assert!(matches!(long.wait().outcome, Outcome::Rejected { .. }));
    assert_eq!(tried.wait().outcome, Outcome::Delivered);
    assert!(matches!(chunked.wait().outcome, Outcome::Processed { status: 9, .. }));

    drop(answers.refuse("out of paper").unwrap());
    let end = SessionEnd::Refused("out of paper".into());
    let error = polled(|| receiver.try_recv().map_or_else(Some, |none| none.map(|_| panic!("a message"))));
    assert_eq!(error, SessionError::Ended(end));
    let (sender, questions) = Session::unsplit(sender, questions).unwrap_err();
    assert_eq!(Session::unsplit(sender, receiver).unwrap().get_ref().name(), "chat");
    drop(Session::unsplit(answers, questions).unwrap());
}

#[test]
fn a_thread_waits_for_the_events_of_a_session_or_polls_them() {
    let (alice, bob) = (node(), node());
    let (mut here, there) = session(&alice, &bob);
    let (mut waited, mut watched) = (here.events(), here.events());
    assert_eq!((waited.next_timeout(Duration::ZERO).unwrap(), waited.away()), (None, None));
    let waits = std::thread::spawn(move || {
        let mut told = Vec::new();
        while let Ok(event) = waited.next() {
            told.push(event);
        }
        told
    });
    let (mut answers, _questions) = there.split();
    drop(answers.send("hello").unwrap());
    drop(answers.close().unwrap());
    // A poll of the session also notices its events.
    assert_eq!(text(polled(|| here.try_recv().unwrap())), "hello");
    assert!(polled(|| here.try_recv().unwrap()).is_none());
    let mut told = Vec::new();
    while !told.contains(&SessionEvent::Closing) {
        told.push(polled(|| watched.try_next()));
    }
    assert!(told.contains(&SessionEvent::Accepted), "{told:?}");
    let (mut sender, _receiver) = here.split();
    drop(sender.close().unwrap());
    let ended = SessionEvent::Ended(SessionEnd::Closed);
    assert_eq!(watched.next_timeout(LONG).unwrap(), Some(ended.clone()));
    alice.close(LONG);
    assert_eq!(waits.join().unwrap().last(), Some(&ended));
}
