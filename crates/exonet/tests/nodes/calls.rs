//! Calls between live nodes, over real sockets.

use std::io::Cursor;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::common::{builder, bytes, nobody, node, pair, within};
use exonet::call::{CallId, Failure, Reply, ReplyStatus, Request, Serving};
use exonet::error::{BodyError, CallError, SendError, SendFromError, ServeError, Why};
use exonet::send::{CancelError, Status};
use exonet::{Body, Durability, Node, PeerAddr};
use tokio::io::AsyncReadExt;
use tokio::sync::{Semaphore, mpsc};

const SECOND: Duration = Duration::from_secs(1);

/// Answers with the body of the call.
fn echo(node: &Node) -> Serving {
    let echo = |mut request: Request| async move { request.body.bytes(1 << 30).await };
    node.serve("echo", echo).start().unwrap()
}

/// Calls that report when they begin, and end when they are allowed to.
struct Gate {
    begun: mpsc::UnboundedReceiver<CallId>,
    open: Arc<Semaphore>,
    serving: Serving,
}

fn gate(node: &Node, concurrency: usize) -> Gate {
    let (tell, begun) = mpsc::unbounded_channel();
    let open = Arc::new(Semaphore::new(0));
    let let_in = Arc::clone(&open);
    let handler = move |request: Request| {
        let (tell, let_in) = (tell.clone(), Arc::clone(&let_in));
        async move {
            tell.send(request.id).unwrap();
            let_in.acquire().await.unwrap().forget();
            "let in"
        }
    };
    let serving = node.serve("gate", handler).concurrency(concurrency).start().unwrap();
    Gate { begun, open, serving }
}

/// Lets all other tasks run until `done`.
async fn until(done: impl Fn() -> bool) {
    while !done() {
        tokio::task::yield_now().await;
    }
}

async fn text(reply: Result<Reply, CallError>) -> String {
    String::from_utf8(reply.unwrap().body.bytes(1 << 20).await.unwrap().to_vec()).unwrap()
}

#[track_caller]
fn status(reply: Result<Reply, CallError>) -> ReplyStatus {
    match reply {
        Err(CallError::Failed { status, .. }) => status,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_call_is_answered_once() {
    let (alice, bob) = pair().await;
    let ids = Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = Arc::clone(&ids);
    let handler = move |mut request: Request| {
        seen.lock().unwrap().push(request.id);
        async move {
            assert_eq!((request.caller, &request.method[..]), (request.id.caller, &b"shout"[..]));
            let body = request.body.bytes(100).await?;
            Ok::<_, Failure>(body.to_ascii_uppercase())
        }
    };
    let _serving = bob.serve("shout", handler).await.unwrap();
    within(async {
        let mut reply = alice.peer(bob.peer_addr()).call("shout", "hello").await.unwrap();
        assert_eq!(reply.body.bytes(100).await.unwrap(), "HELLO");
        assert_eq!(reply.id.caller, alice.id());
        assert_eq!(*ids.lock().unwrap(), [reply.id], "one name at both ends");
        assert!(bob.at_most_once().try_recv().is_none(), "a call is no message");
        until(|| bob.stats().computing == 0).await;
        let (made, served) = (alice.stats(), bob.stats());
        assert_eq!((made.calls, made.calls_replied, made.calls_unknown, served.calls_served), (1, 1, 0, 1));
        // In the other direction, where no method is served.
        assert_eq!(status(bob.peer(alice.id()).call("shout", "").await), ReplyStatus::NO_SUCH_METHOD);
    })
    .await;
}

#[tokio::test]
async fn bodies_of_any_size_go_both_ways() {
    let (alice, bob) = pair().await;
    let _serving = echo(&bob);
    within(async {
        for size in [0, 1_040, 1_041, 70_000, 1_000_000, 5_000_000] {
            let sent = bytes(size);
            let mut reply = alice.peer(bob.peer_addr()).call("echo", sent.clone()).await.unwrap();
            assert_eq!(reply.body.is_stream(), size > 1 << 20);
            assert!(reply.body.bytes(1 << 30).await.unwrap() == sent, "{size} bytes");
            let to = bob.peer_addr();
            let call = alice.peer(&to).call_from("echo", size as u64, Cursor::new(sent.clone()));
            let mut back = Vec::new();
            call.await.unwrap().body.read_to_end(&mut back).await.unwrap();
            assert!(back == sent, "{size} bytes from a reader");
        }
        assert!(alice.close(10 * SECOND).await.is_empty());
        until(|| bob.stats().replies == 0).await;
    })
    .await;
}

/// An endless body, which counts the bytes that are read.
struct Endless(Arc<AtomicUsize>);

impl tokio::io::AsyncRead for Endless {
    fn poll_read(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
        buf: &mut tokio::io::ReadBuf<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        self.0.fetch_add(buf.remaining(), Ordering::Relaxed);
        buf.put_bytes_all();
        std::task::Poll::Ready(Ok(()))
    }
}

trait Fill {
    fn put_bytes_all(&mut self);
}

impl Fill for tokio::io::ReadBuf<'_> {
    fn put_bytes_all(&mut self) {
        let all = self.remaining();
        self.initialize_unfilled();
        self.advance(all);
    }
}

#[tokio::test]
async fn what_is_not_read_is_not_sent() {
    const LEN: u64 = 1 << 36;
    let (alice, bob) = pair().await;
    let _early = bob.serve("early", |_request: Request| async { "enough" }).start().unwrap();
    let server = bob.clone();
    let drops = move |request: Request| {
        let server = server.clone();
        async move {
            let before = server.stats().computing;
            drop(request.body);
            format!("{before}, then {}", server.stats().computing)
        }
    };
    let _drops = bob.serve("drops", drops).start().unwrap();
    let _long = bob.serve("long", |_request: Request| async { bytes(6_000_000) }).start().unwrap();
    within(async {
        for method in ["early", "drops"] {
            let read = Arc::new(AtomicUsize::new(0));
            let reply = alice.peer(bob.peer_addr()).call_from(method, LEN, Endless(Arc::clone(&read))).await;
            let expected = if method == "early" { "enough" } else { "0, then 1" };
            assert_eq!(text(reply).await, expected, "taken when the rest is not wanted");
            assert!(read.load(Ordering::Relaxed) < 64 << 20, "no more than the window");
        }
        let reply = alice.peer(bob.peer_addr()).call("long", "").await.unwrap();
        assert!(reply.body.is_stream());
        drop(reply);
        until(|| bob.stats().replies == 0).await;
        // Nor is a reply that arrived and was not looked at.
        let unseen = alice.peer(bob.peer_addr()).call("long", "").start().await.unwrap();
        until(|| unseen.status() == Status::Settled).await;
        drop(unseen);
        until(|| bob.stats().replies == 0).await;
        assert_eq!(bob.stats().replies_forgotten, 0);
    })
    .await;
}

#[tokio::test]
async fn a_body_that_cannot_be_had_withdraws_the_call() {
    let (alice, bob) = pair().await;
    let _serving = echo(&bob);
    within(async {
        let short =
            alice.peer(bob.peer_addr()).call_from("echo", 3_000_000, Cursor::new(vec![0; 2_000_000])).await;
        let Err(error @ CallError::Body(SendFromError::Short { read: 2_000_000, len: 3_000_000 })) = short
        else {
            panic!("{short:?}")
        };
        assert!(!error.has_not_run(), "its handler may have acted early");
        assert!(alice.flush(None).await.is_empty());
        let limit = |mut request: Request| async move { request.body.bytes(10).await };
        let _limit = bob.serve("limit", limit).start().unwrap();
        let Err(CallError::Failed { status, mut body, .. }) =
            alice.peer(bob.peer_addr()).call("limit", bytes(11)).await
        else {
            panic!()
        };
        assert_eq!(status, ReplyStatus::BAD_REQUEST);
        let long = BodyError::TooLarge { len: 11, limit: 10 };
        assert_eq!(body.bytes(100).await.unwrap(), long.to_string());
    })
    .await;
}

#[tokio::test]
async fn beyond_the_limit_calls_wait_and_all_else_goes_on() {
    let (alice, bob) = pair().await;
    let (mut gate, _echo) = (gate(&bob, 2), echo(&bob));
    let to = bob.peer_addr();
    within(async {
        let mut calls = Vec::new();
        for _ in 0..5 {
            calls.push(alice.peer(&to).call("gate", "").start().await.unwrap());
        }
        let mut ids = vec![gate.begun.recv().await.unwrap(), gate.begun.recv().await.unwrap()];
        // Later calls and messages pass the calls that wait.
        assert_eq!(text(alice.peer(&to).call("echo", "other").await).await, "other");
        let receipt = alice.peer(&to).send("message").await.unwrap();
        assert_eq!(bob.at_most_once().recv().await.unwrap().body.as_whole().unwrap(), "message");
        receipt.await;
        assert!(gate.begun.try_recv().is_err(), "two run");
        assert_eq!((gate.serving.running(), bob.stats().computing, bob.stats().waiting), (2, 2, 3));
        assert!(
            matches!(calls[4].status(), Status::InDoubt { .. }),
            "not taken, so its slot is not consumed"
        );
        assert_eq!(bob.stats().received, 4, "two calls, the other, the message");
        gate.open.add_permits(5);
        for call in calls {
            assert_eq!(text(call.await).await, "let in");
        }
        while ids.len() < 5 {
            ids.push(gate.begun.recv().await.unwrap());
        }
        ids.dedup();
        assert_eq!(ids.len(), 5, "each ran once");
    })
    .await;
}

#[tokio::test]
async fn a_panic_is_that_of_one_call() {
    let (alice, bob) = pair().await;
    let handler = |request: Request| {
        assert!(request.body.len() != Some(1), "before it awaits");
        async move {
            tokio::task::yield_now().await;
            assert!(request.body.len() != Some(2), "after it has awaited");
            "alive"
        }
    };
    let _serving = bob.serve("panics", handler).concurrency(1).start().unwrap();
    let to = bob.peer_addr();
    within(async {
        for size in [1, 2, 1, 2] {
            assert_eq!(status(alice.peer(&to).call("panics", bytes(size)).await), ReplyStatus::PANICKED);
        }
        assert_eq!(text(alice.peer(&to).call("panics", "").await).await, "alive");
        assert_eq!(status(alice.peer(&to).call("panics", bytes(1)).await), ReplyStatus::PANICKED);
    })
    .await;
}

#[tokio::test]
async fn what_nobody_serves_fails_at_once_and_has_not_run() {
    let (alice, bob) = pair().await;
    let to = bob.peer_addr();
    within(async {
        for body in [bytes(5), bytes(3_000_000)] {
            let refused = alice.peer(&to).call("echo", body).await;
            assert!(refused.as_ref().unwrap_err().has_not_run());
            assert_eq!(status(refused), ReplyStatus::NO_SUCH_METHOD);
        }
        let serving = echo(&bob);
        assert_eq!(
            bob.serve("echo", |_: Request| async {}).start().unwrap_err(),
            ServeError::Served("echo".into())
        );
        assert_eq!(
            bob.serve(vec![0; 256], |_: Request| async {}).start().unwrap_err(),
            ServeError::MethodTooLong(256)
        );
        assert_eq!(text(alice.peer(&to).call("echo", "served").await).await, "served");
        assert_eq!(status(alice.peer(&to).call("ech", "").await), ReplyStatus::NO_SUCH_METHOD);
        drop(serving);
        assert_eq!(status(alice.peer(&to).call("echo", "").await), ReplyStatus::NO_SUCH_METHOD);
        let _again = echo(&bob);
        assert_eq!(text(alice.peer(&to).call("echo", "again").await).await, "again");
        let long = alice.peer(&to).call(vec![0; 256], "").await;
        assert!(matches!(long, Err(CallError::Refused(SendError::TagTooLong(256)))));
    })
    .await;
}

#[tokio::test]
async fn a_call_is_cancelled_only_before_it_leaves() {
    let (alice, bob) = pair().await;
    let mut gate = gate(&bob, 8);
    let (lonely, away) = (node().await, nobody().await);
    within(async {
        // No call leaves in an opening that may be repeated.
        let call = lonely.peer(&away).call("gate", "").early(false).start().await.unwrap();
        assert_eq!((call.status(), call.id()), (Status::Queued, None));
        assert_eq!(call.cancel(), Ok(()));
        let cancelled = call.await.unwrap_err();
        assert!(matches!(cancelled, CallError::Cancelled) && cancelled.has_not_run());

        let mut call = alice.peer(bob.peer_addr()).call("gate", "").start().await.unwrap();
        let id = gate.begun.recv().await.unwrap();
        assert_eq!(call.id(), Some(id));
        assert_eq!(call.cancel(), Err(CancelError::InDoubt));
        call.give_up();
        let unknown = call.await.unwrap_err();
        assert!(matches!(unknown, CallError::Unknown { id: Some(i), why: Why::GivenUp } if i == id));
        assert!(!unknown.has_not_run());

        drop(lonely.peer(&away).call("gate", "").start().await.unwrap());
        assert!(lonely.flush(None).await.is_empty(), "withdrawn");
        drop(alice.peer(bob.peer_addr()).call("gate", "").start().await.unwrap());
        assert!(alice.flush(None).await.is_empty(), "who drops a call gives it up");
        gate.open.add_permits(3);
        let done = alice.peer(bob.peer_addr()).call("gate", "").start().await.unwrap();
        assert_eq!(text(done.await).await, "let in");
        gate.open.add_permits(1);
        until(|| bob.stats().replies == 0 && bob.stats().computing == 0).await;
        assert_eq!(bob.stats().replies_forgotten, 0);
    })
    .await;
}

#[tokio::test]
async fn a_deadline_ends_a_call_as_what_is_certain() {
    let (alice, bob) = pair().await;
    let (mut gate, _echo) = (gate(&bob, 8), echo(&bob));
    let (to, away) = (bob.peer_addr(), nobody().await);
    let small = builder().limits(|limits| limits.queued_messages = 1).build().await.unwrap();
    within(async {
        let soon = Duration::from_millis(20);
        let expired = alice.peer(&away).call("gate", "").deadline(soon).await;
        assert!(matches!(expired, Err(CallError::Expired)), "{expired:?}");
        let _first = small.peer(&away).call("gate", "").start().await.unwrap();
        let expired = small.peer(&away).call("gate", "").deadline(soon).await;
        assert!(matches!(expired, Err(CallError::Expired)), "it found no room: {expired:?}");

        // The reply arrives before its deadline, and is looked at after it.
        let early = alice.peer(&to).call("echo", "there").deadline(SECOND).start().await.unwrap();
        let late = alice.peer(&to).call("gate", "").deadline(SECOND).start().await.unwrap();
        let id = gate.begun.recv().await.unwrap();
        let Err(CallError::Unknown { id: name, why }) = late.await else { panic!() };
        assert_eq!((name, why), (Some(id), Why::Deadline));
        assert_eq!(text(early.await).await, "there");
        assert_eq!(alice.stats().calls_unknown, 1);
    })
    .await;
}

#[tokio::test]
async fn a_handler_may_be_given_a_time() {
    let (alice, bob) = pair().await;
    let never = |_: Request| std::future::pending::<&'static str>();
    let _never = bob.serve("never", never).timeout(Duration::from_millis(20)).start().unwrap();
    within(async {
        assert_eq!(status(alice.peer(bob.peer_addr()).call("never", "").await), ReplyStatus::TIMED_OUT);
        assert_eq!(bob.stats().computing, 0);
    })
    .await;
}

#[tokio::test]
async fn a_server_forgets_a_caller_that_is_gone() {
    let bob = builder().config(|config| config.reply_kept = Duration::from_millis(20)).build().await.unwrap();
    let mut gate = gate(&bob, 8);
    within(async {
        let alice = node().await;
        let call = alice.peer(bob.peer_addr()).call("gate", "").start().await.unwrap();
        gate.begun.recv().await.unwrap();
        alice.close(Duration::ZERO).await;
        let gone = call.await;
        assert!(matches!(gone, Err(CallError::Unknown { id: Some(_), why: Why::Closed })), "{gone:?}");
        assert_eq!(bob.stats().computing, 1, "what runs goes on");
        gate.open.add_permits(1);
        until(|| bob.stats().replies_forgotten == 1).await;
        assert_eq!(bob.stats().computing, 0);
    })
    .await;
}

#[tokio::test]
async fn a_server_that_stops_answers_all_that_it_has() {
    let (alice, bob) = pair().await;
    let to = bob.peer_addr();
    within(async {
        let mut first = gate(&bob, 2);
        let mut calls = Vec::new();
        for _ in 0..3 {
            calls.push(alice.peer(&to).call("gate", "").start().await.unwrap());
        }
        first.begun.recv().await.unwrap();
        first.begun.recv().await.unwrap();
        first.open.add_permits(1);
        assert_eq!(text(calls.remove(0).await).await, "let in");
        first.begun.recv().await.unwrap();
        calls.push(alice.peer(&to).call("gate", "").start().await.unwrap());
        until(|| bob.stats().waiting == 1).await;
        assert_eq!(first.serving.stop(Duration::ZERO).await, 2, "cut off");
        let waited = calls.pop().unwrap();
        for call in calls {
            assert_eq!(status(call.await), ReplyStatus::FAILED);
        }
        assert_eq!(status(waited.await), ReplyStatus::NO_SUCH_METHOD);

        let mut second = gate(&bob, 1);
        let call = alice.peer(&to).call("gate", "").start().await.unwrap();
        second.begun.recv().await.unwrap();
        let (open, stop) = (Arc::clone(&second.open), second.serving.stop(10 * SECOND));
        let (left, reply) = tokio::join!(stop, async {
            assert_eq!(status(alice.peer(&to).call("gate", "").await), ReplyStatus::NO_SUCH_METHOD);
            open.add_permits(1);
            call.await
        });
        assert_eq!((left, text(reply).await), (0, "let in".into()), "drained");

        // A node that closes also drains.
        let mut third = gate(&bob, 1);
        let call = alice.peer(&to).call("gate", "").start().await.unwrap();
        let waits = alice.peer(&to).call("gate", "").start().await.unwrap();
        third.begun.recv().await.unwrap();
        until(|| bob.stats().waiting == 1).await;
        let (left, ()) = tokio::join!(bob.close(10 * SECOND), async {
            assert_eq!(status(waits.await), ReplyStatus::DRAINING);
            assert_eq!(bob.serve("x", |_: Request| async {}).start().unwrap_err(), ServeError::Closed);
            third.open.add_permits(1);
            assert_eq!(text(call.await).await, "let in");
        });
        assert!(left.is_empty());
        let refused = bob.peer(alice.peer_addr()).call("gate", "").await;
        assert!(matches!(refused, Err(CallError::Refused(SendError::Closed))));
    })
    .await;
}

#[tokio::test]
async fn a_server_that_starts_anew_knows_of_a_call_what_its_journal_says() {
    for durability in [Durability::Memory, Durability::Process] {
        let home = tempfile::tempdir().unwrap();
        let stored = || builder().state_dir(home.path()).durability(durability);
        let (alice, bob) = (node().await, stored().build().await.unwrap());
        within(async {
            let mut gate = gate(&bob, 1);
            let (to, at) = (bob.peer_addr(), bob.local_addr());
            let call = alice.peer(&to).call("gate", "").start().await.unwrap();
            let id = gate.begun.recv().await.unwrap();
            bob.close(Duration::ZERO).await;
            let bob = stored().bind(at).build().await.unwrap();
            let _echo = echo(&bob);
            match call.await {
                Err(CallError::Unknown { id: name, why }) if durability == Durability::Memory => {
                    assert_eq!((name, why), (Some(id), Why::Lost));
                }
                Err(CallError::Failed { id: name, status, .. }) if durability == Durability::Process => {
                    assert_eq!((name, status), (id, ReplyStatus::FAILED));
                }
                other => panic!("{durability:?}: {other:?}"),
            }
            assert_eq!(text(alice.peer(&to).call("echo", "alive").await).await, "alive");
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_calls_at_once_get_each_its_own_reply() {
    let (alice, bob) = pair().await;
    let ran = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&ran);
    let handler = move |mut request: Request| {
        count.fetch_add(1, Ordering::Relaxed);
        async move {
            let body = request.body.bytes(100).await?;
            tokio::task::yield_now().await;
            Ok::<_, BodyError>(format!("{}, {}", request.id, String::from_utf8_lossy(&body)))
        }
    };
    let _serving = bob.serve("count", handler).concurrency(16).start().unwrap();
    within(async {
        let calls: Vec<_> = (0..1_000)
            .map(|n| {
                let (alice, to) = (alice.clone(), bob.peer_addr());
                tokio::spawn(async move {
                    let mut reply = alice.peer(&to).call("count", n.to_string()).await.unwrap();
                    let body = reply.body.bytes(1_000).await.unwrap();
                    assert_eq!(body, format!("{}, {n}", reply.id));
                })
            })
            .collect();
        for call in calls {
            call.await.unwrap();
        }
        assert_eq!(ran.load(Ordering::Relaxed), 1_000);
        assert_eq!(alice.stats().calls_replied, 1_000);
    })
    .await;
}

#[tokio::test]
async fn a_permit_calls_at_once() {
    let (alice, bob) = pair().await;
    let _echo = echo(&bob);
    within(async {
        let to: PeerAddr = bob.peer_addr();
        let permit = alice.peer(&to).reserve().await.unwrap();
        let call = permit.call("echo", "permitted").unwrap();
        let mut body: Body = call.await.unwrap().body;
        assert_eq!(body.bytes(100).await.unwrap(), "permitted");
    })
    .await;
}
