//! ECN: when packets leave marked, and the effect of the peer's counts.

use super::*;

/// The counts of the peer.
#[derive(Clone, Copy, Default)]
struct Counts(u64, u64, u64);

impl End {
    /// Sends packets at `now`, marked as the path demands. Returns how many were marked.
    fn send_marked(&mut self, now: Mono, packets: u64) -> u64 {
        (0..packets)
            .filter(|_| {
                let marked = self.path.marks();
                self.send_as(now, PacketInfo { marked, ..PacketInfo::data(1_000) });
                marked
            })
            .count() as u64
    }

    fn ack_counts(&mut self, now: Mono, range: Range<u64>, counts: Option<Counts>) {
        let ecn = counts.map(|Counts(ect0, ect1, ce)| EcnCounts { ect0, ect1, ce });
        let ranges = core::iter::once(range);
        let ack = Ack { ranges, delay: Duration::ZERO, arrival: Duration::ZERO, ecn };
        self.path.on_ack(now, &mut self.sent, ack, |_, _| {}).unwrap();
    }

    /// How many marks the controller was told about.
    fn marks_told(&self) -> u64 {
        let told = self.scribe.told();
        told.iter().map(|told| if let Told::Ack { ce, .. } = told { *ce } else { 0 }).sum()
    }
}

/// Packets 0 to 3 were marked and reported.
fn capable() -> End {
    let mut end = End::new(Config::default());
    assert_eq!(end.send_marked(ms(0), 4), 4);
    end.ack_counts(ms(100), 0..4, Some(Counts(4, 0, 0)));
    assert_eq!(end.send_marked(ms(100), 20), 20);
    end
}

#[test]
fn marks_reach_the_controller_once() {
    let mut end = capable();
    end.ack_counts(ms(200), 4..10, Some(Counts(7, 0, 3)));
    assert_eq!(end.marks_told(), 3);
    end.ack_counts(ms(201), 4..12, Some(Counts(9, 0, 3)));
    assert_eq!(end.marks_told(), 0);
    assert!(end.path.marks());
}

#[test]
fn an_overtaken_ack_says_nothing() {
    let mut end = capable();
    end.ack_counts(ms(200), 8..14, Some(Counts(13, 0, 1)));
    assert_eq!(end.marks_told(), 1);
    // This ACK left before, and reports fewer.
    end.ack_counts(ms(200), 4..8, Some(Counts(8, 0, 0)));
    assert!(end.path.marks());
    end.ack_counts(ms(201), 4..16, Some(Counts(14, 0, 2)));
    assert_eq!(end.marks_told(), 1);
    assert!(end.path.marks());
}

#[test]
fn counts_that_do_not_add_up_end_it() {
    // Too few, fewer than before, of a kind that never left, more than ever left.
    for counts in [Counts(6, 0, 0), Counts(3, 0, 7), Counts(10, 1, 0), Counts(20, 0, 5)] {
        let mut end = capable();
        end.ack_counts(ms(200), 4..8, None);
        assert!(end.path.marks(), "there will be counts for these");
        end.ack_counts(ms(200), 4..10, Some(counts));
        assert_eq!((end.path.marks(), end.marks_told()), (false, 0));
        assert_eq!(end.send_marked(ms(201), 10), 0);
    }
}

#[test]
fn a_path_that_loses_what_is_marked_carries_the_rest() {
    let mut end = End::new(Config::default());
    assert_eq!(end.send_marked(ms(0), 34), 32);
    end.ack_counts(ms(100), 32..34, None);
    assert_eq!(end.path.datagram_size(), BASE);
    end.loss_timeout(ms(1_000));
    assert_eq!(end.send_marked(ms(1_000), 10), 0);
    assert_eq!(end.path.in_flight(), 10_000);
}

#[test]
fn a_peer_that_tells_nothing_gets_few_marks() {
    let mut end = End::new(Config::default());
    assert_eq!(end.send_marked(ms(0), 40), 32);
    end.ack_counts(ms(100), 0..40, None);
    assert_eq!(end.send_marked(ms(100), 40), 0);
}

#[test]
fn a_peer_that_ceases_to_tell_gets_no_more_marks() {
    let mut end = capable();
    end.send_marked(ms(110), 600);
    end.ack_counts(ms(200), 4..300, None);
    assert!(end.path.marks());
    end.ack_counts(ms(210), 4..600, None);
    assert!(!end.path.marks());
}

#[test]
fn probes_leave_without_a_mark() {
    let mut end = capable();
    let due = end.path.pto_at().unwrap();
    end.path.on_pto(due);
    assert_eq!(end.send_marked(due, 2), 0);
    end.ack_counts(due + millis(100), 24..26, None);
    assert!(end.path.marks(), "they say nothing of marks, and the path works");
}

#[test]
fn a_new_path_begins_anew() {
    let mut end = capable();
    end.ack_counts(ms(200), 4..8, Some(Counts(4, 0, 0)));
    assert!(!end.path.marks());
    end.path.on_path_change(ms(210), 1_472, Box::new(end.scribe.clone()));
    assert_eq!(end.send_marked(ms(211), 3), 3);
    // Packets of the old path say nothing about the new one.
    end.ack_counts(ms(212), 8..24, None);
    assert!(end.path.marks());
    // Counts of the old path are no growth of the new one, and cover none of it.
    end.ack_counts(ms(311), 24..27, Some(Counts(4, 0, 3)));
    assert!(end.path.marks());
    end.send_marked(ms(312), 3);
    end.ack_counts(ms(400), 27..30, Some(Counts(4, 0, 4)));
    assert!(!end.path.marks());
}

#[test]
fn it_can_be_turned_off() {
    for config in [Config { ecn: false, ..Config::default() }, Config { reliable: true, ..Config::default() }]
    {
        assert_eq!(End::new(config).send_marked(ms(0), 10), 0);
    }
}
