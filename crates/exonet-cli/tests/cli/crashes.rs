//! Processes that are killed in the middle of a call: it runs once or not at all, its caller hears its reply, that it was cut off,
//! or that this is unknown, and nobody hangs.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use rustix::process::Signal;

use crate::relay::Relay;
use crate::support::{Ended, Gate, Listener, Running, World, arg, free_address};

/// The reply is as long as this: no other datagram that a server sends is, but for its encryption.
const REPLY: usize = 900;

/// A server that writes down what runs, and can be killed and started again as itself.
struct Shop {
    world: World,
    address: SocketAddr,
    server: Listener,
    gate: Gate,
    options: Vec<String>,
}

impl Shop {
    /// Each call is written down, says so by the pipe `voice`, and waits at the pipe `gate` where there is one.
    fn new(options: &[&str]) -> Self {
        let world = World::new();
        let (voice, gate) = (world.pipe("voice"), world.gate("gate"));
        let (ran, at) = (world.path("ran"), world.path("gate"));
        let script = format!(
            "echo $EXON_CALL_ID >> {ran}
             if [ -p {at} ]; then exec 3> {voice}; echo begun >&3; read x < {at}; fi
             printf '%{REPLY}s' \"$EXON_CALL_ID\"",
            ran = arg(&ran),
            at = arg(&at),
            voice = arg(&voice),
        );
        let address = free_address();
        let exec = ["--method", "buy", "--exec", "sh", "-c", &script];
        let options: Vec<String> =
            [options, &exec].concat().iter().map(|&option| option.to_owned()).collect();
        let server = Self::start(&world, address, &options);
        Self { world, address, server, gate, options }
    }

    fn start(world: &World, address: SocketAddr, options: &[String]) -> Listener {
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        world.serve_at(&address.to_string(), &options)
    }

    fn relay(&self) -> Relay {
        Relay::new(self.address)
    }

    fn caller(&self, relay: &Relay) -> Running {
        let peer = relay.peer(&self.server.peer);
        Running::start(self.world.command(&["call", &peer, "buy", "--json"]))
    }

    fn kill_and_start_again(&mut self) {
        self.server.running.kill();
        self.start_again();
    }

    fn start_again(&mut self) {
        self.server.running.wait();
        self.server = Self::start(&self.world, self.address, &self.options);
    }

    /// From now on calls do not wait.
    fn remove_gate(&self) {
        std::fs::remove_file(self.world.path("gate")).unwrap();
    }

    /// What ran: never the same call twice.
    fn ran(&self) -> BTreeSet<String> {
        let text = std::fs::read_to_string(self.world.path("ran")).unwrap_or_default();
        let lines: BTreeSet<String> = text.lines().map(str::to_owned).collect();
        assert_eq!(lines.len(), text.lines().count(), "a call ran twice:\n{text}");
        lines
    }

    /// Whatever happened before, this server is well, and answers the next call with its own reply.
    fn is_well(&self) {
        let before = self.ran();
        let ended = self.world.run(&["call", &self.server.peer, "buy", "--json"]).expect(0);
        let id = answered(&ended);
        let new: Vec<String> = self.ran().difference(&before).cloned().collect();
        assert_eq!(new, [id]);
    }
}

/// The id of a call that was answered, with its own reply.
fn answered(ended: &Ended) -> String {
    let summary = ended.summary();
    assert_eq!(summary["outcome"], "reply", "{summary}");
    let id = summary["id"].as_str().unwrap().to_owned();
    assert_eq!(summary["text"].as_str().unwrap().trim(), id);
    id
}

/// The id of a call of which it is unknown whether it ran: told to people as well.
fn unknown(ended: &Ended) -> String {
    let summary = ended.summary();
    assert_eq!((&summary["outcome"], ended.code), (&"unknown".into(), Some(3)), "{summary}");
    let id = summary["id"].as_str().unwrap().to_owned();
    assert!(ended.stderr.contains(&id), "{}", ended.stderr);
    id
}

/// How much a crash of the server may take.
const LEVELS: [&str; 2] = ["memory", "process"];

/// The id of a call that was cut off by the death of its server. With a journal the next life answers: it may have run, and failed.
fn cut_off(level: &str, ended: &Ended) -> String {
    if level == "memory" {
        return unknown(ended);
    }
    let summary = ended.summary();
    let told = (&summary["outcome"], &summary["has_not_run"], ended.code);
    assert_eq!(told, (&"failed".into(), &false.into(), Some(5)), "{summary}");
    summary["id"].as_str().unwrap().to_owned()
}

/// Whether it ran is not known before: what the caller hears must not contradict it.
fn agrees(shop: &Shop, ended: &Ended) {
    match ended.code {
        Some(0) => assert!(shop.ran().contains(&answered(ended))),
        Some(3) => drop(unknown(ended)),
        code => panic!("{code:?}\n{}\n{}", ended.stdout, ended.stderr),
    }
}

#[test]
fn killed_before_it_has_heard_of_the_call() {
    let mut shop = Shop::new(&[]);
    shop.remove_gate();
    let relay = shop.relay();
    shop.server.running.signal(Signal::STOP);
    let caller = shop.caller(&relay);
    relay.await_to_server(|seen| !seen.lost);
    shop.kill_and_start_again();
    agrees(&shop, &caller.end());
    shop.is_well();
}

#[test]
fn killed_while_the_call_waits_to_be_taken() {
    for level in LEVELS {
        let mut shop = Shop::new(&["--concurrency", "1", "--durability", level]);
        let voice = shop.world.voice("voice");
        let (one_relay, other_relay) = (shop.relay(), shop.relay());
        let one = shop.caller(&one_relay);
        assert_eq!(voice.line().unwrap(), "begun");
        let other = shop.caller(&other_relay);
        // An answer: what came with the opening is there, and is not taken.
        other_relay.await_to_caller(|seen| !seen.lost);
        assert_eq!(shop.ran().len(), 1);
        shop.server.running.kill();
        shop.gate.open();
        assert_eq!(voice.line(), None);
        shop.remove_gate();
        shop.start_again();
        let one = one.end();
        assert!(shop.ran().contains(&cut_off(level, &one)));
        agrees(&shop, &other.end());
        shop.is_well();
    }
}

#[test]
fn killed_while_the_call_runs() {
    for level in LEVELS {
        let mut shop = Shop::new(&["--durability", level]);
        let voice = shop.world.voice("voice");
        let relay = shop.relay();
        let caller = shop.caller(&relay);
        assert_eq!(voice.line().unwrap(), "begun");
        shop.server.running.kill();
        shop.gate.open();
        assert_eq!(voice.line(), None);
        shop.remove_gate();
        shop.start_again();
        let id = cut_off(level, &caller.end());
        assert_eq!(shop.ran(), [id].into());
        shop.is_well();
    }
}

#[test]
fn killed_when_the_reply_was_made_and_lost() {
    for killed in [Some("memory"), Some("process"), None] {
        let mut shop = Shop::new(&["--durability", killed.unwrap_or("process")]);
        let voice = shop.world.voice("voice");
        let relay = shop.relay();
        let caller = shop.caller(&relay);
        assert_eq!(voice.line().unwrap(), "begun");
        // Without its answer, the opening is not confirmed, and the reply does not leave.
        relay.await_to_server(|seen| seen.len < 1_200);
        relay.lose_to_caller(true);
        shop.gate.open();
        relay.await_to_caller(|seen| seen.lost && (REPLY..REPLY + 200).contains(&seen.len));
        assert_eq!(voice.line(), None);
        shop.remove_gate();
        if killed.is_some() {
            shop.kill_and_start_again();
        }
        relay.lose_to_caller(false);
        let ended = caller.end();
        // While its server lives, a reply is repeated until it comes.
        let id = killed.map_or_else(|| answered(&ended), |level| cut_off(level, &ended));
        assert_eq!(shop.ran(), [id].into());
        shop.is_well();
    }
}

#[test]
fn killed_when_the_reply_has_come_and_that_is_not_known() {
    let mut shop = Shop::new(&[]);
    let voice = shop.world.voice("voice");
    let relay = shop.relay();
    let caller = shop.caller(&relay);
    assert_eq!(voice.line().unwrap(), "begun");
    // A server says nothing more before an opening is confirmed, as it is by the first packet that is shorter.
    relay.await_to_server(|seen| seen.len < 1_200);
    relay.lose_to_server(true);
    shop.gate.open();
    let id = answered(&caller.end().expect(0));
    shop.remove_gate();
    shop.kill_and_start_again();
    relay.lose_to_server(false);
    assert_eq!(shop.ran(), [id].into());
    shop.is_well();
}

#[test]
fn killed_when_all_is_over() {
    let mut shop = Shop::new(&[]);
    shop.remove_gate();
    let relay = shop.relay();
    let id = answered(&shop.caller(&relay).end().expect(0));
    shop.kill_and_start_again();
    assert_eq!(shop.ran(), [id].into());
    shop.is_well();
}

#[test]
fn a_server_that_is_away_is_waited_for() {
    let mut shop = Shop::new(&[]);
    shop.remove_gate();
    let relay = shop.relay();
    shop.server.running.kill();
    shop.server.running.wait();
    let caller = shop.caller(&relay);
    relay.await_to_server(|seen| !seen.lost);
    shop.start_again();
    agrees(&shop, &caller.end());
    shop.is_well();
}

#[test]
fn a_server_forgets_what_its_caller_does_not_fetch() {
    for (kept, forgotten) in [("300ms", 1), ("5m", 0)] {
        let mut shop = Shop::new(&["--keep-replies", kept, "--drain", "5s"]);
        let voice = shop.world.voice("voice");
        let relay = shop.relay();
        let mut caller = shop.caller(&relay);
        assert_eq!(voice.line().unwrap(), "begun");
        caller.kill();
        caller.end();
        let mut server = shop.server.running;
        server.signal(Signal::INT);
        server.line_of("draining");
        shop.gate.open();
        // It leaves when there is nothing left that somebody may ask for, or when it has waited for long enough.
        let summary = server.end().expect(130).summary();
        assert_eq!((&summary["calls"], &summary["forgotten"]), (&1.into(), &forgotten.into()), "{summary}");
    }
}

#[test]
fn a_caller_that_starts_again_gets_its_own_replies() {
    let mut shop = Shop::new(&[]);
    shop.world.run(&["id", "customer", "--new"]).expect(0);
    let voice = shop.world.voice("voice");
    let args = ["call", &shop.server.peer, "buy", "--json", "--as", "customer"];
    let mut caller = Running::start(shop.world.command(&args));
    assert_eq!(voice.line().unwrap(), "begun");
    caller.kill();
    caller.end();
    shop.gate.open();
    assert_eq!(voice.line(), None);
    shop.remove_gate();
    // The reply to the first life is repeated to this one, which did not ask for it.
    let id = answered(&shop.world.run(&args).expect(0));
    let ran = shop.ran();
    assert!(ran.len() == 2 && ran.contains(&id), "{ran:?}");
    shop.is_well();
}
