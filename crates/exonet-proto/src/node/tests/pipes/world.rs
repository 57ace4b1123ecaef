//! A client, a server, and networks that carry datagrams, connections, both or neither.

use std::collections::VecDeque;

use super::super::*;

/// How many bytes a connection takes before it has carried any of them.
pub(super) const ROOM: usize = 40_000;
/// Acknowledgements may exceed that by this much.
pub(super) const CONTROL: usize = 4_000;

/// A connection between `ends[0]`, which opened it, and `ends[1]`.
pub(super) struct Line {
    pub(super) pipes: [Pipe; 2],
    /// Packets on the way from each end, and when they arrive.
    pub(super) under_way: [VecDeque<(Mono, Vec<u8>)>; 2],
    /// The connection carries nothing any more, and neither end can tell.
    pub(super) is_numb: bool,
}

/// A client that knows its server's address, and networks between them.
pub(super) struct World {
    pub(super) ends: [Node; 2],
    pub(super) now: Now,
    pub(super) lines: Vec<Line>,
    pub(super) datagrams: VecDeque<(Mono, usize, Vec<u8>)>,
    /// Whether datagrams of each end get through, and whether connections can be opened.
    pub(super) passes: [bool; 2],
    pub(super) takes: bool,
    pub(super) delay: Duration,
    pub(super) wishes: Vec<Dial>,
    /// Bodies taken at each end.
    pub(super) taken: [Vec<u64>; 2],
    pub(super) outcomes: [Vec<(MessageKey, Outcome)>; 2],
    pub(super) opened: usize,
    /// How many times something happened.
    pub(super) turns: usize,
    /// The most bytes that were under way on a connection in one direction.
    pub(super) most: usize,
}

impl World {
    pub(super) fn new(carrier: Carrier) -> Self {
        let Pair { ends, now, .. } = Pair::new([1, 2].map(|_| Config { carrier, ..config() }));
        Self {
            ends,
            now,
            lines: Vec::new(),
            datagrams: VecDeque::new(),
            passes: [carrier == Carrier::Auto; 2],
            takes: true,
            delay: 10 * MS,
            wishes: Vec::new(),
            taken: [Vec::new(), Vec::new()],
            outcomes: [Vec::new(), Vec::new()],
            opened: 0,
            turns: 0,
            most: 0,
        }
    }

    /// The client knows where the server is; the server knows only the id of the client.
    pub(super) fn send(&mut self, from: usize, n: u64, size: usize) -> Result<MessageKey, SendError> {
        let (id, hints) = (self.ends[1 - from].id(), [address(1)]);
        let mut body = n.to_be_bytes().to_vec();
        body.resize(size.max(8), 7);
        let message = Outgoing { body: Bytes::from(body), ..Outgoing::default() };
        let hints = if from == 0 { &hints[..] } else { &[] };
        self.ends[from].send(self.now, id, hints, message)
    }

    pub(super) fn close(&mut self, at: usize) {
        let line = self.lines.remove(at);
        for (end, pipe) in self.ends.iter_mut().zip(line.pipes) {
            end.pipe_closed(self.now, pipe);
        }
    }

    pub(super) fn cut(&mut self) {
        while !self.lines.is_empty() {
            self.close(0);
        }
    }

    pub(super) fn is_piped(&self) -> [bool; 2] {
        [0, 1].map(|end| {
            let peer = self.ends[1 - end].id();
            self.ends[end].peer_stats(&peer).is_some_and(|stats| stats.piped)
        })
    }

    pub(super) fn dial(&mut self) {
        let wishes: Vec<_> = core::iter::from_fn(|| self.ends[0].poll_dial()).collect();
        self.wishes.extend(wishes);
        assert_eq!(self.ends[1].poll_dial(), None, "it was given no address");
        self.wishes.retain(|wish| self.ends[0].wants_pipe(&wish.peer));
        if !self.takes {
            return;
        }
        for Dial { peer, addresses } in core::mem::take(&mut self.wishes) {
            assert_eq!(addresses, [address(1)]);
            let Some(near) = self.ends[0].pipe_dialled(self.now, &peer, address(1), ROOM) else { continue };
            let far = self.ends[1].pipe_accepted(ROOM);
            let under_way = [VecDeque::new(), VecDeque::new()];
            self.lines.push(Line { pipes: [near, far], under_way, is_numb: false });
            self.opened += 1;
        }
    }

    pub(super) fn speak(&mut self) {
        let mut buffer = Vec::new();
        for from in 0..2 {
            while let Some(transmit) = self.ends[from].poll_transmit(self.now, 16, &mut buffer) {
                for datagram in buffer.chunks(transmit.segment) {
                    let at = self.now.mono + self.delay;
                    let Some(pipe) = transmit.pipe else {
                        if self.passes[from] {
                            self.datagrams.push_back((at, from, datagram.to_vec()));
                        }
                        continue;
                    };
                    assert!(datagram.len() <= 16_384);
                    let Some(line) = self.lines.iter_mut().find(|line| line.pipes[from] == pipe) else {
                        continue;
                    };
                    line.under_way[from].push_back((at, datagram.to_vec()));
                    let bytes = line.under_way[from].iter().map(|(_, datagram)| datagram.len() + 2).sum();
                    self.most = self.most.max(bytes);
                }
            }
        }
    }

    pub(super) fn hear(&mut self) {
        let now = self.now;
        while self.datagrams.front().is_some_and(|(at, ..)| *at <= now.mono) {
            let (_, from, mut datagram) = self.datagrams.pop_front().unwrap();
            self.ends[1 - from].handle_datagram(now, arrival(from), &mut datagram);
        }
        for line in &mut self.lines {
            for (from, queue) in line.under_way.iter_mut().enumerate() {
                while queue.front().is_some_and(|(at, _)| *at <= now.mono) {
                    let (_, mut datagram) = queue.pop_front().unwrap();
                    let left: usize = queue.iter().map(|(_, datagram)| datagram.len() + 2).sum();
                    self.ends[from].pipe_room(now, line.pipes[from], ROOM.saturating_sub(left));
                    if !line.is_numb {
                        let pipe = Some(line.pipes[1 - from]);
                        let remote = if from == 0 { address(77) } else { address(1) };
                        let arrival = Arrival { remote, pipe, ..arrival(from) };
                        self.ends[1 - from].handle_datagram(now, arrival, &mut datagram);
                    }
                }
            }
        }
    }

    pub(super) fn take(&mut self) {
        for end in 0..2 {
            while let Some(incoming) = self.ends[end].recv(self.now) {
                let IncomingBody::Whole(body) = &incoming.body else { panic!("they are short") };
                self.taken[end].push(u64::from_be_bytes(body[..8].try_into().unwrap()));
            }
            while let Some(event) = self.ends[end].poll_event() {
                if let Event::Outcome { key, count, outcome, .. } = event {
                    self.outcomes[end].extend((0..count).map(|n| (key.nth(n), outcome)));
                }
            }
        }
    }

    /// Time passes.
    pub(super) fn pass(&mut self, span: Duration) {
        let until = self.now.mono + span;
        loop {
            self.turns += 1;
            self.take();
            self.dial();
            self.speak();
            let heard = self.lines.iter().flat_map(|line| line.under_way.iter());
            let heard = heard.filter_map(|queue| Some(queue.front()?.0));
            let datagram = self.datagrams.front().map(|(at, ..)| *at);
            let timers = self.ends.iter().filter_map(Node::poll_timeout);
            let next = timers.chain(heard).chain(datagram).min().filter(|at| *at <= until);
            let Some(next) = next else { break };
            self.now.mono = self.now.mono.max(next);
            self.hear();
            for end in &mut self.ends {
                if end.poll_timeout().is_some_and(|at| at <= self.now.mono) {
                    end.handle_timeout(self.now);
                }
            }
        }
        self.now.mono = until;
    }

    /// As drivers do now and then: closes connections that either end does not need.
    pub(super) fn look(&mut self) {
        for at in (0..self.lines.len()).rev() {
            let pipes = self.lines[at].pipes;
            if self.ends.iter().zip(pipes).any(|(end, pipe)| !end.uses_pipe(pipe)) {
                self.close(at);
            }
        }
    }
}
