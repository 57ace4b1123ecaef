//! One world: a sender and a receiver, their crashes, and the settlement after them.

use std::fmt;
use std::fs;
use std::io;
use std::path::PathBuf;

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use exonet_store::laboratory::cut_power;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::account::{Account, Bounds};
use crate::fault::Fault;
use crate::life::{Heard, Life, Side};
use crate::part::{Kind, Level};

/// The result of a world.
#[derive(Default)]
pub(crate) struct Report {
    pub(crate) crashes: usize,
    pub(crate) at_points: usize,
    pub(crate) cuts: usize,
    pub(crate) errors: usize,
    pub(crate) lies: usize,
    pub(crate) damaged: usize,
    pub(crate) accepted: usize,
    pub(crate) processed: usize,
    pub(crate) redelivered: usize,
    pub(crate) unknown: usize,
    pub(crate) violations: Vec<String>,
    levels: String,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}; {} crashes, {} cuts of power; {} accepted, {} processed, {} redelivered, {} unknown, {} violations",
            self.levels,
            self.crashes,
            self.cuts,
            self.accepted,
            self.processed,
            self.redelivered,
            self.unknown,
            self.violations.len(),
        )
    }
}

/// What a node says whose journal lacks something that the disk had said to be forced.
const REMEDY: &str = "move the directory of the journal away";

/// A world without output for this long has hung.
const SILENT: Duration = Duration::from_secs(60);

/// A machine with one identity on it.
struct Machine {
    side: Side,
    dir: PathBuf,
    level: Level,
    store: Kind,
    /// How often the machine has lost power.
    boots: u32,
    /// Whether the machine may lose power.
    is_frail: bool,
    /// Whether a sync may have failed.
    has_failed: bool,
    /// Whether the journal is damaged in a part that the disk had said to be forced.
    is_damaged: bool,
    fault: Fault,
    life: Option<Life>,
    /// The number of its lives, and the number of lines of the current one.
    lives: usize,
    lines: u32,
    /// The number of lines after which this life is killed.
    patience: u32,
}

impl Machine {
    fn new(side: Side, dir: PathBuf, level: Level, store: Kind, is_frail: bool) -> io::Result<Self> {
        fs::create_dir_all(dir.join("memory"))?;
        let (boots, lives, lines, patience) = (0, 0, 0, u32::MAX);
        Ok(Self {
            side,
            dir,
            level,
            store,
            boots,
            is_frail,
            has_failed: false,
            is_damaged: false,
            fault: Fault::Kill,
            life: None,
            lives,
            lines,
            patience,
        })
    }

    /// Starts another life, which `fault` ends.
    fn begin(&mut self, role: &str, at: &str, fault: Fault, hears: &Sender<Heard>) -> io::Result<()> {
        (self.fault, self.lines, self.lives) = (fault, 0, self.lives + 1);
        let dir = self.dir.display();
        let mut plan = format!("boot=boot-{};memory={dir}/memory;{}", self.boots, fault.term());
        if self.is_frail {
            plan.push_str(&format!("image={dir}/image"));
        }
        let level = format!("{:?}", self.level).to_lowercase();
        let (state, store) = (format!("{dir}/state"), format!("{:?}", self.store).to_lowercase());
        let args = [role, "--state", &state, "--at", at, "--durability", &level, "--store", &store, "--life"];
        let args: Vec<_> = args.into_iter().map(str::to_owned).chain([self.lives.to_string()]).collect();
        self.life = Some(Life::begin((self.side, self.lives), &args, &plan, hears.clone())?);
        Ok(())
    }

    /// Ends the current life, if it has not ended.
    fn end(&mut self) {
        if let Some(life) = self.life.take() {
            life.kill();
        }
    }

    /// Moves a damaged journal away, as the node asks.
    fn put_aside(&mut self) -> io::Result<()> {
        self.is_damaged = false;
        fs::rename(self.dir.join("state/journal"), self.dir.join(format!("damaged-{}", self.lives)))?;
        fs::remove_dir_all(self.dir.join("image"))
    }

    /// Leaves on the disk a state that a power cut could leave.
    fn lose_power(&mut self, rng: &mut ChaCha8Rng) -> io::Result<()> {
        self.boots += 1;
        for entry in fs::read_dir(self.dir.join("memory"))? {
            fs::remove_file(entry?.path())?;
        }
        let odds = rng.random_range(0..=4);
        let journal = self.dir.join("state/journal");
        if journal.is_dir() {
            cut_power(&self.dir.join("image"), &journal, || rng.random_range(0..4) < odds)?;
        }
        Ok(())
    }
}

/// Runs the world of `seed` through `crashes` crashes.
///
/// # Errors
/// The reason for which it did not end: a part that hangs, or an error of the laboratory's own disk.
pub(crate) fn run(seed: u64, kind: &Rules) -> Result<Report, String> {
    World::new(seed, *kind).and_then(World::run).map_err(|error| error.to_string())
}

/// What all worlds of a run have in common.
#[derive(Clone, Copy)]
pub(crate) struct Rules {
    /// How many lives end.
    pub(crate) crashes: usize,
    pub(crate) store: Kind,
    /// Whether disks forget what they said that they had forced.
    pub(crate) lies: bool,
    pub(crate) verbose: bool,
}

struct World {
    rng: ChaCha8Rng,
    rules: Rules,
    /// The first life of the sender that began after all lies.
    sound_from: usize,
    _home: tempfile::TempDir,
    sender: Machine,
    receiver: Machine,
    /// The id and the address of the receiver.
    address: String,
    account: Account,
    report: Report,
    says: Sender<Heard>,
    hears: Receiver<Heard>,
}

impl World {
    fn new(seed: u64, rules: Rules) -> io::Result<Self> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let home = tempfile::tempdir()?;
        // At the level `Process` nothing is forced before a power cut, so a disk has nothing to lie about.
        let levels: &[Level] = if rules.lies {
            &[Level::Batched, Level::Sync]
        } else {
            &[Level::Process, Level::Batched, Level::Sync]
        };
        let mut machine = |side, name: &str| {
            let level = *levels.choose(&mut rng).unwrap_or(&Level::Sync);
            let is_frail = (rng.random_bool(0.5) || rules.lies) && rules.store == Kind::Log;
            Machine::new(side, home.path().join(name), level, rules.store, is_frail)
        };
        let (sender, receiver) = (machine(Side::Sender, "sender")?, machine(Side::Receiver, "receiver")?);
        let (account, report, address) = (Account::default(), Report::default(), "127.0.0.1:0".to_owned());
        let (says, hears) = channel();
        Ok(Self {
            rng,
            rules,
            sound_from: 0,
            _home: home,
            sender,
            receiver,
            address,
            account,
            report,
            says,
            hears,
        })
    }

    /// The losses that this world may have. A journal at `Process` is not trusted after a power cut, or after a failed
    /// sync; a node whose sync has failed cannot tell the outcomes of the messages that it has in flight.
    fn bounds(&self) -> Bounds {
        let machines = [&self.sender, &self.receiver];
        let may_forget = |it: &&&Machine| it.level == Level::Process && (it.boots > 0 || it.has_failed);
        let may_lose = machines.iter().any(|it| may_forget(&it));
        let may_not_know = may_lose || self.sound_from > 0 || machines.iter().any(|it| it.has_failed);
        Bounds { may_lose, may_not_know, sound_from: self.sound_from }
    }

    fn run(mut self) -> io::Result<Report> {
        self.report.levels = format!("{:?} to {:?}", self.sender.level, self.receiver.level).to_lowercase();
        self.begin(Side::Receiver, Fault::Kill)?;
        let first = self.hear()?.line.unwrap_or_default();
        self.address = first.strip_prefix("at ").ok_or_else(|| io::Error::other(first.clone()))?.to_owned();
        self.begin(Side::Sender, Fault::Kill)?;
        while self.report.crashes < self.rules.crashes {
            let Some((side, by_itself)) = self.listen()? else { continue };
            self.bury(side, by_itself)?;
            let Machine { is_frail, store, .. } = *self.machine(side);
            let next = if !self.rules.lies {
                Fault::any(&mut self.rng, is_frail)
            } else if 2 * self.report.crashes < self.rules.crashes {
                Fault::of_a_liar(&mut self.rng)
            } else {
                // What is sent from now on must arrive once.
                Fault::Kill
            };
            let next = next.within(store);
            self.begin(side, next)?;
        }
        self.rest()?;
        let bounds = self.bounds();
        let mut report = self.report;
        report.violations.extend(self.account.violations(bounds));
        report.accepted = self.account.accepted();
        report.processed = self.account.processed();
        report.redelivered = self.account.redelivered();
        report.unknown = self.account.unknown();
        Ok(report)
    }

    fn machine(&mut self, side: Side) -> &mut Machine {
        match side {
            Side::Sender => &mut self.sender,
            Side::Receiver => &mut self.receiver,
        }
    }

    fn begin(&mut self, side: Side, fault: Fault) -> io::Result<()> {
        let (role, at) = match side {
            Side::Sender => ("send", self.address.clone()),
            Side::Receiver => ("receive", self.address.rsplit('@').next().unwrap_or_default().to_owned()),
        };
        let (patience, says) = (self.rng.random_range(20..300), self.says.clone());
        let machine = self.machine(side);
        machine.patience = patience;
        machine.begin(role, &at, fault, &says)
    }

    fn hear(&mut self) -> io::Result<Heard> {
        let heard = self.hears.recv_timeout(SILENT);
        heard.map_err(|_| io::Error::other(format!("nothing has been said for {SILENT:?}")))
    }

    /// Handles the next line or end of a life. Some: the current life of this side has ended by itself (true), or has
    /// written enough lines (false).
    fn listen(&mut self) -> io::Result<Option<(Side, bool)>> {
        let Heard { side, life, line } = self.hear()?;
        if let Some(line) = &line {
            self.account.hear(line);
        }
        let machine = self.machine(side);
        // The output of a former life still counts; its end is already known.
        if machine.lives != life {
            return Ok(None);
        }
        machine.lines += 1;
        machine.is_damaged |= line.as_ref().is_some_and(|line| line.contains(REMEDY));
        let by_itself = line.is_none();
        Ok((by_itself || machine.lines > machine.patience).then_some((side, by_itself)))
    }

    /// Ends a life, and records how it ended.
    fn bury(&mut self, side: Side, by_itself: bool) -> io::Result<()> {
        let Self { sender, receiver, rng, report, .. } = self;
        let machine = if side == Side::Sender { sender } else { receiver };
        machine.end();
        report.crashes += 1;
        match machine.fault {
            Fault::Power => {
                machine.lose_power(rng)?;
                report.cuts += 1;
            }
            Fault::Lie(_) => {
                machine.lose_power(rng)?;
                report.cuts += 1;
                report.lies += 1;
            }
            Fault::Point(..) => report.at_points += usize::from(by_itself),
            Fault::Full(..) => report.errors += 1,
            Fault::Sync(_) => {
                machine.has_failed = true;
                report.errors += 1;
            }
            Fault::Kill => {}
        }
        if self.rules.lies && machine.is_damaged {
            machine.put_aside()?;
            report.damaged += 1;
        }
        if matches!(machine.fault, Fault::Lie(_)) {
            self.sound_from = self.sender.lives + 1;
        }
        if self.rules.verbose {
            let how = if by_itself { "has ended" } else { "was ended" };
            println!("  {side:?} {how}: {:?}", self.machine(side).fault);
        }
        Ok(())
    }

    /// Lets both sides settle their messages, without faults.
    fn rest(&mut self) -> io::Result<()> {
        self.sender.end();
        self.receiver.end();
        self.begin(Side::Receiver, Fault::Kill)?;
        self.sender.begin("rest", &self.address, Fault::Kill, &self.says)?;
        loop {
            let Heard { side, life, line } = self.hear()?;
            match line {
                Some(line) => self.account.hear(&line),
                None if (side, life) == (Side::Sender, self.sender.lives) => break,
                None if (side, life) == (Side::Receiver, self.receiver.lives) => {
                    self.report.violations.push("the last life of the receiver has ended".into());
                    break;
                }
                None => {}
            }
        }
        self.sender.end();
        self.receiver.end();
        while let Ok(heard) = self.hears.try_recv() {
            heard.line.iter().for_each(|line| self.account.hear(line));
        }
        if !self.account.is_done {
            let why = self.account.stopped.last().cloned().unwrap_or_default();
            self.report.violations.push(format!("the last life of the sender did not end: {why}"));
        }
        Ok(())
    }
}
