//! Receives copied files: answers the calls of `exon cp` from the store.

use std::sync::Arc;

use bytes::Bytes;
use exonet::call::{Failure as Refused, ReplyStatus, Request, Serving};
use exonet::{Node, NodeId};
use serde::Serialize;
use tokio::sync::mpsc;

use super::taking::Taken;
use crate::copy::{self, Answer, Answers, Entry, Offer, Piece, PieceAnswer};
use crate::failure::Failure;
use crate::store::{Event, Store};

/// The maximum number of calls that are answered at once. Further callers wait.
const ABREAST: usize = 32;

/// The state that all calls share.
struct Desk {
    store: Option<Arc<Store>>,
    tell: mpsc::UnboundedSender<Taken>,
}

/// Answers the calls of `exon cp` until the result is dropped. Events go to `tell`.
pub(in crate::command) fn serve(
    node: &Node,
    store: Option<Arc<Store>>,
    tell: mpsc::UnboundedSender<Taken>,
) -> Result<Vec<Serving>, Failure> {
    let desk = Arc::new(Desk { store, tell });
    let one = |method: &'static str| {
        let desk = Arc::clone(&desk);
        let serve = node.serve(method, move |request| Arc::clone(&desk).answer(method, request));
        let started = serve.concurrency(ABREAST).start();
        started.map_err(|e| Failure::new(format!("cannot serve {method}")).because(&e))
    };
    [copy::OFFER, copy::PIECE, copy::SEAL].into_iter().map(one).collect()
}

impl Desk {
    async fn answer(self: Arc<Self>, method: &'static str, mut request: Request) -> Result<Bytes, Refused> {
        let most = if method == copy::PIECE { copy::LONGEST_PIECE } else { copy::LONGEST_OFFER };
        let (body, from) = (request.body.bytes(most).await?, request.caller);
        // The disk may block, and hashing takes time.
        let work = tokio::task::spawn_blocking(move || match method {
            copy::PIECE => self.piece(from, body),
            copy::OFFER => self.offer(from, &body, Store::offer),
            _ => self.offer(from, &body, |store, key, entry| (store.seal(key, entry), None)),
        });
        work.await.map_err(|error| Refused::new(ReplyStatus::FAILED, error.to_string()))?
    }

    fn offer(
        &self,
        from: NodeId,
        body: &[u8],
        act: impl Fn(&Store, &copy::Hex32, &Entry) -> (Answer, Option<Event>),
    ) -> Result<Bytes, Refused> {
        let offer: Offer = serde_json::from_slice(body).map_err(bad_request)?;
        if offer.v != copy::VERSION {
            return Err(bad_request(format!(
                "version {} is not known here, only {}",
                offer.v,
                copy::VERSION
            )));
        }
        if offer.entries.len() > copy::MOST_ENTRIES {
            return Err(bad_request(format!("more than {} entries", copy::MOST_ENTRIES)));
        }
        let answer = |entry: &Entry| {
            let (answer, event) = match &self.store {
                Some(store) => act(store, &offer.key, entry),
                None => nothing_is_stored(entry.path()),
            };
            self.told(from, event);
            answer
        };
        let answers = offer.entries.iter().map(answer).collect();
        json(&Answers { v: copy::VERSION, answers })
    }

    fn piece(&self, from: NodeId, body: Bytes) -> Result<Bytes, Refused> {
        let (piece, data, hash) = Piece::decode(body).map_err(bad_request)?;
        let (answer, event) = match &self.store {
            Some(store) => store.piece(&piece, &data, hash),
            None => match nothing_is_stored(&piece.file.path) {
                (Answer::Refused { reason }, event) => (PieceAnswer::Refused { reason }, event),
                (_, event) => (PieceAnswer::Held, event),
            },
        };
        self.told(from, event);
        json(&answer)
    }

    fn told(&self, from: NodeId, event: Option<Event>) {
        let taken = match event {
            None => return,
            Some(Event::Stored { path, size, already_there }) => {
                Taken::File { from, path, size, already_there }
            }
            Some(Event::Refused { path, reason }) => Taken::Refused { from, what: path, reason },
            Some(Event::NotNow(error)) => Taken::NotNow { from, error },
        };
        // The event is lost once the command has ended.
        let _ = self.tell.send(taken);
    }
}

fn nothing_is_stored(path: &str) -> (Answer, Option<Event>) {
    let reason = "this listener stores no files: it must be started with --out DIR".to_owned();
    let event = Event::Refused { path: path.to_owned(), reason: reason.clone() };
    (Answer::Refused { reason }, Some(event))
}

#[allow(clippy::needless_pass_by_value, reason = "as `map_err` wants it")]
fn bad_request(error: impl ToString) -> Refused {
    Refused::new(ReplyStatus::BAD_REQUEST, error.to_string())
}

fn json(value: &impl Serialize) -> Result<Bytes, Refused> {
    let written = serde_json::to_vec(value).map(Bytes::from);
    written.map_err(|error| Refused::new(ReplyStatus::FAILED, error.to_string()))
}
