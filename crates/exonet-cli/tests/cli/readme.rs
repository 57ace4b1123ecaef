//! The shell lines of README.md, run as they stand there.
//!
//! Three things differ, since a test has to end: listeners take a free port, `tail -f` stops at the end of its file, and what
//! `cargo run` starts is the binary under test, with fewer messages and seeds. `.ci/run` runs the first two lines unchanged.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::{Listener, Running, World};

const README: &str = include_str!("../../../../README.md");
const MODEL: &str = include_str!("../../../exonet-model/src/main.rs");
/// What runs until it is stopped, and says where it is.
const LISTENERS: [&str; 3] = ["exon listen", "exon serve", "exon share"];
const GATE: &str = include_str!("../../../../.ci/run");

/// The commands of all blocks of shell, without their comments.
pub(crate) fn commands(page: &str) -> impl Iterator<Item = &str> {
    let blocks = page.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    let lines = blocks.flat_map(str::lines).map(|line| line.split(" # ").next().unwrap_or_default().trim());
    lines.filter(|line| !line.is_empty())
}

/// A shell in the directory of `world`, where `exon` is the binary under test.
pub(crate) fn shell(world: &World, line: &str) -> Command {
    let bin = Path::new(env!("CARGO_BIN_EXE_exon")).parent().unwrap();
    let path = std::env::join_paths(
        std::iter::once(bin.to_owned()).chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
    );
    let mut command = Command::new("sh");
    command.args(["-c", line]).current_dir(world.path("")).env("PATH", path.unwrap());
    command.env("EXONET_STATE", world.path("state")).env_remove("RUST_LOG");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[test]
fn the_lines_of_the_readme_do_what_it_says() {
    let world = World::new();
    for name in ["photo.jpg", "notes.pdf", "app.log", "names"] {
        world.file(name, b"one\ntwo\n");
    }
    std::fs::create_dir(world.path("project")).unwrap();
    world.file("project/plan", b"one\ntwo\n");
    std::fs::create_dir_all(world.path("films/new")).unwrap();
    world.file("films/new/film.mkv", b"one\ntwo\n");
    let mut here: Option<Listener> = None;
    let (mut ran, mut left) = (0, Vec::new());
    for line in commands(README) {
        if let Some(args) = line.strip_prefix("cargo run --release -- ") {
            let few = match args.split(' ').next() {
                Some("demo") => format!("exon {args} --messages 1000"),
                _ => format!("exon {}", args.replace("--seeds 100", "--seeds 2")),
            };
            Running::start(shell(&world, &few)).end().expect(0);
        } else if line.starts_with("cargo ") {
            left.push(line);
            continue;
        } else if LISTENERS.iter().any(|command| line.contains(command)) {
            // `serve` begins while `listen` is there; two of the others would be one identity in two processes.
            if !line.contains("exon serve") {
                drop(here.take());
            }
            let line = line.replace(" --bind 0.0.0.0:0", "");
            let at_a_free_port = |command: &str| format!("{command} --bind 127.0.0.1:0 --json");
            let line = LISTENERS.iter().fold(format!("exec {line}"), |line, command| {
                line.replace(command, &at_a_free_port(command))
            });
            let command = shell(&world, &line);
            here = Some(world.listener_of("listening", command));
        } else {
            let peer = here.as_ref().map_or("", |listener| &listener.peer);
            let line = line.replace("ID@HOST:PORT", peer).replace("tail -f", "tail -n +1");
            Running::start(shell(&world, &line)).end().expect(0);
        }
        ran += 1;
    }
    assert!(ran >= 8, "{ran} lines were run");
    // What is left builds, and runs elsewhere: in the gate, and in the tests of the model.
    for line in left {
        let known = match line.strip_prefix("cargo run --release -p exonet-model -- ") {
            Some(command) => MODEL.contains(&format!("\n  {command} ")),
            None => {
                line == "cargo install --path crates/exonet-cli --locked"
                    || [" {}\n", " {} 2>&1 |"].iter().any(|way| GATE.contains(&way.replace("{}", line)))
            }
        };
        assert!(known, "nobody runs `{line}`");
    }
}
