//! Processes that are told to end: what they have not taken is certainly not delivered, and their next life takes it.

use std::collections::BTreeSet;
use std::io::Write;
use std::process::Stdio;

use rustix::process::Signal;

use crate::support::{Ended, Running, World, free_address};

const LINES: usize = 20_000;

fn texts(of: &Ended) -> Vec<String> {
    of.of_type("message").iter().map(|line| line["text"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_listener_that_ends_under_load_leaves_nothing_unknown() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let world = World::new();
        let address = free_address().to_string();
        let mut here = world.listen_at(&address, &[]);
        let mut command = world.command(&["send", &here.peer, "--json"]);
        command.stdin(Stdio::piped());
        let mut sender = Running::start(command);
        let mut input = sender.stdin();
        let writer = std::thread::spawn(move || {
            (0..LINES).for_each(|n| writeln!(input, "line {n}").unwrap());
        });
        (0..500).for_each(|_| drop(here.running.line_of("message")));
        here.running.signal(signal);
        let first = here.running.end().expect(130);
        let next = world.listen_at(&address, &[]);
        let sent = sender.end().expect(0);
        writer.join().unwrap();
        assert_eq!(sent.summary()["delivered"], LINES);
        next.running.signal(Signal::TERM);
        let second = next.running.end().expect(130);
        let got = [texts(&first), texts(&second)];
        assert!(got[0].len() < LINES, "it ended too late to tell anything");
        let all: BTreeSet<_> = got.iter().flatten().collect();
        assert_eq!((got.iter().map(Vec::len).sum(), all.len()), (LINES, LINES), "lost, or doubled");
    }
}
