//! `exon checkpoint` and `exon restore`: an identity goes to another machine as a file.

use std::fs;
use std::process::Command;
use std::time::Duration;

use exonet::{Allow, Node, NodeId, Outcome, PeerAddr};
use rustix::process::Signal;

use crate::support::{Ended, Running, World, arg, until};

/// How long the test asks a place that must not answer.
const SILENT: Duration = Duration::from_millis(400);

/// Two machines with stored identities. `calc` is *here*, and is to go *there*, where `default` is.
struct Stage {
    world: World,
    calc: String,
    target: String,
}

impl Stage {
    fn new() -> Self {
        let mut stage = Self { world: World::new(), calc: String::new(), target: String::new() };
        stage.calc = stage.make("here", "calc");
        stage.target = stage.make("there", "default");
        stage
    }

    fn make(&self, machine: &str, name: &str) -> String {
        self.run(machine, &["id", name, "--new"]).expect(0).stdout.trim().to_owned()
    }

    fn command(&self, machine: &str, args: &[&str]) -> Command {
        let mut command = self.world.command(args);
        command.env("EXONET_STATE", self.world.path(machine));
        command
    }

    fn run(&self, machine: &str, args: &[&str]) -> Ended {
        Running::start(self.command(machine, args)).end()
    }

    fn listen(&self, machine: &str, point: &str) -> Running {
        let args = ["listen", "--as", "calc", "--bind", "127.0.0.1:0", "--json"];
        let mut command = self.command(machine, &args);
        command.env("EXON_MOVE_POINT", point);
        Running::start(command)
    }

    fn checkpoint(&self, file: &str, more: &[&str]) -> Ended {
        let file = self.world.path(file);
        let args = ["checkpoint", "--as", "calc", "--to", &self.target, arg(&file)];
        self.run("here", &[&args, more].concat())
    }

    fn restore(&self, file: &str, more: &[&str]) -> Ended {
        let file = self.world.path(file);
        self.run("there", &[&["restore", arg(&file), "--as", "calc"], more].concat())
    }

    /// Checks that the identity, which was ceded before, does not go into this file, and that the command says why.
    fn refuses_another(&self, file: &str) {
        let other = self.checkpoint(file, &[]).expect(1);
        let why = format!("was ceded before, and {} does not have it: ", self.world.path(file).display());
        assert!(other.stderr.contains(&why), "{}", other.stderr);
        assert!(other.stderr.contains("certainly never restored"), "{}", other.stderr);
        assert!(!other.stderr.contains("finish the file"), "{}", other.stderr);
    }

    /// Checks that the file is refused with this reason, and that nothing of it is left on the disk.
    fn refused(&self, file: &str, more: &[&str], why: &str) {
        let before = self.names("there");
        let ended = self.restore(file, more).expect(1);
        assert!(ended.stderr.contains(why), "{}", ended.stderr);
        assert_eq!(ended.stdout, "");
        assert_eq!(self.names("there"), before);
    }

    fn names(&self, machine: &str) -> Vec<String> {
        let entries = fs::read_dir(self.world.path(machine)).unwrap();
        let mut names: Vec<_> = entries.map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

/// Whether the node at `address` speaks as `id`.
async fn speaks(id: &str, address: &str) -> bool {
    let id: NodeId = id.parse().unwrap();
    let asker = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await.unwrap();
    let peer = asker.peer(PeerAddr::new(id, [address]).unwrap());
    peer.ping(SILENT).await.unwrap().is_some()
}

/// A running listener goes into a file, and never answers at its old place again.
#[test]
fn a_running_service_goes_into_a_file_and_comes_up_elsewhere() {
    let stage = Stage::new();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let mut here = stage.listen("here", "");
    let was = here.line_of("listening")["peer"].as_str().unwrap().to_owned();
    let client = runtime.block_on(async {
        let client = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await.unwrap();
        let receipt = client.peer(was.parse::<PeerAddr>().unwrap()).send("one").await.unwrap();
        assert_eq!(receipt.await.outcome, Outcome::Delivered);
        client
    });
    let written = stage.checkpoint("file", &["--json"]).expect(0);
    let steps: Vec<_> =
        written.of_type("step").iter().map(|it| it["step"].as_str().unwrap().to_owned()).collect();
    assert_eq!(steps, ["drain", "checkpoint", "copy", "cede", "finish"]);
    let summary = written.summary();
    assert_eq!((summary["generation"].as_u64(), summary["to"].as_str()), (Some(1), Some(&*stage.target)));
    let ended = here.end().expect(0);
    assert_eq!(ended.of_type("message").len(), 1);
    // The old place does not answer, and does not start.
    assert!(!runtime.block_on(speaks(&stage.calc, was.split_once('@').unwrap().1)));
    let left = stage.listen("here", "").end().expect(1);
    assert!(left.stderr.contains("has moved"), "{}", left.stderr);

    let restored = stage.restore("file", &["--json"]).expect(0);
    assert_eq!(restored.of_type("restored")[0]["id"], *stage.calc);
    assert_eq!(restored.of_type("restored")[0]["generation"], 1);
    // The listener greets the peers that it knows, so the client need not look it up.
    let mut there = stage.listen("there", "");
    there.line_of("listening");
    let receipt = runtime.block_on(async {
        let peer = client.peer(was.parse::<PeerAddr>().unwrap());
        peer.send("two").await.unwrap().await
    });
    assert_eq!(receipt.outcome, Outcome::Delivered);
    there.signal(Signal::INT);
    let texts: Vec<_> = there.end().of_type("message").iter().map(|it| it["text"].clone()).collect();
    assert_eq!(texts, ["two"]);
}

#[test]
fn a_file_is_restored_once_and_by_its_node_only() {
    let stage = Stage::new();
    stage.checkpoint("first", &[]).expect(0);
    let whole = fs::read(stage.world.path("first")).unwrap();
    let mut damaged = whole.clone();
    damaged[whole.len() / 2] ^= 1;
    stage.world.file("damaged", &damaged);
    stage.world.file("short", &whole[..whole.len() - 9]);
    stage.world.file("foreign", b"a letter");
    let stranger = stage.make("there", "stranger");
    for (file, more, why) in [
        ("damaged", &[] as &[&str], "is damaged, or cut short"),
        ("short", &[], "is damaged, or cut short"),
        ("foreign", &[], "is no checkpoint"),
        ("absent", &[], "cannot open"),
        ("first", &["--key", "stranger"], &*stranger),
        ("first", &["--key", "nobody"], "there is no identity nobody"),
    ] {
        stage.refused(file, more, why);
    }
    let unnamed = stage.run("there", &["restore", arg(&stage.world.path("first"))]).expect(1);
    assert!(unnamed.stderr.contains("--as NAME"), "{}", unnamed.stderr);
    stage.restore("first", &[]).expect(0);
    stage.refused("first", &[], "lives there: start it");
    stage.refused(
        "first",
        &["--state", arg(&stage.world.path("elsewhere"))],
        "a checkpoint is restored once",
    );
    assert!(!stage.world.path("elsewhere").exists());

    // The identity moves back, and comes again in a third file. The first file is older then.
    let back = stage.make("here", "default");
    let second = stage.world.path("second");
    stage.run("there", &["checkpoint", "--as", "calc", "--to", &back, arg(&second)]).expect(0);
    stage.run("here", &["restore", arg(&second), "--as", "calc"]).expect(0);
    stage.checkpoint("third", &[]).expect(0);
    stage.restore("third", &[]).expect(0);
    stage.refused("first", &[], "restored generation 3 before");
}

/// A name service lets an identity live at one of two places, though neither place knows of the other.
#[test]
fn a_name_service_lets_one_place_restore_a_file() {
    let stage = Stage::new();
    let names = format!("file:{}", arg(&stage.world.path("services")));
    stage.checkpoint("file", &[]).expect(0);
    // The second machine has a copy of the target's key.
    let twin = stage.world.path("twin");
    fs::create_dir_all(twin.join("default")).unwrap();
    for name in ["key", "clock"] {
        fs::copy(stage.world.path("there").join("default").join(name), twin.join("default").join(name))
            .unwrap();
    }
    let file = stage.world.path("file");
    stage.run("twin", &["restore", arg(&file), "--as", "calc", "--names", &names]).expect(0);
    stage.refused("file", &["--names", &names], "generation 1");
}

/// The process of the service dies at each step of the move.
#[test]
fn a_checkpoint_that_dies_on_the_way_is_none_or_is_finished() {
    for point in ["frozen", "checkpoint", "copied"] {
        let stage = Stage::new();
        let mut here = stage.listen("here", &format!("{point}:die"));
        here.line_of("listening");
        let cut = stage.checkpoint("file", &[]).expect(1);
        assert!(cut.stderr.contains("in the middle of the move"), "{}", cut.stderr);
        assert_eq!(here.end().code, None);
        assert!(!stage.world.path("file").exists());
        // The identity still lives here, and the same command starts from the beginning.
        assert!(exonet::state::lives(stage.world.path("here").join("calc")).unwrap(), "{point}");
        stage.checkpoint("file", &[]).expect(0);
        stage.restore("file", &[]).expect(0);
    }
    let stage = Stage::new();
    let mut here = stage.listen("here", "ceded:die");
    here.line_of("listening");
    stage.checkpoint("file", &[]).expect(1);
    assert_eq!(here.end().code, None);
    assert!(!exonet::state::lives(stage.world.path("here").join("calc")).unwrap());
    assert!(!stage.world.path("file").exists());
    stage.refuses_another("other");
    let finished = stage.checkpoint("file", &[]).expect(0);
    assert!(finished.stderr.contains("its file is complete now"), "{}", finished.stderr);
    stage.restore("file", &[]).expect(0);
}

/// The identity went into one file. The command does not say that another file can be finished.
#[test]
fn an_identity_that_is_in_a_file_goes_into_no_other() {
    let stage = Stage::new();
    stage.checkpoint("first", &[]).expect(0);
    stage.refuses_another("second");
    // Nor does it take the file of another identity for that of this one.
    stage.make("here", "another");
    let file = stage.world.path("second");
    let args = ["checkpoint", "--as", "another", "--to", &stage.target, arg(&file)];
    stage.run("here", &args).expect(0);
    stage.refuses_another("second");
    let again = stage.checkpoint("first", &[]).expect(0);
    assert!(again.stderr.contains("its file is complete now"), "{}", again.stderr);
    stage.restore("first", &[]).expect(0);
}

impl Stage {
    /// Leaves an unfinished checkpoint of another identity under the first name of the file. A process that has already
    /// checked the file finds this only after it has stopped its service.
    fn begin_another(&self, file: &str) {
        self.make("here", "another");
        let file = self.world.path(file);
        let args = ["checkpoint", "--as", "another", "--to", &*self.target, arg(&file)];
        let mut command = self.command("here", &args);
        command.env("EXON_MOVE_POINT", "ceded:die");
        assert_eq!(Running::start(command).end().code, None);
    }
}

const ANOTHER: &str = "checkpoint of another identity";

#[cfg(target_os = "linux")]
fn is_stopped(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|state| state.contains(") T "))
}

/// Another command locks the directory while the service starts again.
#[cfg(target_os = "linux")]
#[test]
fn a_service_waits_for_its_directory_when_it_begins_again() {
    let stage = Stage::new();
    let mut here = stage.listen("here", "checkpoint:stop,stays:stop");
    here.line_of("listening");
    let (file, target) = (stage.world.path("file"), &*stage.target);
    let args = ["checkpoint", "--as", "calc", "--to", target, arg(&file), "--drain", "20s"];
    let first = Running::start(stage.command("here", &args));
    until("the service has stopped", || is_stopped(here.pid()));
    stage.begin_another("file");
    here.signal(Signal::CONT);
    let failed = first.end().expect(1);
    assert!(failed.stderr.contains(ANOTHER), "{}", failed.stderr);
    until("the service has stopped again", || is_stopped(here.pid()));
    let place = stage.world.path("here").join("calc");
    let mut locked = None;
    until("the directory is free", || {
        locked = exonet::state::StateDir::open(&place).ok();
        locked.is_some()
    });
    here.signal(Signal::CONT);
    here.says("waits until another command releases the directory");
    drop(locked);
    stage.checkpoint("other", &[]).expect(0);
    // The command asks the service, unless it was first at the directory.
    let ended = here.end();
    let late = ended.code == Some(1) && ended.stderr.contains("has moved: it was ceded");
    assert!(ended.code == Some(0) || late, "{}", ended.stderr);
}

/// A command that comes while the service is stopped asks the service as soon as it has started again.
#[cfg(target_os = "linux")]
#[test]
fn a_command_that_waits_finds_a_service_that_has_begun_again() {
    let stage = Stage::new();
    let mut here = stage.listen("here", "checkpoint:stop");
    here.line_of("listening");
    let (file, target) = (stage.world.path("file"), &*stage.target);
    let args = ["checkpoint", "--as", "calc", "--to", target, arg(&file), "--drain", "20s"];
    let mut first = Running::start(stage.command("here", &args));
    first.says("which runs the identity, to move it");
    until("the service has stopped", || is_stopped(here.pid()));
    let mut second = Running::start(stage.command("here", &args));
    second.says("cannot be asked now");
    stage.begin_another("file");
    here.signal(Signal::CONT);
    for command in [first, second] {
        let ended = command.end().expect(1);
        assert!(ended.stderr.contains(ANOTHER), "{}", ended.stderr);
    }
    stage.checkpoint("other", &[]).expect(0);
    here.end().expect(0);
}

/// Each command that other nodes reach at its address tells the peers of a restored identity that address.
#[test]
fn each_command_that_stays_greets_the_peers_of_a_restored_identity() {
    for command in [
        &["listen", "--as", "calc", "--bind", "127.0.0.1:0"] as &[&str],
        &["up", "--as", "calc", "--bind", "127.0.0.1:0"],
        &["share", ".", "--as", "calc", "--bind", "127.0.0.1:0", "--anyone"],
        &["proxy", "serve", "--as", "calc", "--bind", "127.0.0.1:0", "--anyone", "--allow-to", "127.0.0.1:1"],
        &["names", "serve", "--as", "calc", "--bind", "127.0.0.1:0"],
    ] {
        let stage = Stage::new();
        stage.checkpoint("file", &[]).expect(0);
        stage.restore("file", &[]).expect(0);
        let has_arrived = || exonet::state::has_arrived(stage.world.path("there").join("calc")).unwrap();
        let run = |point: &str| {
            let mut run = stage.command("there", command);
            run.env("EXON_MOVE_POINT", point).arg("--json");
            Running::start(run)
        };
        assert_eq!(run("greeted:die").end().code, None, "{command:?}");
        // The process died before it removed the mark, so the next run greets the peers once more.
        assert!(has_arrived());
        let complete = |mut run: Running| {
            run.line();
            run.signal(Signal::INT);
            assert!(run.end().code.is_some(), "{command:?}");
        };
        complete(run(""));
        assert!(!has_arrived(), "{command:?}");
        // Without the mark, the command does not greet them.
        complete(run("greeted:die"));
    }
}

/// If two commands restore files with the same key, one of them says that the other runs.
#[test]
fn one_command_at_a_time_restores_with_a_key() {
    use rustix::fs::{FlockOperation, flock};
    let stage = Stage::new();
    stage.checkpoint("file", &[]).expect(0);
    let restoring = stage.world.path("there").join("default").join("restoring");
    fs::create_dir(&restoring).unwrap();
    let lock = fs::File::create(restoring.join("lock")).unwrap();
    flock(&lock, FlockOperation::LockExclusive).unwrap();
    let refused = stage.restore("file", &[]);
    assert!(
        refused.stderr.contains("another `exon restore` with the key of default runs"),
        "{}",
        refused.stderr
    );
    assert!(refused.code.is_some_and(|code| code != 0));
    drop(lock);
    stage.restore("file", &[]).expect(0);
}

/// The command refuses a wrong name service before it writes anything of the file to the disk.
#[test]
fn a_name_service_that_cannot_be_is_named_before_a_file_is_read() {
    let stage = Stage::new();
    stage.checkpoint("file", &[]).expect(0);
    for names in ["file:", "etcd:nonsense", "nowhere"] {
        stage.refused("file", &["--names", names], "cannot use the name service");
    }
    stage.restore("file", &[]).expect(0);
}

/// If the file cannot be written, the service goes on.
#[test]
fn a_service_whose_file_cannot_be_written_goes_on() {
    let stage = Stage::new();
    let mut here = stage.listen("here", "");
    let peer = here.line_of("listening")["peer"].as_str().unwrap().to_owned();
    stage.world.file("taken", b"thesis");
    fs::create_dir(stage.world.path("folder.part")).unwrap();
    std::os::unix::fs::symlink("taken", stage.world.path("link.part")).unwrap();
    std::os::unix::fs::symlink("loop", stage.world.path("loop")).unwrap();
    let pipe = stage.world.path("pipe.part");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for (file, why) in [
        ("taken", "already exists"),
        ("no/such/place", "does not exist"),
        ("taken/new", "its parent is not a directory"),
        ("loop/new", "cannot inspect"),
        ("new/", "is not the name of a file"),
        ("folder", "is not a regular file"),
        ("link", "is not a regular file"),
        ("pipe", "is not a regular file"),
        // Not even the superuser can create a file there.
        #[cfg(target_os = "linux")]
        ("/proc/file", "cannot write in /proc"),
    ] {
        let failed = stage.checkpoint(file, &[]).expect(1);
        assert!(failed.stderr.contains(why), "{}", failed.stderr);
        // No step was made, so the service was not stopped.
        assert_eq!(failed.stdout, "");
    }
    let file = stage.world.path("file");
    let own = ["checkpoint", "--as", "calc", "--to", &*stage.calc, arg(&file)];
    let failed = stage.run("here", &own).expect(1);
    assert!(failed.stderr.contains("cannot be ceded"), "{}", failed.stderr);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    assert!(runtime.block_on(speaks(&stage.calc, peer.split_once('@').unwrap().1)));
    assert_eq!(fs::read(stage.world.path("taken")).unwrap(), b"thesis");
    // The name of the file is relative to the directory of the command, not to that of the process that writes the file.
    let args = ["checkpoint", "--as", "calc", "--to", &stage.target, "file"];
    let mut command = stage.command("here", &args);
    command.current_dir(stage.world.path(""));
    Running::start(command).end().expect(0);
    here.end().expect(0);
    stage.restore("file", &[]).expect(0);
}
