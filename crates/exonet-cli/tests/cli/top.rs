//! `exon top`: a node that runs is watched.

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use rustix::process::Signal;
use serde_json::Value;

use crate::skip::skipped;
use crate::support::{Listener, Running, World, arg, until};

fn top(world: &World, args: &[&str]) -> Running {
    Running::start(world.command(&[&["top"], args].concat()))
}

fn listening(world: &World) -> Listener {
    world.listen(&["--as", "till"])
}

#[test]
fn each_line_has_the_node_and_its_peers_with_rates() {
    let world = World::new();
    let listener = listening(&world);
    let mut watching = top(&world, &["--as", "till", "--json"]);
    let first = watching.line_of("top");
    assert_eq!((&first["peers"], &first["node"]["command"]), (&Value::Array(Vec::new()), &"listen".into()));
    assert_eq!(
        (&first["node"]["identity"], &first["node"]["peer"]),
        (&"till".into(), &listener.peer.clone().into())
    );
    assert_eq!(first["node"]["messages_in_per_second"], 0.0);
    let up = world.up(&[]);
    world.run(&["peer", "add", "lab", &up.peer]).expect(0);
    watching.signal(Signal::INT);
    watching.end().expect(130);
    let mut watching = top(&world, &["--as", "till", "--json"]);
    watching.line_of("top");
    world.run(&["send", &listener.peer, "--as", "sender", "--durable", "hello"]).expect(0);
    let mut seen = Vec::new();
    until("a rate", || {
        let line = watching.line_of("top");
        seen.push(line["peers"][0].clone());
        line["node"]["messages_in_per_second"].as_f64().unwrap() > 0.0
    });
    let last = seen.last().unwrap();
    assert_eq!(
        (&last["messages_in"], &last["queued"], &last["in_doubt"]),
        (&1.into(), &0.into(), &0.into()),
        "{last}"
    );
    assert!(
        last["rtt_ms"].as_f64().unwrap() > 0.0 && last["messages_in_per_second"].as_f64().unwrap() > 0.0,
        "{last}"
    );
    assert_eq!((&last["name"], &last["state"]), (&"lab".into(), &"up".into()), "{last}");
}

#[test]
fn what_is_in_doubt_is_shown_with_its_age_on_one_screen() {
    let world = World::new();
    let mut listener = world.listen(&["--as", "till", "--exec", "cat"]);
    let peer = listener.peer.clone();
    listener.running.kill();
    listener.running.wait();
    let mut up = world.up(&[]);
    world.run(&["send", &peer, "--as", "sender", "--durable", "pay 20"]).expect(0);
    let shown = world.run(&["top", "--as", "sender", "--once"]).expect(0);
    let lines: Vec<&str> = shown.stdout.lines().collect();
    assert!(lines[0].starts_with("sender   exon up (process "), "{}", shown.stdout);
    assert!(
        lines[3].starts_with("in doubt 1  queued 0") && lines[3].ends_with("1 peer, 0 up"),
        "{}",
        shown.stdout
    );
    assert!(lines[5].starts_with("PEER") && lines[6].starts_with(&peer[..10]), "{}", shown.stdout);
    let once = world.run(&["top", "--as", "sender", "--once", "--json"]).expect(0).of_type("top");
    assert_eq!((once.len(), &once[0]["peers"][0]["in_doubt"]), (1, &1.into()));
    let oldest = &once[0]["peers"][0]["oldest_in_doubt_ms"];
    assert!(oldest.as_u64().unwrap() >= 1_000, "since before the first look: {oldest}");
    up.running.kill();
    up.running.wait();
    let told = world.run(&["top", "--as", "sender", "--once"]);
    assert!(told.expect(1).stderr.contains("exon up --as sender"));
}

#[test]
fn a_node_that_does_not_run_is_an_error_that_names_those_that_do() {
    let world = World::new();
    let told = world.run(&["top", "--as", "nobody"]).expect(1);
    assert!(told.stderr.contains("exon id nobody --new"), "{}", told.stderr);
    let _listener = listening(&world);
    world.run(&["id", "shop", "--new"]).expect(0);
    let told = world.run(&["top", "--as", "shop", "--json"]).expect(1);
    assert!(told.stderr.contains("no node runs identity shop"), "{}", told.stderr);
    assert!(
        told.stderr.contains("exon up --as shop") && told.stderr.contains("--as till"),
        "{}",
        told.stderr
    );
    assert_eq!(told.of_type("error").len(), 1);
    let told = world.run(&["top", "--as", "till"]).expect(1);
    assert!(told.stderr.contains("--once"), "no terminal: {}", told.stderr);
}

#[test]
fn the_lines_of_the_page_do_what_it_says() {
    let page = include_str!("../../../../docs/observing.md");
    let lines: Vec<&str> = page.lines().filter(|line| line.starts_with("exon top")).collect();
    assert_eq!(lines.len(), 3);
    let world = World::new();
    let _listener = world.listen(&["--as", "shop"]);
    for line in lines {
        let args: Vec<&str> = line.split(' ').skip(1).collect();
        let mut running = Running::start(world.command(&args));
        match args.last() {
            Some(&"--once") => assert!(running.end().expect(0).stdout.contains("exon listen")),
            Some(&"--json") => assert_eq!(running.line_of("top")["node"]["identity"], "shop"),
            // This is no terminal.
            _ => assert!(running.end().expect(1).stderr.contains("--once")),
        }
    }
}

/// `exon top` on a terminal that `script` makes.
struct OnTerminal {
    child: Child,
    shown: Arc<Mutex<Vec<u8>>>,
}

impl OnTerminal {
    /// None if the machine has no `script`.
    fn start(world: &World) -> Option<Self> {
        if Command::new("script").arg("--version").output().is_err() {
            skipped("script is not here");
            return None;
        }
        let mut command = Command::new("script");
        let exon = env!("CARGO_BIN_EXE_exon");
        let code = world.path("code");
        let line = format!(
            "trap : HUP; stty rows 24 cols 80; {exon} top --as till; c=$?; echo $c > {}; exit $c",
            arg(&code)
        );
        command.args(["-qec", &line, "/dev/null"]);
        command.env("EXONET_STATE", world.path("state")).env("TERM", "xterm-256color").env_remove("NO_COLOR");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (mut from, shown) = (child.stdout.take().unwrap(), Arc::new(Mutex::new(Vec::new())));
        let seen = Arc::clone(&shown);
        std::thread::spawn(move || {
            let mut bytes = [0; 4_096];
            while let Ok(read @ 1..) = from.read(&mut bytes) {
                seen.lock().unwrap().extend_from_slice(&bytes[..read]);
            }
        });
        Some(Self { child, shown })
    }

    fn shows(&self, text: &str) -> bool {
        String::from_utf8_lossy(&self.shown.lock().unwrap()).contains(text)
    }

    fn types(&mut self, keys: &str) {
        self.child.stdin.as_mut().unwrap().write_all(keys.as_bytes()).unwrap();
    }
}

impl Drop for OnTerminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_terminal_is_put_back() {
    let world = World::new();
    let _listener = listening(&world);
    for (typed, code) in [("q", 0), ("\x03", 130)] {
        let Some(mut watching) = OnTerminal::start(&world) else { return };
        // Blanks are jumps there: no two words stand together.
        until("a picture", || watching.shows("LOSS"));
        watching.types("?");
        until("the help", || watching.shows("forget"));
        watching.types("?");
        watching.types(typed);
        assert_eq!(watching.child.wait().unwrap().code(), Some(code));
        until("the terminal as it was", || watching.shows("\x1b[?1049l") && watching.shows("\x1b[?25h"));
        let shown = watching.shown.lock().unwrap().clone();
        let shown = String::from_utf8_lossy(&shown);
        assert!(shown.rfind("\x1b[?1049l") > shown.rfind("\x1b[?1049h"), "{shown:?}");
    }
}

#[test]
fn a_terminal_that_goes_away_ends_it_in_order() {
    let world = World::new();
    let _listener = listening(&world);
    let Some(mut watching) = OnTerminal::start(&world) else { return };
    until("a picture", || watching.shows("LOSS"));
    watching.child.kill().unwrap();
    let code = || std::fs::read_to_string(world.path("code")).unwrap_or_default();
    until("its end", || code().ends_with('\n'));
    // 130 if the signal that the terminal is gone comes first; then nothing can be said.
    assert!(["1\n", "130\n"].contains(&&*code()), "{}", code());
}
