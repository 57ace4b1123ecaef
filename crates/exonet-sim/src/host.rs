//! A node of the world with what surrounds it: its disk, and an application that reads and writes.

use core::net::SocketAddr;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use exonet_proto::node::{
    Batch, BodyRead, BodyWrite, CallId, Config, DeliveryKey, Event, Gap, Incoming, IncomingBody, LetterId,
    MessageKey, Node, Position,
};
use exonet_proto::{MessageId, Mono, NodeId, Now};

use crate::body;
use crate::book::Book;
use crate::judge::Guarded;
use crate::ledger::Keeper;
use crate::life::Life;
use crate::serving::Desk;
use crate::streams::Streams;
use crate::{Breach, Dice, Disk, Ledger};

/// A message whose outcome this host waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub(crate) number: u64,
    pub(crate) to: NodeId,
    pub(crate) call: bool,
}

/// A large message that the application writes in pieces.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Writing {
    pub(crate) number: u64,
    pub(crate) at: usize,
    /// How far the application wants the message to be written.
    pub(crate) upto: usize,
    pub(crate) len: usize,
}

/// A large message that the application reads while it arrives.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    what: Read,
    front: Vec<u8>,
    at: usize,
    spoilt: bool,
}

/// A message that the node has handed out.
#[derive(Clone, Copy, Debug)]
struct Given {
    id: MessageId,
    call: Option<CallId>,
    number: Option<u64>,
    /// For a message of a stream: the gap before it.
    gap: Option<Gap>,
    /// Whether the application rejects it.
    rejected: bool,
    /// How many replies the node had forgotten by then. The application gets the message later, once the journal has
    /// it.
    forgotten: u64,
}

/// The kind of a large message that is being read.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Read {
    Message(MessageId, Option<CallId>),
    /// The reply to this call, and its status.
    Reply(Waiting, u32),
}

#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) node: Node,
    pub(crate) secret: [u8; 32],
    pub(crate) config: Config,
    pub(crate) address: SocketAddr,
    pub(crate) disk: Option<Disk>,
    /// Messages of the previous process, by their names in the journal, and whether each counted as accepted.
    pub(crate) journaled: BTreeMap<LetterId, (Waiting, bool)>,
    /// The end of the journal when a message was sent.
    pub(crate) sent_at: BTreeMap<MessageKey, Position>,
    /// Messages that the node has handed out. The application gets each once the journal is safe up to the position.
    given: VecDeque<(Position, Given)>,
    /// The batch that is being written to the disk, and when it will be durable.
    pub(crate) persisting: Option<(Mono, Batch)>,
    /// How many times the process has died.
    pub(crate) boots: u32,
    /// After this many more inputs of the node, its holdings are counted again.
    pub(crate) audit_in: usize,
    /// Whether a write has failed, so that the node does nothing more.
    pub(crate) stopped: bool,
    /// How many evictions were seen so far.
    pub(crate) evictions: u64,
    pub(crate) waiting: BTreeMap<MessageKey, Waiting>,
    pub(crate) writing: BTreeMap<MessageKey, Writing>,
    pub(crate) reading: BTreeMap<DeliveryKey, Reading>,
    /// Whether it takes messages as soon as they arrive.
    pub(crate) reads: bool,
    /// Whether it decides the fate of each message.
    pub(crate) judges: bool,
    /// Messages that it has under guards.
    pub(crate) guarded: Vec<Guarded>,
    /// Which messages it takes when it reads.
    pub(crate) diet: Diet,
    /// Impostors. The ledger does not have their messages; instead, each of their messages may be taken once at most.
    pub(crate) foes: BTreeSet<NodeId>,
    pub(crate) from_foes: BTreeSet<MessageId>,
    /// The streams that its application reads.
    pub(crate) streams: Streams,
    /// The calls that its application has.
    pub(crate) desk: Desk,
    /// Calls whose large replies ended early.
    pub(crate) broken_off: Vec<Waiting>,
    /// The events of the node, except for outcomes.
    pub(crate) events: Vec<Event>,
    /// The addresses of other nodes that its application knows. They outlive the process.
    pub(crate) book: Book,
    /// When it last sent something to an address that it knows as that of a peer.
    pub(crate) spoke: BTreeMap<SocketAddr, Mono>,
    /// Whether it ends in an orderly way, so that it takes nothing from now on.
    pub(crate) ending: bool,
    /// How many datagrams have left it.
    pub(crate) sent: u64,
    /// Whether it is an old state of an identity that has moved.
    pub(crate) is_copy: bool,
    /// What happens to its machine.
    pub(crate) life: Life,
    /// The dice for its disk.
    pub(crate) dice: Dice,
    /// The numbers of the messages that the application has taken since these were last read.
    pub(crate) took: Vec<Option<u64>>,
}

/// Which messages an application takes.
#[derive(Debug, Default)]
pub(crate) struct Diet {
    /// Whether it takes only calls.
    pub(crate) no_messages: bool,
    /// The methods whose calls it takes; None: all.
    pub(crate) methods: Option<BTreeSet<Bytes>>,
}

impl Diet {
    fn next(&self, node: &mut Node, now: Now) -> Option<Incoming> {
        let message = if self.no_messages { None } else { node.recv(now) };
        message.or_else(|| match &self.methods {
            None => node.take_any_call(now),
            Some(methods) => methods.iter().find_map(|method| node.take_call(now, method)),
        })
    }
}

impl Host {
    pub(crate) fn new(
        node: Node,
        secret: [u8; 32],
        config: Config,
        address: SocketAddr,
        disk: Option<Disk>,
        now: Mono,
    ) -> Self {
        let [.., a, b, c, d] = secret;
        let dice = Dice::new(u64::from(u32::from_be_bytes([a, b, c, d])));
        Self {
            node,
            secret,
            config,
            address,
            disk,
            journaled: BTreeMap::new(),
            sent_at: BTreeMap::new(),
            given: VecDeque::new(),
            persisting: None,
            boots: 0,
            audit_in: 0,
            stopped: false,
            evictions: 0,
            waiting: BTreeMap::new(),
            writing: BTreeMap::new(),
            reading: BTreeMap::new(),
            reads: true,
            judges: false,
            guarded: Vec::new(),
            diet: Diet::default(),
            foes: BTreeSet::new(),
            from_foes: BTreeSet::new(),
            streams: Streams::default(),
            desk: Desk::default(),
            broken_off: Vec::new(),
            events: Vec::new(),
            book: Book::default(),
            spoke: BTreeMap::new(),
            ending: false,
            sent: 0,
            is_copy: false,
            life: Life::new(now),
            dice,
            took: Vec::new(),
        }
    }

    /// When the current write will be done, if there is one and the disk is not stuck.
    pub(crate) fn writes_until(&self) -> Option<Mono> {
        let stuck = self.disk.as_ref().is_some_and(|disk| disk.stuck);
        let persisted = self.persisting.as_ref().map(|(at, _)| *at);
        let appended = self.disk.as_ref().and_then(|disk| disk.journal.as_ref()?.next());
        [persisted, appended].into_iter().flatten().filter(|_| !stuck).min()
    }

    /// Ends the process: everything that it held in memory is lost.
    pub(crate) fn die(&mut self) -> impl Iterator<Item = u64> + use<> {
        self.writing.clear();
        self.break_off();
        self.streams.clear();
        self.desk.clear();
        self.events.clear();
        self.persisting = None;
        self.given.clear();
        self.guarded.clear();
        self.evictions = 0;
        self.stopped = false;
        let mut orphans = Vec::new();
        for (key, waiting) in std::mem::take(&mut self.waiting) {
            let sent_at = self.sent_at.remove(&key).unwrap_or_default();
            match self.node.letter_id(key) {
                Some(id) => drop(self.journaled.insert(id, (waiting, self.node.is_safe(sent_at)))),
                None => orphans.push(waiting),
            }
        }
        self.sent_at.clear();
        orphans.into_iter().chain(std::mem::take(&mut self.broken_off)).map(|waiting| waiting.number)
    }

    /// Stops the reading of all large messages.
    pub(crate) fn break_off(&mut self) {
        for (_, Reading { what, .. }) in std::mem::take(&mut self.reading) {
            if let Read::Reply(call, _) = what {
                self.broken_off.push(call);
            }
        }
    }

    /// Runs the application: it takes what has arrived, and reads and writes large messages.
    pub(crate) fn application(&mut self, now: Now, ledger: &mut Ledger) {
        self.take_given(now, ledger);
        if self.reads && self.judges {
            self.judge_all(now, ledger);
        }
        if self.reads {
            self.read_streams(now, ledger);
            while !self.judges
                && self.life.is_hungry()
                && let Some(incoming) = self.diet.next(&mut self.node, now)
            {
                self.life.bite();
                self.incoming(incoming, ledger);
                self.take_given(now, ledger);
            }
            let keys: Vec<DeliveryKey> = self.reading.keys().copied().collect();
            for key in keys {
                self.read(now, key, ledger);
            }
        }
        self.desk.answer(now, &mut self.node, &mut self.dice, ledger);
        let keys: Vec<MessageKey> = self.writing.keys().copied().collect();
        for key in keys {
            self.write(now, key);
        }
    }

    /// Gives the application each message that was handed out, once the journal has it.
    pub(crate) fn take_given(&mut self, now: Now, ledger: &mut Ledger) {
        while self.given.front().is_some_and(|(at, _)| self.node.is_safe(*at))
            && let Some((_, Given { id, call, number, gap, rejected, forgotten })) = self.given.pop_front()
        {
            if let Some(gap) = gap {
                ledger.had(number, gap);
            }
            if rejected {
                continue;
            }
            self.taken(id, number, forgotten, ledger);
            self.serve(now, call, number);
        }
    }

    /// How many replies this node has forgotten.
    fn forgotten(&self) -> u64 {
        self.node.counts().replies_forgotten
    }

    pub(crate) fn give(
        &mut self,
        id: MessageId,
        call: Option<CallId>,
        number: Option<u64>,
        ledger: &mut Ledger,
    ) {
        ledger.handed(number);
        let forgotten = self.forgotten();
        let given = Given { id, call, number, gap: None, rejected: false, forgotten };
        self.given.push_back((self.node.journal_end(), given));
    }

    /// Like [`Host::give`], for a message of a stream.
    pub(crate) fn give_in_stream(
        &mut self,
        id: MessageId,
        number: Option<u64>,
        gap: Gap,
        ledger: &mut Ledger,
    ) {
        ledger.handed(number);
        let forgotten = self.forgotten();
        let given = Given { id, call: None, number, gap: Some(gap), rejected: false, forgotten };
        self.given.push_back((self.node.journal_end(), given));
    }

    /// Notes that a message of a stream was rejected. The ledger must learn this in the order of the stream.
    pub(crate) fn note_rejected(&mut self, id: MessageId, number: Option<u64>, gap: Gap) {
        let forgotten = self.forgotten();
        let given = Given { id, call: None, number, gap: Some(gap), rejected: true, forgotten };
        self.given.push_back((self.node.journal_end(), given));
    }

    fn incoming(&mut self, incoming: Incoming, ledger: &mut Ledger) {
        match &incoming.body {
            IncomingBody::Whole(body) => {
                let number = body::number_of(&incoming.tag, body);
                self.give(incoming.id, incoming.call, number, ledger);
            }
            IncomingBody::Stream { .. } => {
                self.reading.insert(incoming.key, Reading::new(Read::Message(incoming.id, incoming.call)));
            }
        }
    }

    fn serve(&mut self, now: Now, call: Option<CallId>, number: Option<u64>) {
        if let (Some(call), Some(number)) = (call, number) {
            self.desk.take(now, call, number, &mut self.dice);
        }
    }

    /// Handles a large reply that arrives.
    pub(crate) fn reply_comes(&mut self, delivery: DeliveryKey, call: Waiting, status: u32) {
        self.reading.insert(delivery, Reading::new(Read::Reply(call, status)));
    }

    fn taken(&mut self, id: MessageId, number: Option<u64>, forgotten: u64, ledger: &mut Ledger) {
        if self.is_copy {
            ledger.report(Breach::TakenByCopy(number.unwrap_or_default()));
        } else if !self.foes.contains(&id.sender) {
            let keeper = Keeper { boots: self.boots, forgotten };
            ledger.taken(number, self.node.id(), keeper, id);
            if self.ending {
                ledger.report(Breach::TakenAfterEnd(number.unwrap_or_default()));
            }
            self.took.push(number);
        } else if !self.from_foes.insert(id) {
            ledger.taken_from_foe_again(id.s.0);
        }
    }

    fn read(&mut self, now: Now, key: DeliveryKey, ledger: &mut Ledger) {
        loop {
            let Some(reading) = self.reading.get_mut(&key).filter(|_| self.life.is_hungry()) else {
                return;
            };
            match self.node.body_read(now, key) {
                BodyRead::Data(data) => {
                    self.life.bite();
                    reading.take(&data);
                }
                BodyRead::Pending => return,
                BodyRead::Aborted => {
                    if let Some(Reading { what: Read::Reply(call, _), .. }) = self.reading.remove(&key) {
                        self.broken_off.push(call);
                    }
                    self.node.release(now, key);
                }
                BodyRead::End => {
                    let (number, what) = (reading.number(), reading.what);
                    self.reading.remove(&key);
                    let done = self.node.done(now, key);
                    match what {
                        Read::Message(id, call) if done => {
                            self.give(id, call, number, ledger);
                            self.take_given(now, ledger);
                        }
                        Read::Message(..) => {}
                        Read::Reply(call, status) => ledger.replied(call.number, status, number),
                    }
                }
            }
        }
    }

    fn write(&mut self, now: Now, key: MessageKey) {
        while let Some(writing) = self.writing.get_mut(&key) {
            let room = (writing.upto.min(writing.len) - writing.at).min(64 << 10);
            let mut data = body::part(writing.number, writing.at, room);
            match self.node.body_write(now, key, &mut data) {
                BodyWrite::Gone => {
                    self.writing.remove(&key);
                }
                BodyWrite::TooLarge { .. } => {
                    self.writing.remove(&key);
                    self.node.abandon(now, key);
                }
                BodyWrite::Taken(0) if writing.at == writing.len => {
                    self.writing.remove(&key);
                    self.node.body_end(now, key);
                }
                BodyWrite::Taken(0) => return,
                BodyWrite::Taken(taken) => writing.at += taken,
            }
        }
    }
}

impl Reading {
    pub(crate) fn new(what: Read) -> Self {
        Self { what, front: Vec::new(), at: 0, spoilt: false }
    }

    fn take(&mut self, data: &Bytes) {
        let missing = 8_usize.saturating_sub(self.front.len()).min(data.len());
        self.front.extend(data.iter().take(missing));
        if let Some(number) = self.front.first_chunk() {
            self.spoilt |= *data != body::part(u64::from_be_bytes(*number), self.at, data.len());
        }
        self.at += data.len();
    }

    fn number(&self) -> Option<u64> {
        self.front.first_chunk().filter(|_| !self.spoilt).map(|number| u64::from_be_bytes(*number))
    }
}
