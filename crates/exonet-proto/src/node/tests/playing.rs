//! Two nodes play the traces of streams in PROTOCOL.md. The page shows the packets that these nodes send and the events that their
//! applications get.

use super::*;
use crate::crypto::Opened;
use crate::half::Gap;
use crate::id::Stamp;
use crate::message::{InStream, IncomingBody};
use crate::wire::{self, Bases, Claim, Datagram, Frame, Frames, Head, State, StreamEnd, StreamMark};

const NAME: &str = "log";

/// The lines of the block `exo stream NAME`, without their comments.
fn lines(name: &str) -> Vec<String> {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../PROTOCOL.md")).unwrap();
    let (_, block) = page.split_once(&format!("```exo stream {name}\n")).unwrap();
    let (block, _) = block.split_once("```").unwrap();
    block.lines().map(|line| line.split('#').next().unwrap().trim().to_owned()).collect()
}

/// Two nodes without a journal, and the packets between them.
struct Play {
    pair: Pair,
    /// The packets under way to each end, and their frames as text.
    way: [Vec<(String, Vec<u8>)>; 2],
    sent: Vec<(String, MessageKey)>,
}

impl Play {
    fn new() -> Self {
        let mut play = Self { pair: Pair::open(), way: [Vec::new(), Vec::new()], sent: Vec::new() };
        (0..2).for_each(|end| play.boot(end, 0, 0));
        play
    }

    /// The process of an end begins, and knows nothing but its key and `D`.
    fn boot(&mut self, end: usize, clock: u64, life: u64) {
        let (pair, latest) = (&mut self.pair, Stamp::NONE);
        let key = SecretKey::from_bytes(pair.ends[end].cx.key.expose().to_owned());
        let boot = Boot::Stored { clock, life, latest, strays: Vec::new(), notes: None, journal: None };
        // The numbers of a life are few, so that no frame asks for more.
        let config = Config { clock_block: 100, ..config() };
        pair.ends[end] = Node::new(config, key, boot, [9; 32], pair.now);
        self.write(end);
    }

    /// Completes each write of an end at once.
    fn write(&mut self, end: usize) {
        while let Some(batch) = self.pair.ends[end].poll_persist() {
            self.pair.ends[end].handle_persisted(self.pair.now, batch.lsn);
        }
    }

    /// Plays a line, and writes it with what its end has done.
    fn step(&mut self, line: &str) -> String {
        let act = line.split(" -> ").next().unwrap();
        let (role, what) = act.split_once(' ').unwrap();
        let end = usize::from(role == "receiver");
        let (name, about) = what.split_once('(').map_or((what, ""), |(name, rest)| (name, rest));
        let about = about.trim_end_matches(')').trim_matches('"');
        let now = self.pair.now;
        match name {
            "queue" => {
                self.send(about, StreamEnd::Open);
                return act.to_owned();
            }
            "send" => self.send(about, StreamEnd::Open),
            "finish" => self.send("", StreamEnd::Last),
            "reset" => {
                self.pair.ends[0].cancel_stream(now, &self.pair.ends[1].id(), &NAME.into());
                self.send("", StreamEnd::Reset);
            }
            "revoke" => assert_eq!(self.pair.ends[0].cancel(now, self.key(about)), Ok(Cancel::Asked)),
            "abandon" => self.pair.ends[0].abandon(now, self.key(about)),
            "start" => {
                let life = self.pair.ends[end].cx.life.as_ref().unwrap().number();
                self.boot(end, self.pair.ends[end].cx.clock.limit().0, life);
                self.sent.clear();
            }
            _ => {
                let of = self.way[end].iter().position(|(frames, _)| frames == what);
                let under_way: Vec<_> = self.way[end].iter().map(|(frames, _)| frames).collect();
                let of = of.unwrap_or_else(|| panic!("{line}: under way are {under_way:#?}"));
                let (_, datagram) = self.way[end].remove(of);
                self.pair.deliver(end, 1 - end, &datagram);
            }
        }
        let effects = self.effects(end);
        if effects.is_empty() { act.to_owned() } else { format!("{act} -> {}", effects.join("; ")) }
    }

    fn send(&mut self, body: &str, kind: StreamEnd) {
        let (pair, message) = (&mut self.pair, Bytes::from(body.to_owned()));
        let (id, at) = (pair.ends[1].id(), address(1));
        let message = Outgoing { tag: NAME.into(), body: message, ..Outgoing::default() };
        let key = pair.ends[0].send_in_stream(pair.now, id, &[at], message, kind, false).unwrap();
        self.sent.push((format!("{body:?}"), key));
    }

    fn key(&self, body: &str) -> MessageKey {
        self.sent.iter().find(|(of, _)| *of == format!("{body:?}")).unwrap().1
    }

    /// Returns the actions of an end now and in the next 2 ms, for which it may delay its answer.
    fn effects(&mut self, end: usize) -> Vec<String> {
        let mut effects = Vec::new();
        for _ in 0..3 {
            effects.extend(if end == 0 { self.outcomes() } else { self.taken() });
            let packets = self.packets(end);
            let spoke = !packets.is_empty();
            effects.extend(packets);
            if spoke {
                break;
            }
            self.pair.now.mono += MS;
            // The other end waits: a copy that it would send now says nothing new.
            if self.pair.ends[end].poll_timeout().is_some_and(|at| at <= self.pair.now.mono) {
                self.pair.ends[end].handle_timeout(self.pair.now);
            }
        }
        effects
    }

    /// The outcomes that the sending application hears.
    fn outcomes(&mut self) -> Vec<String> {
        let events: Vec<_> = core::iter::from_fn(|| self.pair.ends[0].poll_event()).collect();
        let heard = |event: &Event| match event {
            Event::Outcome { key, outcome, .. } => {
                let (body, _) = self.sent.iter().find(|(_, of)| of == key)?;
                Some(format!("report {body} {outcome:?}"))
            }
            _ => None,
        };
        events.iter().filter_map(heard).collect()
    }

    /// What the receiving application hears and takes.
    fn taken(&mut self) -> Vec<String> {
        let (now, sender, name) = (self.pair.now, self.pair.ends[0].id(), Bytes::from(NAME));
        let node = &mut self.pair.ends[1];
        let mut heard = Vec::new();
        while let Some(said) = node.take_stream(now, &sender, &name) {
            let InStream { message, gap, end, .. } = said;
            match gap {
                Gap::None => {}
                Gap::Opens => heard.push("tell opens".to_owned()),
                Gap::Breaks => heard.push("tell breaks".to_owned()),
                Gap::Missing(n) => heard.push(format!("tell missing {n}")),
                Gap::Continues(n) => heard.push(format!("tell continues {n}")),
            }
            if gap == Gap::Breaks {
                // The message is not of the stream that this reader reads: another reader takes it.
                node.break_stream(&sender, &name, message.id);
                node.release(now, message.key);
                continue;
            }
            assert!(node.done(now, message.key));
            let IncomingBody::Whole(body) = message.body else { panic!("{:?}", message.body) };
            if !body.is_empty() {
                heard.push(format!("deliver {:?}", String::from_utf8_lossy(&body)));
            }
            heard.extend(match end {
                StreamEnd::Open => None,
                StreamEnd::Last => Some("tell end".to_owned()),
                StreamEnd::Reset => Some("tell reset".to_owned()),
            });
        }
        heard
    }

    /// Takes from both ends what they send now. Packets that have nothing of a half-connection arrive at once.
    fn packets(&mut self, end: usize) -> Vec<String> {
        let mut said = Vec::new();
        loop {
            let mut busy = false;
            for from in 0..2 {
                for (_, datagram) in self.pair.says(from) {
                    busy = true;
                    let text = self.read(from, &datagram);
                    if text.is_empty() {
                        self.pair.deliver(1 - from, from, &datagram);
                        continue;
                    }
                    assert_eq!(from, end, "the other end says {text}");
                    said.push(text.clone());
                    self.way[1 - from].push((text, datagram));
                }
            }
            if !busy {
                return said;
            }
        }
    }

    /// The frames of a datagram that are of a half-connection, as text.
    fn read(&mut self, from: usize, datagram: &[u8]) -> String {
        let mut datagram = datagram.to_vec();
        match Datagram::parse(&mut datagram).unwrap() {
            Datagram::Opening(opening) => {
                let mut payload = [0; wire::MAX_OPENING_PAYLOAD];
                let key = &self.pair.ends[1 - from].cx.key;
                let opened = Opened::read(key, opening.header, opening.noise, [0; 32], &mut payload).unwrap();
                format!("OPENING({})", text(&payload[..opened.payload_len()], Bases::default()))
            }
            Datagram::Answer(answer) => {
                let (peer, ..) = self.pair.ends[1 - from].at(0).unwrap();
                let opening = peer.link.opening.as_mut().unwrap();
                let bases = Bases { sender: 0, receiver: opening.base };
                let payload = opening.initiator.peek(answer.noise);
                format!("ANSWER({})", text(&payload, bases))
            }
            Datagram::Data(data) => {
                let (peer, ..) = self.pair.ends[1 - from].at(0).unwrap();
                let epoch = peer.link.epoch_mut(data.index).unwrap();
                let newest = epoch.received.largest().map(|largest| largest.number);
                let (number, bases) = (wire::expand(data.number, newest), epoch.bases.reversed());
                text(epoch.keys.open.open_in_place(number, data.header, data.sealed).unwrap(), bases)
            }
            other => panic!("{other:?}"),
        }
    }
}

fn text(payload: &[u8], mut bases: Bases) -> String {
    let mut frames = Frames::new(payload, bases);
    let mut said = Vec::new();
    while let Some(frame) = frames.next() {
        let frame = frame.unwrap();
        if let Frame::Params(params) = frame {
            bases.sender = params.base;
            frames.set_bases(bases);
        }
        said.extend(frame_text(&frame));
    }
    said.join(" + ")
}

/// None: the frame is of the channel.
fn frame_text(frame: &Frame<'_>) -> Option<String> {
    Some(match *frame {
        Frame::Ping | Frame::Ack(_) | Frame::Params(_) | Frame::PathChallenge(_) | Frame::PathResponse(_) => {
            return None;
        }
        Frame::Ask(wire::Ask { s, n, l, ts: Stamp::NONE }) => format!("ASK({}, {n}, {})", s.0, l.0),
        Frame::State(State { b: Incarnation(0), r, taken: None, live: Some(claim), free }) => {
            let Claim { hi, lo, up, closed: false, part: false } = claim else { panic!("{claim:?}") };
            assert_eq!(up, hi, "the claim covers all");
            let free: Vec<_> = free.map(|run| format!("{} .. {}", run.start, run.end)).collect();
            format!("STATE({}, {}, {}, {{{}}})", r.0, hi.0, lo.0, free.join(", "))
        }
        Frame::Messages(messages) => {
            assert_eq!((messages.first, messages.last), (None, None), "each message is whole");
            let one = |(s, message): (Slot, &[u8])| {
                let (head, at) = Head::parse(message).unwrap();
                assert_eq!(head.tag, NAME.as_bytes());
                let body = String::from_utf8_lossy(&message[at..]);
                format!("MESSAGES({}, {}, {body:?}, {})", messages.r.0, s.0, place(head.stream.unwrap()))
            };
            messages.whole.map(one).collect::<Vec<_>>().join(" + ")
        }
        Frame::RevokeStream(wire::RevokeStream { r, s, n, name, mark }) => {
            assert_eq!(name, NAME.as_bytes());
            format!("REVOKE_STREAM({}, {}, {n}, {})", r.0, s.0, place(mark))
        }
        Frame::Withdrawn { r, s, n } => format!("WITHDRAWN({}, {}, {n})", r.0, s.0),
        other => panic!("{other:?}"),
    })
}

fn place(mark: StreamMark) -> String {
    let flags = match mark.end {
        StreamEnd::Open => "",
        StreamEnd::Last => ", last",
        StreamEnd::Reset => ", last, reset",
    };
    format!("{}, {}, {}{flags}", mark.age, mark.n, mark.link)
}

#[test]
fn the_traces_of_streams_on_the_page_are_what_nodes_do() {
    for name in ["withdrawal", "reset", "break"] {
        let (mut play, mut written) = (Play::new(), lines("opening"));
        written.extend(lines(name));
        let mut played = Vec::new();
        for line in &written {
            played.push(play.step(line));
            assert_eq!(played.last(), Some(line), "{name}: played:\n{}", played.join("\n"));
        }
    }
}
