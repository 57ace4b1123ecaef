//! The messages that clients have sent, by the clients' ids.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use exonet::send::{OpenMessage, Status};
use exonet::{Node, Receipt};
use serde_json::{Map, Value, json};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc};

use super::ledger::{Begun, Ledger, Line};
use super::respond::ApiError;
use crate::control::protocol::{Ending, Settled};
use crate::control::{Asker, Handed, Taken};
use crate::failure::Failure;

/// The maximum number of messages without an outcome, for all clients together.
const OPEN: usize = 65_536;
/// The number of messages with an outcome that are remembered, the newest first.
const ENDED: usize = 10_000;

/// A message of a client.
#[derive(Debug)]
struct Entry {
    begun: Begun,
    durable: bool,
    /// The node has accepted it.
    taken: bool,
    /// None: it is being handed to the node, or it has its outcome.
    message: Option<OpenMessage>,
    number: Option<u64>,
    end: Option<Settled>,
}

#[derive(Debug, Default)]
struct Table {
    entries: HashMap<String, Entry>,
    /// The ids of messages without an outcome, by the key with which the book of the node reports them.
    waited: HashMap<u64, String>,
    ended: VecDeque<String>,
    next: u64,
    ledger: Option<Ledger>,
}

/// All messages that clients have sent.
pub(super) struct Sent {
    node: Node,
    table: Mutex<Table>,
    /// Notified when a message changes its state.
    pub(super) changed: Notify,
    places: Arc<Semaphore>,
    tell: mpsc::UnboundedSender<(Settled, OwnedSemaphorePermit)>,
}

/// The state of a client's id.
pub(super) enum Claim {
    /// The id is new: the caller must send the message.
    New(OwnedSemaphorePermit),
    /// The id was used before for the same message.
    Known,
}

/// What the table knows of an accepted message.
pub(super) struct Entered {
    asker: Asker,
    number: Option<u64>,
}

impl Entered {
    /// What the book of `exon up` gets.
    pub(super) fn of(self, receipt: Receipt, size: usize) -> Handed {
        Handed { taken: Taken { receipt, size, asker: Some(self.asker) }, number: self.number }
    }
}

impl Sent {
    /// Opens the table with `left`, the messages that a former run of the identity left open. The result has one
    /// asker for each of them.
    pub(super) fn open(
        node: &Node,
        directory: &Path,
        left: &[(OpenMessage, Receipt)],
    ) -> Result<(Arc<Self>, Vec<Option<Asker>>), Failure> {
        let (ledger, lines) = Ledger::open(directory)?;
        let mut table = Table { ledger: Some(ledger), ..Table::default() };
        lines.into_iter().for_each(|line| table.replay(line));
        let (tell, mut told) = mpsc::unbounded_channel();
        let places = Arc::new(Semaphore::new(OPEN + left.len()));
        let adopted = left.iter().map(|(message, _)| {
            let number = node.waiting(message, 0)?.number?;
            let place = Arc::clone(&places).try_acquire_owned().ok()?;
            let n = table.adopt(number, *message)?;
            Some(Asker { n, tell: tell.clone(), place })
        });
        let adopted = adopted.collect();
        table.end_lost();
        table.compact().map_err(|e| Failure::path("write to", directory, &e))?;
        let (node, table) = (node.clone(), Mutex::new(table));
        let sent = Arc::new(Self { node, table, changed: Notify::new(), places, tell });
        let hearer = Arc::downgrade(&sent);
        tokio::spawn(async move {
            while let Some((settled, place)) = told.recv().await {
                let Some(sent) = hearer.upgrade() else { return };
                sent.table().end(settled);
                drop(place);
                sent.changed.notify_waiters();
            }
        });
        Ok((sent, adopted))
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a message, unless its id is known.
    pub(super) fn claim(&self, begun: &Begun, durable: bool) -> Result<Claim, ApiError> {
        let mut table = self.table();
        if let Some(entry) = table.entries.get(&begun.id) {
            if (&entry.begun.to, &entry.begun.hash) == (&begun.to, &begun.hash) {
                return Ok(Claim::Known);
            }
            return Err(ApiError::new(
                hyper::StatusCode::CONFLICT,
                "id_in_use",
                format!("the id {:?} is that of another message", begun.id),
                "give each message an id of its own, or none",
            ));
        }
        let place = Arc::clone(&self.places).try_acquire_owned().map_err(|_| {
            let message = format!("{OPEN} messages have no outcome yet");
            ApiError::busy("too_many_open", message, "wait for outcomes, or see `exon outbox ls`")
        })?;
        if durable {
            table.write(&Line::Begun(begun.clone())).map_err(|e| no_disk(&e))?;
        }
        let entry =
            Entry { begun: begun.clone(), durable, taken: false, message: None, number: None, end: None };
        table.entries.insert(begun.id.clone(), entry);
        Ok(Claim::New(place))
    }

    /// Whether the node has accepted the message. None: the id is not known.
    pub(super) fn is_taken(&self, id: &str) -> Option<bool> {
        self.table().entries.get(id).map(|entry| entry.taken)
    }

    /// Forgets a message that the node did not accept.
    pub(super) fn forget(&self, id: &str) {
        let mut table = self.table();
        if table.entries.remove(id).is_some_and(|entry| entry.durable) {
            // If the line cannot be written, the id ends as unknown in the next run.
            let _ = table.write(&Line::Gone { id: id.to_owned() });
        }
        drop(table);
        self.changed.notify_waiters();
    }

    /// The node has accepted the message. Returns what the book needs, and whether the acceptance could be written to
    /// the ledger.
    pub(super) fn taken(
        &self,
        id: &str,
        receipt: &Receipt,
        place: OwnedSemaphorePermit,
    ) -> (Entered, Result<(), ApiError>) {
        let message = receipt.open_message();
        let number = message.and_then(|message| self.node.waiting(&message, 0)?.number);
        let mut table = self.table();
        let n = table.next;
        table.next += 1;
        table.waited.insert(n, id.to_owned());
        let durable = table.entries.get_mut(id).is_some_and(|entry| {
            (entry.message, entry.number, entry.taken) = (message, number, true);
            entry.durable
        });
        let written = match number {
            Some(number) if durable => table.write(&Line::Numbered { id: id.to_owned(), number }),
            _ => Ok(()),
        };
        drop(table);
        self.changed.notify_waiters();
        let asker = Asker { n, tell: self.tell.clone(), place };
        (Entered { asker, number }, written.map_err(|e| no_disk(&e)))
    }

    /// Waits until the written lines are on the disk, if the node waits for its journal.
    pub(super) async fn forced(&self) -> Result<(), ApiError> {
        let handle = self.table().ledger.as_ref().map(Ledger::handle);
        let Some(handle) = handle else { return Ok(()) };
        let file = handle.map_err(|e| no_disk(&e))?;
        let synced = tokio::task::spawn_blocking(move || file.sync_data()).await;
        synced.map_err(io::Error::other).and_then(|synced| synced).map_err(|e| no_disk(&e))
    }

    /// The state of a message, as JSON, and its outcome. None: the id is not known.
    pub(super) fn look(&self, id: &str) -> Option<(Value, Option<Ending>)> {
        let (mut told, message, taken, end) = {
            let table = self.table();
            let entry = table.entries.get(id)?;
            let Begun { to, size, at_ms, .. } = &entry.begun;
            let told = json!({
                "id": id, "to": to, "size": size, "at_ms": at_ms, "durable": entry.durable, "number": entry.number,
            });
            (told, entry.message, entry.taken, entry.end.clone())
        };
        let fields = told.as_object_mut()?;
        let Some(end) = end else {
            let now = message.and_then(|message| self.node.waiting(&message, 0));
            let (state, message_id) = match now.map(|now| now.message.status) {
                Some(Status::InDoubt { id, .. }) => ("in_doubt", Some(id.to_string())),
                // The message has its outcome, which has not been reported here yet.
                None if taken => ("in_doubt", None),
                Some(_) | None => ("queued", None),
            };
            fields.insert("state".to_owned(), state.into());
            fields.insert("message_id".to_owned(), message_id.into());
            return Some((told, None));
        };
        put_end(fields, &end);
        Some((told, Some(end.outcome)))
    }
}

fn put_end(fields: &mut Map<String, Value>, end: &Settled) {
    fields.insert("state".to_owned(), "settled".into());
    fields.insert("message_id".to_owned(), end.id.clone().into());
    fields.insert("outcome".to_owned(), end.outcome.name().into());
    fields.insert("late".to_owned(), end.late.into());
    let texts =
        [("reason", &end.reason), ("remedy", &end.remedy), ("receiver_durability", &end.receiver_durability)];
    for (name, value) in texts {
        if let Some(value) = value {
            fields.insert(name.to_owned(), value.clone().into());
        }
    }
    if let Some(judged) = end.judged {
        fields.insert("status".to_owned(), judged.status.into());
        if let Some(attempts) = judged.attempts {
            fields.insert("attempts".to_owned(), attempts.into());
        }
    }
}

fn no_disk(error: &io::Error) -> ApiError {
    let message = format!("cannot record what is sent: {error}");
    let remedy =
        "free some room on the disk of the state directory; ask for the state of the message by its id";
    ApiError::new(hyper::StatusCode::INSUFFICIENT_STORAGE, "no_disk", message, remedy)
}

impl Table {
    fn write(&mut self, line: &Line) -> io::Result<()> {
        self.ledger.as_mut().map_or(Ok(()), |ledger| ledger.append(line))
    }

    fn replay(&mut self, line: Line) {
        match line {
            Line::Begun(begun) => {
                let id = begun.id.clone();
                let entry =
                    Entry { begun, durable: true, taken: true, message: None, number: None, end: None };
                self.entries.insert(id, entry);
            }
            Line::Numbered { id, number } => {
                if let Some(entry) = self.entries.get_mut(&id) {
                    entry.number = Some(number);
                }
            }
            Line::Ended { id, settled } => self.settle(id, settled),
            Line::Gone { id } => drop(self.entries.remove(&id)),
        }
    }

    /// The message with this number continues. Returns the key of its outcome.
    fn adopt(&mut self, number: u64, message: OpenMessage) -> Option<u64> {
        let mut open = self.entries.iter_mut().filter(|(_, entry)| entry.end.is_none());
        let (id, entry) = open.find(|(_, entry)| entry.number == Some(number))?;
        entry.message = Some(message);
        let (id, n) = (id.clone(), self.next);
        self.next += 1;
        self.waited.insert(n, id);
        Some(n)
    }

    /// Ends the messages that are not in the journal and whose outcome was not written.
    fn end_lost(&mut self) {
        let lost = self.entries.iter().filter(|(_, entry)| entry.end.is_none() && entry.message.is_none());
        let lost: Vec<_> = lost.map(|(id, entry)| (id.clone(), entry.number)).collect();
        for (id, number) in lost {
            let reason = match number {
                Some(_) => "the message got its outcome while no gateway ran to record it",
                None => "the process died while it took the message over: it was sent once, or not at all",
            };
            let settled = Settled {
                n: 0,
                outcome: Ending::Unknown,
                reason: Some(reason.to_owned()),
                remedy: Some("ask the receiver".to_owned()),
                id: None,
                late: false,
                early: false,
                receiver_durability: None,
                judged: None,
            };
            self.settle(id, settled);
        }
    }

    fn end(&mut self, settled: Settled) {
        // The next run continues with the message.
        if settled.outcome == Ending::Kept {
            return;
        }
        let Some(id) = self.waited.remove(&settled.n) else { return };
        if self.entries.get(&id).is_some_and(|entry| entry.durable) {
            // If the line cannot be written, the next run reports the outcome as unknown.
            let _ = self.write(&Line::Ended { id: id.clone(), settled: settled.clone() });
        }
        self.settle(id, settled);
        let most = 4 * (self.entries.len() + ENDED);
        if self.ledger.as_ref().is_some_and(|ledger| ledger.lines > most) {
            // If compaction fails now, it is tried again later.
            let _ = self.compact();
        }
    }

    fn settle(&mut self, id: String, settled: Settled) {
        let Some(entry) = self.entries.get_mut(&id) else { return };
        entry.end = Some(settled);
        self.ended.push_back(id);
        if self.ended.len() > ENDED
            && let Some(oldest) = self.ended.pop_front()
        {
            self.entries.remove(&oldest);
        }
    }

    fn compact(&mut self) -> io::Result<()> {
        let mut lines = Vec::new();
        // Messages with an outcome keep their order, so that the oldest are forgotten first in the next run too.
        let open = self.entries.iter().filter(|(_, entry)| entry.end.is_none()).map(|(id, _)| id);
        for id in self.ended.iter().chain(open) {
            let Some(entry) = self.entries.get(id).filter(|entry| entry.durable) else { continue };
            lines.push(Line::Begun(entry.begun.clone()));
            if let Some(number) = entry.number {
                lines.push(Line::Numbered { id: id.clone(), number });
            }
            if let Some(settled) = entry.end.clone() {
                lines.push(Line::Ended { id: id.clone(), settled });
            }
        }
        self.ledger.as_mut().map_or(Ok(()), |ledger| ledger.replace(&lines))
    }
}
