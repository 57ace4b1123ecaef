//! A kept connection as a state machine: frames, bytes and breaks of the link in; frames and bytes out. No I/O.
//!
//! The connection ends when both directions have ended, or when it breaks. Each end then says so ([`Frame::End`]), and
//! remembers the connection until the other end has said so too: the last frame may be lost with a link, and an end
//! that asks again gets it again.

use super::frame::Frame;
use super::way::{Give, Incoming, Lie, Outgoing};

/// How a connection has ended at this end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Both directions have ended.
    Well,
    /// It broke here: a word for programs, and the reason.
    Here(&'static str, String),
    /// It broke at the other end, for this reason.
    There(String),
}

#[derive(Debug)]
pub(super) struct Machine {
    out: Outgoing,
    incoming: Incoming,
    link: Link,
    end: Option<End>,
    /// The other end has said that it has ended.
    heard_end: bool,
}

#[derive(Debug, Default)]
struct Link {
    up: bool,
    started: bool,
    heard: bool,
    said_end: bool,
}

impl Machine {
    /// A connection that holds at most `window` bytes in each direction.
    pub(super) fn new(window: usize) -> Self {
        Self {
            out: Outgoing::new(window),
            incoming: Incoming::new(window),
            link: Link::default(),
            end: None,
            heard_end: false,
        }
    }

    /// The link is new. What was on the way over the former one is lost.
    pub(super) fn link_up(&mut self) {
        self.link = Link { up: true, ..Link::default() };
    }

    pub(super) fn link_down(&mut self) {
        self.link = Link::default();
    }

    /// How many bytes to read from the program now.
    pub(super) fn room(&self) -> usize {
        if self.end.is_some() { 0 } else { self.out.room() }
    }

    /// The program has said this; no bytes mean the end of file.
    pub(super) fn said(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            self.out.finish();
        } else {
            self.out.push(bytes);
        }
    }

    /// What the program gets next, when it has taken what it got before.
    pub(super) fn give(&mut self) -> Option<Give> {
        if self.end.is_some() { None } else { self.incoming.next() }
    }

    /// The program has taken this many bytes; the end of file counts as one.
    pub(super) fn took(&mut self, bytes: u64) {
        self.incoming.took(bytes);
        self.complete();
    }

    /// Breaks the connection, unless it has ended.
    pub(super) fn break_off(&mut self, word: &'static str, reason: impl Into<String>) {
        if self.end.is_none() {
            self.end = Some(End::Here(word, reason.into()));
        }
    }

    fn complete(&mut self) {
        if self.end.is_none() && self.out.is_done() && self.incoming.is_done() {
            self.end = Some(End::Well);
        }
    }

    /// Takes a frame of the other end.
    ///
    /// # Errors
    /// It cannot be true. The link is of no further use.
    pub(super) fn hear(&mut self, frame: Frame) -> Result<(), Lie> {
        if matches!(frame, Frame::Start { .. }) == self.link.heard {
            return Err(Lie::Order);
        }
        self.link.heard = true;
        match (frame, &self.end) {
            (Frame::End(reason), end) => {
                self.heard_end = true;
                match (reason, end) {
                    (Some(reason), None) => self.end = Some(End::There(reason)),
                    (None, None) => return Err(Lie::Early),
                    _ => {}
                }
            }
            // What the other end has sent before it knew.
            (_, Some(_)) => {}
            (Frame::Start { have, room }, None) => self.out.resume(have, room)?,
            (Frame::Data(bytes), None) => self.incoming.data(bytes)?,
            (Frame::Fin, None) => self.incoming.finish()?,
            (Frame::Ack(taken), None) => {
                self.out.ack(taken)?;
                self.complete();
            }
        }
        Ok(())
    }

    /// The next frame to send over this link.
    pub(super) fn next(&mut self) -> Option<Frame> {
        if !self.link.up {
            return None;
        }
        if !self.link.started {
            self.link.started = true;
            return Some(self.incoming.resume());
        }
        // The acknowledgement of the last byte goes first: the other end must not hear of the end before.
        if !matches!(self.end, Some(End::Here(..) | End::There(_)))
            && let Some(ack) = self.incoming.ack()
        {
            return Some(ack);
        }
        match &self.end {
            Some(_) if self.link.said_end => None,
            Some(end) => {
                self.link.said_end = true;
                Some(Frame::End(match end {
                    End::Well => None,
                    End::Here(_, reason) => Some(reason.clone()),
                    End::There(_) => Some("it has heard of the end".to_owned()),
                }))
            }
            None if self.link.heard => self.out.next(),
            None => None,
        }
    }

    /// How the connection has ended.
    pub(super) fn end(&self) -> Option<&End> {
        self.end.as_ref()
    }

    /// Whether both ends know of the end, if the last frame arrives.
    pub(super) fn is_over(&self) -> bool {
        self.end.is_some() && self.heard_end && self.link.said_end
    }

    /// The other end has said something that cannot be true, so nothing that it says counts.
    pub(super) fn hear_no_more(&mut self) {
        self.heard_end = true;
    }

    /// Whether the program here has got everything.
    pub(super) fn gave_all(&self) -> bool {
        self.incoming.is_done()
    }

    /// The numbers of bytes that the program here has said, and has taken.
    pub(super) fn totals(&self) -> (u64, u64) {
        (self.out.read(), self.incoming.taken())
    }
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use proptest::prelude::*;

    use super::*;

    const WINDOW: usize = 300;

    /// One end with its program.
    struct Side {
        machine: Machine,
        /// What the program wants to say, and what it has heard.
        says: Vec<u8>,
        said: usize,
        fin: bool,
        heard: Vec<u8>,
        fins: usize,
        given: Option<Give>,
        /// The bytes on the way to the other end.
        pipe: BytesMut,
        /// The bytes of the other end that are only a part of a frame.
        rest: BytesMut,
    }

    impl Side {
        fn new(says: Vec<u8>) -> Self {
            Self {
                machine: Machine::new(WINDOW),
                says,
                said: 0,
                fin: false,
                heard: Vec::new(),
                fins: 0,
                given: None,
                pipe: BytesMut::new(),
                rest: BytesMut::new(),
            }
        }

        fn speak(&mut self, most: usize) {
            let room = self.machine.room().min(most);
            let next = &self.says[self.said..];
            if room == 0 || self.fin {
            } else if next.is_empty() {
                self.fin = true;
                self.machine.said(&[]);
            } else {
                let part = &next[..room.min(next.len())];
                self.machine.said(part);
                self.said += part.len();
            }
        }

        fn listen(&mut self) {
            let given = self.given.take().or_else(|| self.machine.give());
            match given {
                Some(Give::Bytes(bytes)) => {
                    self.heard.extend_from_slice(&bytes);
                    self.machine.took(bytes.len() as u64);
                }
                Some(Give::Fin) => {
                    self.fins += 1;
                    self.machine.took(1);
                }
                None => {}
            }
        }

        fn send(&mut self, frames: usize) {
            for _ in 0..frames {
                let Some(frame) = self.machine.next() else { break };
                frame.write(&mut self.pipe);
            }
        }

        fn receive(&mut self, pipe: &mut BytesMut, most: usize) {
            let part = pipe.split_to(most.min(pipe.len()));
            self.rest.extend_from_slice(&part);
            while let Some(frame) = Frame::read(&mut self.rest).unwrap() {
                self.machine.hear(frame).unwrap();
            }
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Speak(bool, usize),
        /// A program takes a part, but the keeper does not hear of it before something else happens.
        Hold(bool),
        Listen(bool),
        Send(bool, usize),
        Arrive(bool, usize),
        /// The link is lost with what is on the way, and a new one begins; or none does.
        Break,
        Down,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let side = any::<bool>();
        let step = prop_oneof![
            4 => (side, 0..200_usize).prop_map(|(a, n)| Step::Speak(a, n)),
            1 => side.prop_map(Step::Hold),
            4 => side.prop_map(Step::Listen),
            4 => (side, 1..6_usize).prop_map(|(a, n)| Step::Send(a, n)),
            4 => (side, 1..300_usize).prop_map(|(a, n)| Step::Arrive(a, n)),
            1 => Just(Step::Break),
            1 => Just(Step::Down),
        ];
        prop::collection::vec(step, 0..120)
    }

    fn cut(sides: &mut [Side; 2], up: bool) {
        for side in sides {
            side.pipe.clear();
            side.rest.clear();
            if up { side.machine.link_up() } else { side.machine.link_down() }
        }
    }

    fn arrive([a, b]: &mut [Side; 2], first: bool, most: usize) {
        let (from, to) = if first { (a, b) } else { (b, a) };
        to.receive(&mut from.pipe, most);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]
        #[test]
        fn whatever_is_cut_where_bytes_arrive_once_and_in_order(
            a in prop::collection::vec(any::<u8>(), 0..2_000),
            b in prop::collection::vec(any::<u8>(), 0..2_000),
            steps in steps(),
        ) {
            let mut sides = [Side::new(a.clone()), Side::new(b.clone())];
            for step in steps {
                match step {
                    Step::Speak(side, most) => sides[usize::from(side)].speak(most),
                    Step::Hold(side) => {
                        let side = &mut sides[usize::from(side)];
                        side.given = side.given.take().or_else(|| side.machine.give());
                    }
                    Step::Listen(side) => sides[usize::from(side)].listen(),
                    Step::Send(side, frames) => sides[usize::from(side)].send(frames),
                    Step::Arrive(side, most) => arrive(&mut sides, side, most),
                    Step::Break => cut(&mut sides, true),
                    Step::Down => cut(&mut sides, false),
                }
                for (speaker, listener) in [(&sides[0], &sides[1]), (&sides[1], &sides[0])] {
                    prop_assert!(speaker.said - listener.heard.len() <= WINDOW);
                }
            }
            cut(&mut sides, true);
            for _ in 0..300 {
                for side in &mut sides {
                    side.speak(usize::MAX);
                    side.send(3);
                    side.listen();
                }
                arrive(&mut sides, true, usize::MAX);
                arrive(&mut sides, false, usize::MAX);
            }
            for (side, all) in sides.iter().zip([&b, &a]) {
                prop_assert_eq!(&side.heard, all);
                prop_assert_eq!(side.fins, 1);
                prop_assert_eq!(side.machine.end(), Some(&End::Well));
                prop_assert!(side.machine.is_over());
                prop_assert_eq!(side.machine.totals(), (side.says.len() as u64, all.len() as u64));
            }
        }

        #[test]
        fn any_frames_are_heard_without_harm(bytes: Vec<u8>, said in 0..400_usize) {
            let mut machine = Machine::new(WINDOW);
            machine.said(&vec![1; said.clamp(1, WINDOW)]);
            machine.link_up();
            let mut bytes = BytesMut::from(&bytes[..]);
            while let Ok(Some(frame)) = Frame::read(&mut bytes) {
                if machine.hear(frame).is_err() {
                    break;
                }
                while machine.next().is_some() {}
                let _ = machine.give();
            }
        }
    }

    /// A machine that has sent ten bytes.
    fn ten() -> Machine {
        let mut machine = Machine::new(WINDOW);
        machine.link_up();
        machine.hear(Frame::Start { have: 0, room: 300 }).unwrap();
        machine.said(&[7; 10]);
        while machine.next().is_some() {}
        machine
    }

    #[test]
    fn lies_are_told_from_the_truth() {
        let data = |len| Frame::Data(vec![0; len].into());
        let start = |have| Frame::Start { have, room: 1 };
        for (frames, lie) in [
            (vec![Frame::Ack(11)], Lie::Have(11, 10)),
            (vec![Frame::Ack(5), Frame::Ack(4)], Lie::Less),
            (vec![start(0)], Lie::Order),
            (vec![data(200), data(101)], Lie::Full),
            (vec![Frame::Fin, data(1)], Lie::Behind),
            (vec![Frame::Fin, Frame::Fin], Lie::Behind),
            (vec![Frame::End(None)], Lie::Early),
        ] {
            let mut machine = ten();
            let heard: Result<Vec<_>, _> = frames.into_iter().map(|frame| machine.hear(frame)).collect();
            assert_eq!(heard, Err(lie));
        }
        let mut machine = ten();
        machine.hear(Frame::Ack(5)).unwrap();
        machine.link_up();
        assert_eq!(machine.hear(Frame::Ack(6)), Err(Lie::Order));
        machine.link_up();
        assert_eq!(machine.hear(start(4)), Err(Lie::Less));
        machine.link_up();
        assert_eq!(machine.hear(start(11)), Err(Lie::Have(11, 10)));
        machine.link_up();
        machine.hear(start(8)).unwrap();
        // What it has may be acknowledged, and no more than it has room for leaves.
        assert!(matches!(machine.next(), Some(Frame::Start { .. })));
        assert_eq!(machine.next(), None);
        machine.hear(Frame::Ack(8)).unwrap();
        assert_eq!(machine.next(), Some(Frame::Data(vec![7].into())));
    }

    #[test]
    fn a_break_is_told_and_told_again_until_it_is_known() {
        let mut machine = ten();
        machine.break_off("reset_here", "the program");
        let told = Frame::End(Some("the program".to_owned()));
        assert_eq!((machine.next(), machine.next()), (Some(told.clone()), None));
        assert!(!machine.is_over());
        machine.link_down();
        machine.link_up();
        machine.hear(Frame::Start { have: 3, room: 9 }).unwrap();
        assert!(matches!(machine.next(), Some(Frame::Start { .. })));
        assert_eq!(machine.next(), Some(told));
        machine.hear(Frame::End(Some("known".to_owned()))).unwrap();
        assert!(machine.is_over());
        let mut other = ten();
        other.hear(Frame::End(Some("the program".to_owned()))).unwrap();
        assert_eq!(other.end(), Some(&End::There("the program".to_owned())));
        assert!(other.next().is_some() && other.is_over());
    }
}
