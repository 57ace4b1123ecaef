//! Messages that are sent one by one while the driver is awake. They wait outside of the node's lock until the next
//! task that takes the lock queues them together.
//!
//! The intake is open for messages of one length to one peer, for as many as the core has room for, and only between
//! two holds of the node's lock. Whoever takes the lock first queues the messages that have come in. So messages keep
//! the order in which they were sent, and the core refuses none that has come in. The intake opens only while the
//! driver is awake. The driver looks at it once more before it sleeps, so a message that comes in need not wake
//! anybody.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use exonet_proto::Mono;
use exonet_proto::node::{Alike, MAX_STREAM_BODY, Outgoing};
use exonet_proto::wire::MAX_TAG;

use crate::peer_addr::PeerAddr;
use crate::send::lot::Lot;
use crate::send::message::Message;
use crate::send::receipt::Receipt;
use crate::shared::Shared;

/// How many messages may wait together, and how many bytes. If there are more, the sender takes the lock.
const MOST: usize = 256;
const MOST_BYTES: usize = 256 << 10;

/// Bodies up to this length in bytes are copied, which costs less than keeping the owner of their bytes.
const COPIED: usize = 256;

/// What messages that wait together have in common: their peer (by handle), their heads, and the length of their
/// bodies.
#[derive(Clone)]
pub(crate) struct Kind {
    pub(crate) to: Arc<PeerAddr>,
    pub(crate) alike: Alike,
    pub(crate) len: usize,
}

impl Kind {
    /// Whether a message is of this kind.
    #[inline]
    fn is(&self, to: &Arc<PeerAddr>, message: &Message, in_stream: bool) -> bool {
        let same = Arc::ptr_eq(&self.to, to) && self.len == message.len();
        same && self.alike.in_stream == in_stream && message.is(&self.alike)
    }

    /// The kind of a message. If it is `in_stream`, its tag names its stream. None: it cannot wait with others.
    pub(crate) fn of(to: &Arc<PeerAddr>, message: &Message, in_stream: bool) -> Option<Self> {
        let alike = message.alike(in_stream)?;
        // The intake must not take a message that the core would refuse.
        let fits = !in_stream || message.len() <= MAX_STREAM_BODY;
        let (to, len) = (Arc::clone(to), message.len());
        (fits && alike.tag.len() <= MAX_TAG).then_some(Self { to, alike, len })
    }
}

/// The bodies of messages that have come in: all of them are short, or none is.
#[derive(Default)]
pub(crate) struct Bodies {
    /// The bytes of all bodies, one after the other.
    pub(crate) short: Vec<u8>,
    pub(crate) long: Vec<Outgoing>,
}

/// The messages that have come in.
pub(crate) struct Gathered {
    pub(crate) kind: Kind,
    pub(crate) bodies: Bodies,
    pub(crate) count: u32,
    /// Set when a message has come in.
    pub(crate) lot: Option<Arc<Lot>>,
}

impl Gathered {
    pub(crate) const fn is_short(&self) -> bool {
        self.kind.len <= COPIED
    }

    /// The bodies, if they are short.
    pub(crate) fn short(&self) -> impl Iterator<Item = &[u8]> {
        // Empty bodies take no bytes.
        let (all, len) = (&self.bodies.short, self.kind.len);
        (0..self.count as usize).map(move |n| all.get(n * len..(n + 1) * len).unwrap_or_default())
    }
}

struct Open {
    gathered: Gathered,
    /// How many more messages the intake takes.
    room: usize,
}

#[derive(Default)]
pub(crate) struct Intake(Mutex<Option<Open>>);

impl Intake {
    fn open(&self) -> MutexGuard<'_, Option<Open>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a message in, if the intake is open for its kind; otherwise leaves it in `message`. If it is
    /// `in_stream`, its tag names its stream.
    pub(crate) fn put(
        &self,
        shared: &Arc<Shared>,
        to: &Arc<PeerAddr>,
        message: &mut Option<Message>,
        in_stream: bool,
    ) -> Option<Receipt> {
        let own = message.as_ref()?;
        let mut open = self.open();
        let fits = |open: &&mut Open| open.gathered.kind.is(to, own, in_stream) && open.room > 0;
        let Open { gathered, room } = open.as_mut().filter(fits)?;
        *room -= 1;
        let at = gathered.count;
        gathered.count += 1;
        let lot = gathered.lot.get_or_insert_with(|| Arc::new(Lot::new(Arc::downgrade(shared))));
        let receipt = Receipt::of_lot(Arc::clone(lot), at);
        if gathered.is_short() {
            // The caller drops the body without any lock, since its destructor is code of the application.
            gathered.bodies.short.extend_from_slice(own.body());
        } else {
            // The message has no deadline, so the time does not matter.
            gathered.bodies.long.extend(message.take().map(|message| message.into_outgoing(Mono(0))));
        }
        Some(receipt)
    }

    /// Opens the intake for `room` messages. It reuses the memory of `bodies`.
    pub(crate) fn begin(&self, kind: Kind, room: usize, bodies: Bodies) {
        let room = room.min(MOST).min(MOST_BYTES / kind.len.max(1));
        let gathered = Gathered { kind, bodies, count: 0, lot: None };
        *self.open() = Some(Open { gathered, room });
    }

    /// Closes the intake, and returns the messages that have come in.
    pub(crate) fn end(&self) -> Option<Gathered> {
        self.open().take().map(|open| open.gathered)
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use exonet_proto::node::{Outcome, Status};

    use super::*;
    use crate::engine::AWAKE;
    use crate::error::SendError;
    use crate::{Allow, Node};

    const LONG: Duration = Duration::from_secs(50);

    /// Two nodes with a channel. The first takes in messages for the second. The test awaits nothing, so no driver
    /// runs.
    async fn pair(queue: usize) -> (Node, Node, Arc<PeerAddr>) {
        let builder = || Node::builder(Allow::anyone()).bind("127.0.0.1:0");
        let alice = builder().limits(|limits| limits.queued_messages = queue).build().await.unwrap();
        let bob = builder().build().await.unwrap();
        let receipt = alice.peer(bob.peer_addr()).send("first").await.unwrap();
        bob.recv().await.unwrap().ack().unwrap();
        receipt.await;
        let to = Arc::new(bob.peer_addr());
        (alice, bob, to)
    }

    fn gather(node: &Node, to: &Arc<PeerAddr>, len: usize, awake: bool) {
        let ((), _, after) = node.shared().step_quietly(|engine, _| {
            engine.armed = if awake { AWAKE } else { Mono::NEVER };
            engine.gather(Kind { to: Arc::clone(to), alike: Alike::default(), len });
        });
        node.shared().finish(after);
    }

    fn put(node: &Node, to: &Arc<PeerAddr>, message: impl Into<Message>) -> Option<Receipt> {
        node.shared().intake.put(node.shared(), to, &mut Some(message.into()), false)
    }

    #[tokio::test]
    async fn what_comes_in_is_sent_in_its_order_and_each_receipt_is_its_own() {
        for len in [0, 2, COPIED, COPIED + 1, 1_100] {
            let (alice, bob, to) = pair(1_000).await;
            gather(&alice, &to, len, true);
            let body = |n: u8| vec![n; len];
            let mut receipts: Vec<_> = (0..9).map(|n| put(&alice, &to, body(n)).unwrap()).collect();
            receipts.push(alice.peer(bob.id()).try_send("the last").unwrap());
            for (n, receipt) in (0..).zip(receipts) {
                let delivery = bob.recv().await.unwrap();
                let whole = delivery.body().as_whole().unwrap();
                assert_eq!(whole, &if n < 9 { body(n) } else { b"the last".to_vec() });
                let id = delivery.id();
                delivery.ack().unwrap();
                let settled = receipt.await;
                assert_eq!((settled.outcome, settled.id), (Outcome::Delivered, Some(id)));
            }
        }
    }

    #[tokio::test]
    async fn what_has_to_be_journaled_does_not_come_in() {
        let home = tempfile::tempdir().unwrap();
        let (_alice, bob, to) = pair(1_000).await;
        let stored = Node::builder(Allow::anyone()).bind("127.0.0.1:0").state_dir(home.path());
        let carol = stored.build().await.unwrap();
        let receipt = carol.peer(bob.peer_addr()).send("first").await.unwrap();
        bob.recv().await.unwrap().ack().unwrap();
        receipt.await;
        gather(&carol, &to, 2, true);
        assert!(put(&carol, &to, "ab").is_none(), "it would count as sent before the journal has it");
    }

    #[tokio::test]
    async fn only_its_kind_comes_in_and_only_while_the_driver_is_awake() {
        let (alice, bob, to) = pair(1_000).await;
        gather(&alice, &to, 2, false);
        assert!(put(&alice, &to, "ab").is_none());
        gather(&alice, &to, 2, true);
        assert!(put(&alice, &to, "abc").is_none());
        assert!(put(&alice, &Arc::new(bob.peer_addr()), "ab").is_none());
        assert!(put(&alice, &to, Message::new("ab").tag("t")).is_none());
        assert!(put(&alice, &to, Message::new("ab").deadline(LONG)).is_none());
        assert!(put(&alice, &to, "ab").is_some());
        // After a few holds of the lock without a message, the intake stays closed.
        (0..9).for_each(|_| drop(alice.peers()));
        assert!(put(&alice, &to, "ab").is_none());
    }

    #[tokio::test]
    async fn messages_of_one_stream_come_in_and_keep_their_order() {
        let (alice, bob, to) = pair(1_000).await;
        let (mut out, _) = alice.peer(bob.peer_addr()).stream("s").unwrap().split();
        drop(out.send("first").await.unwrap());
        let alike = Alike { tag: "s".into(), in_stream: true, ..Alike::default() };
        let ((), _, after) = alice.shared().step_quietly(|engine, _| {
            engine.armed = AWAKE;
            engine.gather(Kind { to: Arc::clone(&to), alike, len: 2 });
        });
        alice.shared().finish(after);
        let put = |message: Message, in_stream| {
            alice.shared().intake.put(alice.shared(), &to, &mut Some(message), in_stream)
        };
        let of = |name: &'static str, body: &'static str| Message::new(body).tag(name);
        let receipts = ["ab", "cd", "ef"].map(|body| put(of("s", body), true).unwrap());
        assert!(put(of("t", "ab"), true).is_none() && put(of("s", "ab"), false).is_none());
        assert!(put(of("s", "ab").deadline(LONG), true).is_none());
        receipts[1].cancel().unwrap();
        drop(out.send("last").await.unwrap());
        let (_, mut lines) = bob.accept_stream().await.unwrap().split();
        for body in ["first", "ab", "ef", "last"] {
            let message = lines.recv_at_most_once().await.unwrap().unwrap();
            assert_eq!(message.body.as_whole().unwrap(), body);
        }
        let [a, b, c] = receipts;
        assert_eq!((a.await.outcome, c.await.outcome), (Outcome::Delivered, Outcome::Delivered));
        assert_eq!(b.await.outcome, Outcome::Cancelled);
    }

    #[tokio::test]
    async fn no_more_comes_in_than_the_queue_has_room_for() {
        let (alice, bob, to) = pair(5).await;
        let permit = alice.peer(bob.id()).reserve().await.unwrap();
        gather(&alice, &to, 2, true);
        let receipts: Vec<_> = core::iter::from_fn(|| put(&alice, &to, "ab")).collect();
        assert_eq!(receipts.len(), 4, "one place is promised");
        assert_eq!(alice.peer(bob.id()).try_send("ab").unwrap_err(), SendError::Full);
        drop(permit.send("cd").unwrap());
        for _ in 0..5 {
            bob.recv().await.unwrap().ack().unwrap();
        }
        for receipt in receipts {
            assert_eq!(receipt.await.outcome, Outcome::Delivered);
        }
    }

    #[tokio::test]
    async fn what_has_come_in_can_be_withdrawn_and_nothing_of_it_is_lost_at_the_end() {
        let (alice, bob, to) = pair(1_000).await;
        gather(&alice, &to, 1, true);
        let [a, b, c] = ["a", "b", "c"].map(|text| put(&alice, &to, text).unwrap());
        assert_eq!((b.settled(), b.id(), b.status()), (None, None, Status::Queued));
        b.cancel().unwrap();
        assert!(b.cancel().is_err() && b.await.outcome == Outcome::Cancelled);
        let taking = tokio::spawn(async move {
            for _ in 0..2 {
                bob.recv().await.unwrap().ack().unwrap();
            }
            bob
        });
        assert!(alice.close(LONG).await.is_empty());
        let _bob = taking.await.unwrap();
        assert_eq!((a.await.outcome, c.await.outcome), (Outcome::Delivered, Outcome::Delivered));
    }

    #[tokio::test]
    async fn what_has_come_in_when_the_node_stops_was_never_sent() {
        let (alice, bob, to) = pair(1_000).await;
        gather(&alice, &to, 1, true);
        let receipts = ["a", "b"].map(|text| put(&alice, &to, text).unwrap());
        alice.shared().stop(None);
        for receipt in receipts {
            assert_eq!(receipt.await.outcome, Outcome::Cancelled);
        }
        assert!(put(&alice, &to, "c").is_none() && bob.try_recv().is_none());
    }
}
