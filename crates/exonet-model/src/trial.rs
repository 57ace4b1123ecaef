//! The rules around the half-connection, tried one by one: a copy of the workspace in which each mutant of
//! `mutants/core.txt` is a branch is built once, and the tests that the list names are run with the mutant active.
//!
//! A mutant dies by a test that fails, that does not end in time, or that takes too much memory. Each named test is
//! run without any mutant first: it has to pass.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::Instant;

use crate::TELL_EVERY;
use exonet_model::schemata::{Entry, core_sources, parse, plant};

/// The list, relative to this crate, and the sources of the core, relative to the workspace.
const LIST: &str = "mutants/core.txt";
const CORE: &str = "crates/exonet-proto/src";
/// The environment variable that chooses a mutant.
const CHOICE: &str = "EXONET_MUTANT";
/// The most processor seconds, and the most kilobytes, of a run of tests.
const SECONDS: u64 = 600;
const MEMORY: u32 = 4 << 20;
/// The binaries of tests, in the order in which a search goes through them.
const BINARIES: &[&str] = &["exonet_proto", "worlds"];

/// Chooses the mutant when the process starts.
const SWITCH: &str = r#"
mod mutant {
    static ACTIVE: std::sync::OnceLock<usize> = std::sync::OnceLock::new();

    #[inline]
    pub(crate) fn active(id: usize) -> bool {
        let chosen = || std::env::var("EXONET_MUTANT").ok().and_then(|id| id.parse().ok()).unwrap_or(0);
        *ACTIVE.get_or_init(chosen) == id
    }
}
"#;

/// The mutants that are tried, and the tests that they are tried with.
#[derive(Clone, Debug, Default)]
pub(crate) struct Choice {
    /// The mutants with these names; all if there are none.
    pub(crate) names: Vec<String>,
    /// Each `n`-th of these, from the `k`-th on.
    pub(crate) share: Option<Share>,
    /// Tries every test until one fails, instead of the one that the list names.
    pub(crate) search: bool,
}

/// Share `k` of `n` shares, with `k` below `n`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    k: usize,
    n: usize,
}

impl std::str::FromStr for Share {
    type Err = String;

    /// `K/N`. `K` may be any number, such as that of a commit: only its remainder counts.
    fn from_str(text: &str) -> Result<Self, String> {
        let numbers =
            text.split_once('/').and_then(|(k, n)| Some((k.parse::<usize>().ok()?, n.parse().ok()?)));
        let (k, n) = numbers.ok_or_else(|| format!("a share is K/N, not {text}"))?;
        let k = k.checked_rem(n).ok_or("a share of none")?;
        Ok(Self { k, n })
    }
}

/// Tries the chosen mutants. Returns true if tests notice all of them, except those that the list calls equivalent. Prints each
/// mutant that was named. If none was named, prints only the survivors and the progress.
pub(crate) fn trial(choice: &Choice) -> Result<bool, String> {
    let Choice { names, share, search } = choice;
    let (began, each) = (Instant::now(), *search || !names.is_empty());
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = here.join("../..").canonicalize().map_err(|e| e.to_string())?;
    let mutants = parse(&read(&here.join(LIST))?)?;
    if let Some(unknown) = names.iter().find(|name| mutants.iter().all(|mutant| mutant.name != **name)) {
        return Err(format!("no mutant {unknown}"));
    }
    let copy = root.join("target/mutants");
    mirror(&root, &copy, &mutants)?;
    let chosen = (1..).zip(&mutants).filter(|(_, mutant)| names.is_empty() || names.contains(&mutant.name));
    let chosen = chosen.filter(|(_, mutant)| *search || mutant.equivalent.is_empty()).enumerate();
    let chosen = chosen.filter(|(place, _)| share.is_none_or(|Share { k, n }| place % n == k));
    let chosen: Vec<(usize, &Entry)> = chosen.map(|(_, mutant)| mutant).collect();
    let all = BINARIES.iter().copied().collect();
    let named: BTreeSet<&str> = chosen.iter().map(|(_, mutant)| mutant.found_in.as_str()).collect();
    let binaries = build(&copy, if *search { &all } else { &named }, names.is_empty() && share.is_none())?;
    let mut usual = Usual::default();
    if !*search {
        eprintln!("{} s; the tests without a mutant", began.elapsed().as_secs());
        usual = sound(&binaries, &chosen)?;
    }
    eprintln!("{} s; the mutants", began.elapsed().as_secs());
    let all = chosen.len();
    let (queue, tally) = (Mutex::new(chosen.into_iter()), Mutex::new(Tally::default()));
    at_once(|| {
        while let Some((id, mutant)) = queue.lock().ok().and_then(|mut queue| queue.next()) {
            let tried = Instant::now();
            let death = if *search { hunt(&binaries, id) } else { by_name(&binaries, &usual, mutant, id) };
            if each || death.is_none() {
                let (death, took) = (death.as_deref().unwrap_or("SURVIVED"), tried.elapsed().as_secs());
                println!("{:<36}{took:>4} s  {death}", mutant.name);
            }
            if let Ok(mut tally) = tally.lock() {
                let unnoticed = death.is_none() && mutant.equivalent.is_empty();
                tally.enter(unnoticed.then_some(&mutant.name), all, began.elapsed().as_secs());
            }
        }
    });
    let Tally { tried, survivors, .. } = tally.into_inner().map_err(|_| "a trial broke down")?;
    if names.is_empty() && share.is_none() {
        for mutant in mutants.iter().filter(|mutant| !mutant.equivalent.is_empty()) {
            println!("{:<36}equivalent: {}", mutant.name, mutant.equivalent);
        }
    }
    let seconds = began.elapsed().as_secs();
    println!("{tried} rules taken away in {seconds} s, {} of them unnoticed: {survivors:?}", survivors.len());
    Ok(tried == all && survivors.is_empty())
}

/// The results of the mutants so far.
#[derive(Default)]
struct Tally<'a> {
    tried: usize,
    survivors: Vec<&'a str>,
    /// Seconds from the beginning to the last line about the progress.
    told: u64,
}

impl<'a> Tally<'a> {
    /// Counts one more of `all`, tried `seconds` after the beginning.
    fn enter(&mut self, survivor: Option<&'a String>, all: usize, seconds: u64) {
        self.tried += 1;
        self.survivors.extend(survivor.map(String::as_str));
        if seconds >= self.told + TELL_EVERY {
            self.told = seconds;
            eprintln!("{} of {all} tried, {} survive, {seconds} s", self.tried, self.survivors.len());
        }
    }
}

fn at_once(work: impl Fn() + Sync) {
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(&work);
        }
    });
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))
}

/// Makes the copy of the workspace, with the mutants. Files that have not changed are not written, so they are not built again.
fn mirror(root: &Path, copy: &Path, mutants: &[Entry]) -> Result<(), String> {
    let sources = core_sources(&root.join(CORE))?;
    let mut planted: BTreeMap<PathBuf, String> = plant(&sources, mutants)?.into_iter().collect();
    let library = root.join(CORE).join("lib.rs");
    let switch = SWITCH.replace("EXONET_MUTANT", CHOICE);
    planted.insert(library.clone(), format!("#![allow(warnings)]\n{}{switch}", read(&library)?));
    fs::create_dir_all(copy).map_err(|e| e.to_string())?;
    for file in ["Cargo.toml", "Cargo.lock", "PROTOCOL.md", "conformance/vectors", "crates"] {
        copy_all(&root.join(file), &copy.join(file), &planted).map_err(|e| format!("copying {file}: {e}"))?;
    }
    Ok(())
}

fn copy_all(from: &Path, to: &Path, planted: &BTreeMap<PathBuf, String>) -> std::io::Result<()> {
    if !from.is_dir() {
        let text = planted.get(from).map_or_else(|| fs::read(from), |text| Ok(text.clone().into_bytes()))?;
        return if fs::read(to).is_ok_and(|old| old == text) { Ok(()) } else { fs::write(to, text) };
    }
    fs::create_dir_all(to)?;
    for gone in fs::read_dir(to)?.flatten().filter(|entry| !from.join(entry.file_name()).exists()) {
        if gone.path().is_dir() { fs::remove_dir_all(gone.path())? } else { fs::remove_file(gone.path())? }
    }
    fs::read_dir(from)?.try_for_each(|entry| {
        let name = entry?.file_name();
        copy_all(&from.join(&name), &to.join(&name), planted)
    })
}

/// A binary of tests, and the path of each test by the name of its function. A name that two tests have is left out.
struct Binary {
    path: PathBuf,
    tests: BTreeMap<String, Option<String>>,
}

impl Binary {
    fn at(path: PathBuf) -> Self {
        let listed = Command::new(&path).args(["--list", "--format=terse"]).stderr(Stdio::null()).output();
        let listed =
            listed.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
        let mut tests = BTreeMap::new();
        for test in listed.lines().filter_map(|line| line.strip_suffix(": test")) {
            let name = test.rsplit("::").next().unwrap_or(test);
            let only = |twice: &mut Option<String>| *twice = None;
            tests.entry(name.to_string()).and_modify(only).or_insert_with(|| Some(test.to_string()));
        }
        Self { path, tests }
    }
}

/// Builds these of the tests of the core and of the simulator, apart from those without mutants: Cargo would take one
/// for the other. Gives each binary's path by its name.
fn build(copy: &Path, wanted: &BTreeSet<&str>, every: bool) -> Result<BTreeMap<String, Binary>, String> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    cargo.args(["test", "--no-run", "--locked", "-p", "exonet-proto", "-p", "exonet-sim"]);
    // With all mutants in it, the core takes long to be optimised: that pays only if every mutant is tried.
    let optimised: &[&str] = if every {
        &["package.exonet-proto.opt-level=1"]
    } else {
        &["package.exonet-proto.opt-level=0", "package.exonet-sim.opt-level=0"]
    };
    for setting in optimised.iter().chain(&["debug=false"]) {
        cargo.args(["--config", &format!("profile.dev.{setting}")]);
    }
    for name in wanted {
        match *name {
            "exonet_proto" => cargo.arg("--lib"),
            name => cargo.args(["--test", name]),
        };
    }
    cargo
        .arg("--message-format=json-render-diagnostics")
        .arg("--target-dir")
        .arg(copy.join("target"))
        .current_dir(copy);
    let built = cargo.stderr(Stdio::inherit()).output().map_err(|e| e.to_string())?;
    if !built.status.success() {
        return Err("the mutants do not build".into());
    }
    let messages = String::from_utf8_lossy(&built.stdout);
    let paths =
        messages.lines().filter_map(|line| Some(line.split_once("\"executable\":\"")?.1.split_once('"')?.0));
    let named = paths.filter_map(|path| {
        let (name, _) = Path::new(path).file_name()?.to_str()?.rsplit_once('-')?;
        Some((name.to_string(), Binary::at(path.into())))
    });
    Ok(named.collect())
}

/// How many seconds each test takes without a mutant, by its binary and name.
type Usual = BTreeMap<(String, String), u64>;

/// Checks that every test that the list names exists, and passes without a mutant.
fn sound(binaries: &BTreeMap<String, Binary>, chosen: &[(usize, &Entry)]) -> Result<Usual, String> {
    let tests: BTreeSet<_> = chosen.iter().map(|(_, mutant)| (&mutant.found_in, &mutant.kinds)).collect();
    let queue = Mutex::new(tests.into_iter());
    let (bad, usual) = (Mutex::new(Vec::new()), Mutex::new(Usual::new()));
    at_once(|| {
        while let Some((binary, test)) = queue.lock().ok().and_then(|mut queue| queue.next()) {
            let began = Instant::now();
            let ran = start(binaries, binary, Some(test), None, SECONDS).map(|child| ended(child, None));
            if let Ok(mut usual) = usual.lock() {
                usual.insert((binary.clone(), test.clone()), began.elapsed().as_secs());
            }
            if !ran.is_some_and(|(seen, death)| seen > 0 && death.is_none())
                && let Ok(mut bad) = bad.lock()
            {
                bad.push(format!("{binary} {test}"));
            }
        }
    });
    let bad = bad.into_inner().unwrap_or_default();
    if bad.is_empty() {
        Ok(usual.into_inner().unwrap_or_default())
    } else {
        Err(format!("without a mutant, failing, missing, or two of one name: {}", bad.join(", ")))
    }
}

/// How the mutant dies in the test that the list names. A test that takes far longer than without a mutant is in a loop.
fn by_name(binaries: &BTreeMap<String, Binary>, usual: &Usual, mutant: &Entry, id: usize) -> Option<String> {
    let usual = usual.get(&(mutant.found_in.clone(), mutant.kinds.clone())).copied().unwrap_or(SECONDS);
    let limit = (30 + 3 * usual).min(SECONDS);
    let child = start(binaries, &mutant.found_in, Some(&mutant.kinds), Some(id), limit)?;
    let (_, death) = ended(child, None);
    death.map(|how| format!("{} {} ({how})", mutant.found_in, mutant.kinds))
}

/// The first of all tests in which the mutant dies.
fn hunt(binaries: &BTreeMap<String, Binary>, id: usize) -> Option<String> {
    BINARIES.iter().find_map(|binary| {
        let child = start(binaries, binary, None, Some(id), SECONDS)?;
        let mut last = String::new();
        let (_, death) = ended(child, Some(&mut last));
        death.map(|how| format!("{binary} {last} ({how})"))
    })
}

/// Starts one test of a binary, or all, in an address space of [`MEMORY`] and for so many seconds of processor time.
fn start(
    binaries: &BTreeMap<String, Binary>,
    binary: &str,
    test: Option<&str>,
    mutant: Option<usize>,
    seconds: u64,
) -> Option<Child> {
    let Binary { path, tests } = binaries.get(binary)?;
    let mut run = Command::new("sh");
    let limited = format!("ulimit -v {MEMORY}; ulimit -t {seconds}; exec \"$@\"");
    run.args(["-c", &limited, "sh"]).arg(path).arg("--test-threads=1");
    if let Some(test) = test {
        run.args(["--exact", tests.get(test)?.as_ref()?]);
    }
    run.env(CHOICE, mutant.unwrap_or(0).to_string()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().ok()
}

/// Waits for the end of a run, which is the first test that fails: how many ran, and how it failed. `last` becomes the
/// name of the last.
fn ended(mut child: Child, last: Option<&mut String>) -> (u32, Option<&'static str>) {
    let (mut ran, mut name, mut failed) = (0, String::new(), false);
    let lines = child.stdout.take().map(|out| BufReader::new(out).lines());
    for line in lines.into_iter().flatten().map_while(Result::ok) {
        if let Some((test, outcome)) = line.strip_prefix("test ").and_then(|rest| rest.split_once(" ... ")) {
            (ran, name, failed) = (ran + 1, test.to_string(), outcome.ends_with("FAILED"));
        }
        if failed {
            // The others need not be waited for.
            let _ = child.kill();
            break;
        }
    }
    if let Some(last) = last {
        *last = name;
    }
    let status = child.wait();
    let how = match status.ok().and_then(|status| status.code()) {
        _ if failed => "fails",
        Some(0) => return (ran, None),
        Some(_) => "ends early",
        None => "takes too much time or memory",
    };
    (ran, Some(how))
}
