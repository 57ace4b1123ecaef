//! Schedules on which Algorithm 1, as published, loses a message and delivers one twice.

use super::*;
use Proof::Delivered;

struct Ends {
    a: Clock,
    b: Clock,
    sender: Sender<u32>,
    record: Option<Receiver>,
    delivered: Vec<u32>,
}

impl Ends {
    fn new() -> Self {
        let (a, b) = (Clock::ephemeral(), Clock::ephemeral());
        let sender = Sender::open(&a);
        let (record, delivered) = (None, Vec::new());
        Self { a, b, sender, record, delivered }
    }

    fn deliver_ask(&mut self, ask: Ask) {
        meet(&mut self.record, &mut self.b, ask, 8);
    }

    fn deliver_token(&mut self, (s, r): (Slot, Incarnation), m: u32) {
        if self.record.as_mut().is_some_and(|record| record.take(s, r)) {
            self.delivered.push(m);
        }
    }

    fn state(&self) -> State {
        state_of(self.record.as_ref(), &self.b)
    }
}

/// Line 31 asks with a frontier past the envelope that line 32 is about to bind: on a perfect FIFO network the
/// ASK frees the slot of the token right behind it, and the token is acknowledged all the same.
#[test]
fn fifo_network_loses_no_message() {
    let mut ends = Ends::new();
    let first = ends.sender.ask(&mut ends.a, 1, 1).unwrap();
    ends.deliver_ask(first);
    let state = ends.state();
    hear(&mut ends.sender, &state);
    let token = ends.sender.bind(10).unwrap();
    ends.deliver_token(token, 10);
    let state = ends.state();
    assert_eq!(hear(&mut ends.sender, &state).0, [(0, 0, 10, Delivered)]);

    // The second send takes the standby envelope and asks for another; the ASK overtakes nothing.
    let token = ends.sender.bind(11).unwrap();
    let behind = ends.sender.ask(&mut ends.a, 0, 1).unwrap();
    assert_eq!((behind.s, behind.n), (Slot(2), 1));
    ends.deliver_ask(behind);
    ends.deliver_token(token, 11);
    assert_eq!(ends.delivered, [10, 11]);
    let state = ends.state();
    assert_eq!(hear(&mut ends.sender, &state).0, [(1, 0, 11, Delivered)]);
}

/// Two old copies of an ASK: the first removes the exhausted record, the second makes the same numbers again under
/// a new incarnation, and line 90 resends an unacknowledged token under that.
#[test]
fn reordering_delivers_no_message_twice() {
    let mut ends = Ends::new();
    let old = ends.sender.ask(&mut ends.a, 2, 0).unwrap();
    ends.deliver_ask(old);
    let state = ends.state();
    hear(&mut ends.sender, &state);
    for m in [10, 11] {
        let token = ends.sender.bind(m).unwrap();
        ends.deliver_token(token, m);
    }
    // Every answer to the tokens is lost. The record is exhausted and is dropped.
    assert!(ends.record.take().unwrap().is_drained());
    ends.deliver_ask(old);
    assert_eq!(slots(&ends.record), [0, 1], "the same numbers again");
    assert_eq!(ends.record.as_ref().unwrap().incarnation(), Incarnation(1));

    let resend: Vec<_> = ends.sender.tokens().map(|(s, r, m)| (s, r, *m)).collect();
    assert_eq!(resend.len(), 2);
    for (s, r, m) in resend {
        ends.deliver_token((s, r), m);
    }
    assert_eq!(ends.delivered, [10, 11]);

    // The new record proves the deliveries of the old one, and nothing new is bound to its unbacked numbers.
    let state = ends.state();
    let (settled, moved) = hear(&mut ends.sender, &state);
    assert_eq!(settled, [(0, 0, 10, Delivered), (1, 0, 11, Delivered)]);
    assert!(!moved);
    assert_eq!(ends.sender.bind(12), Err(12));
    let farewell = Sender::close(&mut Some(ends.sender), &mut ends.a).unwrap();
    meet(&mut ends.record, &mut ends.b, farewell, 8);
    assert!(ends.record.unwrap().is_passed());
}
