//! The sender's end of the conversation about a code: see [`crate::code::meeting`].

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use exonet::call::{Failure as Refused, ReplyStatus, Request as Call, Serving};
use exonet::{Node, NodeId};
use tokio::sync::{mpsc, watch};

use super::manifest::Known;
use crate::code::Code;
use crate::code::meeting::{GUESSES, Key, LONGEST, METHOD, Meeting, Reply, Request, VERSION, same};
use crate::failure::Failure;

/// The maximum number of calls that are answered at once: each costs a few curve multiplications.
const ABREAST: usize = 4;
/// The maximum number of nodes that have sent a share but no proof yet.
const UNPROVEN: usize = 16;

/// An event of an offer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// A node has tried a wrong code. The offer ends after `left` more of them.
    Wrong { from: NodeId, left: u32 },
    /// The node has proven that it knows the code, and is ready to receive.
    Begin { from: NodeId },
    /// The offered files cannot be read.
    Unreadable(String),
}

struct State {
    /// Keys of nodes that have not sent their proof. Each key is valid for one proof.
    met: VecDeque<(NodeId, Key)>,
    left: u32,
    /// The node that knows the code.
    open: Option<NodeId>,
}

/// Answers nodes that try a code.
pub(super) struct Offering {
    code: Code,
    id: NodeId,
    known: watch::Receiver<Known>,
    state: Mutex<State>,
    tell: mpsc::UnboundedSender<Event>,
}

impl Offering {
    pub(super) fn new(
        code: Code,
        id: NodeId,
        known: watch::Receiver<Known>,
        tell: mpsc::UnboundedSender<Event>,
    ) -> Self {
        let state = State { met: VecDeque::new(), left: GUESSES, open: None };
        Self { code, id, known, state: Mutex::new(state), tell }
    }

    /// Answers until the result is dropped.
    pub(super) fn serve(self, node: &Node) -> Result<Serving, Failure> {
        let this = Arc::new(self);
        let answer = move |call: Call| {
            let this = Arc::clone(&this);
            async move { this.call(call).await }
        };
        let started = node.serve(METHOD, answer).concurrency(ABREAST).start();
        started.map_err(|e| Failure::new(format!("cannot serve {METHOD}")).because(&e))
    }

    async fn call(&self, mut call: Call) -> Result<Bytes, Refused> {
        let body = call.body.bytes(LONGEST).await?;
        let bad = |error: serde_json::Error| Refused::new(ReplyStatus::BAD_REQUEST, error.to_string());
        let request: Request = serde_json::from_slice(&body).map_err(bad)?;
        let reply = self.answer(call.caller, request).await;
        let failed = |error: serde_json::Error| Refused::new(ReplyStatus::FAILED, error.to_string());
        Ok(serde_json::to_vec(&reply).map_err(failed)?.into())
    }

    async fn answer(&self, from: NodeId, request: Request) -> Reply {
        match request {
            Request::Meet { v, share } => self.meet(from, v, &share),
            Request::Confirm { proof } => {
                let Some(key) = self.take_key(&from) else {
                    return over("the first request must have a share");
                };
                if !same(key.of_receiver(), proof) {
                    return self.wrong(from);
                }
                self.open(from, &key).await
            }
            Request::Begin => self.begin(from),
        }
    }

    /// Serves the node that was the last to prove that it knows the code.
    fn begin(&self, from: NodeId) -> Reply {
        let open = self.state().open;
        match open {
            Some(open) if open == from => {
                self.tell(Event::Begin { from });
                Reply::Begun
            }
            Some(_) => over("another node has given the code again"),
            None => over("the code must come first"),
        }
    }

    fn meet(&self, from: NodeId, v: u8, share: &str) -> Reply {
        if v != VERSION {
            return over(&format!("version {v} of codes is not known here, only {VERSION}"));
        }
        if self.state().left == 0 {
            return over("too many wrong codes were tried: the offer has ended");
        }
        let (meeting, own) = Meeting::sender(&self.code, &self.id, &from);
        let Some(key) = meeting.finish(share) else { return over("that is not a share") };
        let mut state = self.state();
        state.met.retain(|(known, _)| *known != from);
        if state.met.len() >= UNPROVEN {
            state.met.pop_front();
        }
        state.met.push_back((from, key));
        Reply::Met { share: own }
    }

    /// Takes the key of a node. A key is valid for one proof, so that each guess counts against the limit.
    fn take_key(&self, from: &NodeId) -> Option<Key> {
        let mut state = self.state();
        if state.left == 0 {
            return None;
        }
        let at = state.met.iter().position(|(known, _)| known == from)?;
        state.met.remove(at).map(|(_, key)| key)
    }

    fn wrong(&self, from: NodeId) -> Reply {
        let left = {
            let mut state = self.state();
            state.left = state.left.saturating_sub(1);
            state.left
        };
        self.tell(Event::Wrong { from, left });
        Reply::Wrong { left }
    }

    async fn open(&self, from: NodeId, key: &Key) -> Reply {
        let mut known = self.known.clone();
        let manifest = match known.wait_for(Option::is_some).await {
            Ok(manifest) => manifest.clone(),
            Err(_) => None,
        };
        let manifest = match manifest {
            Some(Ok(manifest)) => manifest,
            Some(Err(why)) => {
                self.tell(Event::Unreadable(why));
                return over("the sender cannot read what it offers");
            }
            None => return over("the sender is about to end"),
        };
        let Ok(manifest) = serde_json::to_string(&*manifest) else { return over("the offer cannot be sent") };
        self.state().open = Some(from);
        Reply::Open { proof: key.of_sender(&manifest), manifest }
    }

    fn tell(&self, event: Event) {
        // The event is lost once the command has ended.
        let _ = self.tell.send(event);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn over(why: &str) -> Reply {
    Reply::Over { why: why.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::meeting::Manifest;
    use crate::copy::Hex32;

    const SENDER: NodeId = NodeId([1; 32]);

    fn offering() -> (Offering, mpsc::UnboundedReceiver<Event>) {
        let manifest = Manifest { names: vec!["f".to_owned()], files: 1, bytes: 1, root: None };
        let (known, events) = (watch::channel(Some(Ok(Arc::new(manifest)))).1, mpsc::unbounded_channel());
        (Offering::new("7-lucky-otter".parse().unwrap(), SENDER, known, events.0), events.1)
    }

    fn meet(offering: &Offering, code: &str, from: NodeId) -> Key {
        let (meeting, share) = Meeting::receiver(&code.parse().unwrap(), &SENDER, &from);
        let Reply::Met { share } = offering.meet(from, VERSION, &share) else { panic!("not met") };
        meeting.finish(&share).unwrap()
    }

    async fn confirm(offering: &Offering, key: &Key, from: NodeId) -> Reply {
        offering.answer(from, Request::Confirm { proof: key.of_receiver() }).await
    }

    #[tokio::test]
    async fn each_guess_counts_and_the_third_ends_the_offer() {
        let (offering, mut events) = offering();
        for left in [2, 1, 0] {
            let from = NodeId([9 + u8::try_from(left).unwrap(); 32]);
            let key = meet(&offering, "7-lucky-puma", from);
            assert_eq!(confirm(&offering, &key, from).await, Reply::Wrong { left });
            assert_eq!(events.try_recv().unwrap(), Event::Wrong { from, left });
        }
        let right = NodeId([2; 32]);
        let (_, share) = Meeting::receiver(&"7-lucky-otter".parse().unwrap(), &SENDER, &right);
        assert!(matches!(offering.meet(right, VERSION, &share), Reply::Over { .. }));
    }

    #[tokio::test]
    async fn a_share_is_good_for_one_proof() {
        let (offering, _events) = offering();
        let from = NodeId([2; 32]);
        let wrong = meet(&offering, "7-lucky-puma", from);
        assert_eq!(confirm(&offering, &wrong, from).await, Reply::Wrong { left: 2 });
        assert!(matches!(confirm(&offering, &wrong, from).await, Reply::Over { .. }));
        let right = meet(&offering, "7-lucky-otter", from);
        assert!(matches!(confirm(&offering, &right, NodeId([3; 32])).await, Reply::Over { .. }));
        let Reply::Open { proof, manifest } = confirm(&offering, &right, from).await else { panic!() };
        assert!(same(proof, right.of_sender(&manifest)));
    }

    #[tokio::test]
    async fn nothing_begins_without_the_code() {
        let (offering, mut events) = offering();
        let from = NodeId([2; 32]);
        assert!(matches!(offering.answer(from, Request::Begin).await, Reply::Over { .. }));
        let zero = Request::Confirm { proof: Hex32([0; 32]) };
        assert!(matches!(offering.answer(from, zero).await, Reply::Over { .. }));
        let key = meet(&offering, "7-lucky-otter", from);
        assert!(matches!(offering.answer(from, Request::Begin).await, Reply::Over { .. }));
        assert!(matches!(confirm(&offering, &key, from).await, Reply::Open { .. }));
        assert!(matches!(offering.answer(NodeId([3; 32]), Request::Begin).await, Reply::Over { .. }));
        assert!(events.try_recv().is_err());
        assert_eq!(offering.answer(from, Request::Begin).await, Reply::Begun);
        assert_eq!(events.try_recv().unwrap(), Event::Begin { from });
    }

    #[tokio::test]
    async fn of_two_that_bring_the_code_at_once_one_begins_and_the_other_is_told() {
        let (offering, mut events) = offering();
        let (first, second) = (NodeId([2; 32]), NodeId([3; 32]));
        for from in [first, second] {
            let key = meet(&offering, "7-lucky-otter", from);
            assert!(matches!(confirm(&offering, &key, from).await, Reply::Open { .. }));
        }
        let Reply::Over { why } = offering.answer(first, Request::Begin).await else { panic!() };
        assert!(why.contains("another node"), "{why}");
        assert_eq!(offering.answer(second, Request::Begin).await, Reply::Begun);
        assert_eq!(events.try_recv().unwrap(), Event::Begin { from: second });
        assert!(events.try_recv().is_err());
    }

    #[tokio::test]
    async fn nodes_that_only_begin_take_no_room() {
        let (offering, _events) = offering();
        (0..100).for_each(|n| drop(meet(&offering, "7-lucky-otter", NodeId([n; 32]))));
        assert_eq!(offering.state().met.len(), UNPROVEN);
        assert_eq!(offering.state().left, GUESSES);
    }
}
