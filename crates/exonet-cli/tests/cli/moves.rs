//! Moves in which a process is killed, or stands still, at each point: given the same commands again, one place speaks, and never
//! two; no message is lost, and none comes twice.
//!
//! A listener that is found by its name moves from *here* to *there*. A client sends messages before, in the middle and after; each
//! listener prints what it takes, and all of that together has to be what the client has sent.

use std::process::Command;
use std::time::Duration;

use exonet::naming::Name;
use exonet::state;
use exonet::{Allow, Node, NodeId, Outcome, PeerAddr, Receipt};
use exonet_names::FileNames;
use rustix::process::Signal;

#[cfg(target_os = "linux")]
use crate::support::until;
use crate::support::{Ended, Running, World, arg, free_address};

/// How often a batch of messages is sent.
const BATCH: u32 = 10;
/// How long a place may take to answer that speaks. One that does not is not waited for longer.
const ASKED: Duration = Duration::from_secs(20);
const SILENT: Duration = Duration::from_millis(400);

struct Stage {
    world: World,
    id: NodeId,
    door: String,
    /// Where each of the places is, once it is started.
    here_at: Option<String>,
    runtime: tokio::runtime::Runtime,
    client: Node,
    sent: u32,
    receipts: Vec<Receipt>,
    printed: Vec<u32>,
}

impl Stage {
    fn new() -> Self {
        let world = World::new();
        let made = Running::start(at(&world, "here", &["id", "calc", "--new"])).end().expect(0);
        let id = made.stdout.trim().parse().unwrap();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let names = FileNames::new(world.path("services"));
        let client = runtime
            .block_on(Node::builder(Allow::anyone()).bind("127.0.0.1:0").naming(names).build())
            .unwrap();
        let door = free_address().to_string();
        Self {
            world,
            id,
            door,
            here_at: None,
            runtime,
            client,
            sent: 0,
            receipts: Vec::new(),
            printed: Vec::new(),
        }
    }

    fn listen(&self, place: &str, point: &str, more: &[&str]) -> Running {
        let names = format!("file:{}", arg(&self.world.path("services")));
        let args = [
            "listen",
            "--as",
            "calc",
            "--bind",
            "127.0.0.1:0",
            "--json",
            "--names",
            &names,
            "--name",
            "calc",
        ];
        let mut command = at(&self.world, place, &[&args, more].concat());
        command.env("EXON_MOVE_POINT", point);
        Running::start(command)
    }

    /// Starts the listener of the place that the identity is to leave.
    fn here(&mut self, point: &str) -> Running {
        let mut here = self.listen("here", point, &[]);
        let peer = here.line_of("listening")["peer"].as_str().unwrap().to_owned();
        self.here_at = Some(peer.split_once('@').unwrap().1.to_owned());
        here
    }

    /// Starts the one of the place where it is to arrive; and the door, as it is to be said.
    fn there(&self, point: &str) -> (Running, String) {
        let id = self.id.to_string();
        let mut there = self.listen("there", point, &["--arrive", &id, "--door", &self.door]);
        let door = there.line_of("waiting")["door"].as_str().unwrap().to_owned();
        (there, door)
    }

    fn moves(&self, door: &str, more: &[&str]) -> Running {
        Running::start(self.move_command(door, more))
    }

    fn move_command(&self, door: &str, more: &[&str]) -> Command {
        let args = ["move", "--as", "calc", "--to", door, "--json"];
        at(&self.world, "here", &[&args, more].concat())
    }

    /// Some messages more.
    fn send(&mut self) {
        let name: Name = "calc".parse().unwrap();
        for _ in 0..BATCH {
            let body = self.sent.to_string();
            let peer = self.runtime.block_on(self.client.named(&name)).unwrap();
            self.receipts.push(self.runtime.block_on(peer.send(body)).unwrap());
            self.sent += 1;
        }
    }

    /// All that was sent is taken by somebody.
    fn settle(&mut self) {
        for receipt in std::mem::take(&mut self.receipts) {
            let settled =
                self.runtime.block_on(async { tokio::time::timeout(Duration::from_secs(60), receipt).await });
            assert_eq!(settled.expect("nobody takes it").outcome, Outcome::Delivered);
        }
    }

    /// The process is over, or is ended: what has it printed?
    fn add(&mut self, ended: &Ended) {
        let read = |line: &serde_json::Value| line["text"].as_str().unwrap().parse::<u32>().unwrap();
        self.printed.extend(ended.of_type("message").iter().map(read));
    }

    /// Whether the node at this address speaks as the identity.
    fn speaks(&self, address: &str, patience: Duration) -> bool {
        let peer = PeerAddr::new(self.id, [address]).unwrap();
        self.runtime.block_on(async {
            let asker = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await.unwrap();
            asker.peer(peer).ping(patience).await.unwrap().is_some()
        })
    }

    /// Whether an identity is at a place that can be somebody's: two never have one.
    fn lives_at(&self, place: &str) -> bool {
        // Only looked at: a lock would keep out the process that is about to run it.
        state::lives(self.world.path(place).join("calc")).unwrap()
    }

    fn one_lives(&self) {
        let both = ["here", "there"].map(|place| self.lives_at(place));
        assert!(both != [true, true], "both can speak");
    }

    /// The move is over: the new place speaks, the old one does not and never will, and each message was taken once.
    fn ends_as_over(mut self, mut there: Running) {
        let peer = there.line_of("listening")["peer"].as_str().unwrap().to_owned();
        self.send();
        self.settle();
        assert!(self.speaks(peer.split_once('@').unwrap().1, ASKED));
        let here_at = self.here_at.clone().unwrap();
        assert!(!self.speaks(&here_at, SILENT), "the old place speaks");
        let left = self.listen("here", "", &[]).end().expect(1);
        assert!(left.stderr.contains("has moved"), "{}", left.stderr);
        assert_eq!(["here", "there"].map(|place| self.lives_at(place)), [false, true]);
        there.signal(Signal::INT);
        let ended = there.end();
        self.add(&ended);
        self.printed.sort_unstable();
        assert_eq!(self.printed, (0..self.sent).collect::<Vec<_>>());
    }
}

/// `exon` with the identities of `place`.
fn at(world: &World, place: &str, args: &[&str]) -> Command {
    let mut command = world.command(args);
    command.env("EXONET_STATE", world.path(place));
    command
}

/// The process that runs the identity dies at `point`, before the identity is ceded. `again`: it is started again before the move is.
fn here_dies(point: &str, again: bool) {
    let mut stage = Stage::new();
    let here = stage.here(&format!("{point}:die"));
    let (there, door) = stage.there("");
    stage.send();
    stage.settle();
    let cut = stage.moves(&door, &[]).end().expect(1);
    assert!(cut.stderr.contains("in the middle of the move"), "{}", cut.stderr);
    let killed = here.end();
    assert_eq!(killed.code, None);
    stage.add(&killed);
    stage.send();
    assert!(stage.lives_at("here") && !stage.lives_at("there"));
    let mut started = None;
    if again {
        started = Some(stage.here(""));
        stage.settle();
        let here_at = stage.here_at.clone().unwrap();
        assert!(stage.speaks(&here_at, ASKED));
    }
    stage.moves(&door, &[]).end().expect(0);
    stage.one_lives();
    if let Some(here) = started {
        let ended = here.end().expect(0);
        stage.add(&ended);
    }
    stage.ends_as_over(there);
}

/// The process that runs the identity dies at `point`, behind the ceding: the same command carries the key.
fn here_dies_late(point: &str) {
    let mut stage = Stage::new();
    let here = stage.here(&format!("{point}:die"));
    let (there, door) = stage.there("");
    stage.send();
    stage.settle();
    stage.moves(&door, &[]).end().expect(1);
    let killed = here.end();
    assert_eq!(killed.code, None);
    stage.add(&killed);
    assert!(!stage.lives_at("here"));
    stage.send();
    stage.moves(&door, &[]).end().expect(0);
    stage.ends_as_over(there);
}

/// The process of the new place dies at `point`, before it has all but the key: the old place goes on by itself.
fn there_dies(point: &str) {
    let mut stage = Stage::new();
    let mut here = stage.here("");
    let (there, door) = stage.there(&format!("{point}:die"));
    stage.send();
    stage.settle();
    let cut = stage.moves(&door, &["--timeout", "1s", "--freeze", "500ms"]).end().expect(1);
    assert!(cut.stderr.contains("still lives here"), "{}", cut.stderr);
    assert_eq!(there.end().code, None);
    if matches!(point, "door: load" | "door: landed") {
        here.line_of("stays");
    }
    stage.send();
    stage.settle();
    assert!(stage.lives_at("here") && !stage.lives_at("there"));
    let (there, door) = stage.there("");
    stage.moves(&door, &[]).end().expect(0);
    let ended = here.end().expect(0);
    stage.add(&ended);
    stage.ends_as_over(there);
}

/// The process of the new place dies at `point`, behind the ceding: started again, it lives, and the old place hears so.
fn there_dies_late(point: &str) {
    let mut stage = Stage::new();
    let here = stage.here("");
    let (there, door) = stage.there(&format!("{point}:die"));
    stage.send();
    stage.settle();
    let moving = stage.moves(&door, &[]);
    assert_eq!(there.end().code, None);
    assert!(!stage.lives_at("here"));
    stage.send();
    let id = stage.id.to_string();
    let there = stage.listen("there", "", &["--arrive", &id, "--door", &stage.door.clone()]);
    // The old place waits until the new process of the new place answers.
    let moved = moving.end().expect(0);
    assert_eq!(moved.of_type("step").last().unwrap()["step"], "rebind");
    let ended = here.end().expect(0);
    stage.add(&ended);
    stage.ends_as_over(there);
}

macro_rules! tests {
    ($($name:ident: $run:ident($($with:expr),*);)*) => { $(#[test] fn $name() { $run($($with),*); })* };
}

tests! {
    here_dies_when_the_door_was_asked: here_dies("offered", true);
    here_dies_when_all_went_ahead: here_dies("ahead", false);
    here_dies_when_it_stands_still: here_dies("frozen", true);
    here_dies_behind_its_checkpoint: here_dies("checkpoint", false);
    here_dies_before_it_cedes: here_dies("copied", true);
    here_dies_before_it_cedes_and_moves_at_once: here_dies("copied", false);
    here_dies_when_it_has_ceded: here_dies_late("ceded");
    here_dies_when_the_key_was_heard: here_dies_late("key sent");
    there_dies_when_it_is_asked: there_dies("door: offer");
    there_dies_when_something_comes_ahead: there_dies("door: ahead");
    there_dies_when_the_load_has_come: there_dies("door: load");
    there_dies_before_it_says_that_it_has_the_load: there_dies("door: landed");
    there_dies_when_the_key_has_come: there_dies_late("door: deed");
    there_dies_before_it_says_that_it_lives: there_dies_late("door: restored");
    there_dies_when_it_has_spoken: there_dies_late("greeted");
}

/// The door says nothing while the service stands still: it goes on here. What the door does later changes nothing.
#[test]
fn a_door_that_is_silent_holds_nothing_up() {
    let mut stage = Stage::new();
    let mut here = stage.here("");
    let (there, door) = stage.there("door: load:stop");
    stage.send();
    stage.settle();
    let cut = stage.moves(&door, &["--freeze", "300ms"]).end().expect(1);
    assert!(cut.stderr.contains("still lives here"), "{}", cut.stderr);
    assert!(here.line_of("stays")["error"].as_str().unwrap().contains("does not answer"));
    stage.send();
    stage.settle();
    let here_at = stage.here_at.clone().unwrap();
    assert!(stage.speaks(&here_at, ASKED));
    there.signal(Signal::CONT);
    stage.moves(&door, &[]).end().expect(0);
    let ended = here.end().expect(0);
    stage.add(&ended);
    stage.ends_as_over(there);
}

/// The client that has asked for the move leaves before the identity is ceded: there is no move.
#[test]
#[cfg(target_os = "linux")]
fn a_move_that_nobody_waits_for_is_called_off() {
    let mut stage = Stage::new();
    let mut here = stage.here("ahead:stop");
    let (there, door) = stage.there("");
    stage.send();
    stage.settle();
    let mut moving = stage.moves(&door, &[]);
    // It may stand still before it has told the step: only the system says when it does.
    until("the process stands still", || {
        let state = std::fs::read_to_string(format!("/proc/{}/stat", here.pid()));
        state.is_ok_and(|state| state.contains(") T "))
    });
    moving.kill();
    moving.wait();
    here.signal(Signal::CONT);
    here.line_of("stays");
    stage.send();
    stage.settle();
    assert!(stage.lives_at("here") && !stage.lives_at("there"));
    here.signal(Signal::INT);
    let ended = here.end();
    stage.add(&ended);
    stage.moves(&door, &[]).end().expect(0);
    stage.ends_as_over(there);
}

/// Each step is told as it ends, with its time.
#[test]
fn a_move_says_what_it_does() {
    let mut stage = Stage::new();
    let here = stage.here("");
    let (there, door) = stage.there("");
    stage.send();
    stage.settle();
    let moved = stage.moves(&door, &[]).end().expect(0);
    let steps: Vec<_> =
        moved.of_type("step").iter().map(|it| it["step"].as_str().unwrap().to_owned()).collect();
    assert_eq!(steps, ["offer", "ahead", "drain", "checkpoint", "copy", "cede", "restore", "rebind"]);
    assert!(moved.of_type("step").iter().all(|it| it["ms"].as_f64().unwrap() >= 0.0));
    let summary = moved.summary();
    assert!(
        summary["pause_ms"].as_f64().unwrap() > 0.0
            && summary["still_bytes"].as_u64() < summary["bytes"].as_u64()
    );
    let ended = here.end().expect(0);
    stage.add(&ended);
    stage.ends_as_over(there);
}
