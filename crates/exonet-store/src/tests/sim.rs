//! A simulated disk in memory, and the ways in which disks and processes end.
//!
//! A file has pages that the system has and pages that are on disk; so do the names. If a process dies, what the
//! system has stays. A power failure leaves the old or the new content of each page that was not forced, or a part of
//! either, and the old or the new file of each name.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::disk::{Disk, DiskFile, Syncer, Witness};
use crate::shared::Helper;

/// The size of a page in bytes. It is small, so that a little data has many pages.
pub(super) const PAGE: usize = 256;

/// Pseudo-random numbers.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        usize::try_from((x ^ (x >> 31)) >> 1).unwrap() % sides.max(1)
    }
}

#[derive(Clone, Default)]
struct Inode {
    cached: Vec<u8>,
    durable: Vec<u8>,
    dirty: BTreeSet<usize>,
}

impl Inode {
    fn pages(&self) -> usize {
        self.cached.len().div_ceil(PAGE)
    }

    fn sync(&mut self) {
        self.durable.resize(self.cached.len(), 0);
        for page in std::mem::take(&mut self.dirty) {
            let range = page * PAGE..((page + 1) * PAGE).min(self.cached.len());
            self.durable[range.clone()].copy_from_slice(&self.cached[range]);
        }
    }

    fn cut(&mut self, dice: &mut Dice) {
        if dice.roll(2) == 0 {
            self.durable.resize(self.cached.len(), 0);
        }
        for page in std::mem::take(&mut self.dirty) {
            let end = ((page + 1) * PAGE).min(self.cached.len()).min(self.durable.len());
            let range = (page * PAGE).min(end)..end;
            let at = range.start + dice.roll(range.len() + 1);
            let range = match dice.roll(4) {
                0 => continue,
                1 => range.start..at,
                2 => at..range.end,
                _ => range,
            };
            self.durable[range.clone()].copy_from_slice(&self.cached[range]);
        }
        self.cached = self.durable.clone();
    }
}

/// What a failed sync does to the pages that it has not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// They stay in memory, and count as written.
    Kept,
    /// They are read from the disk again.
    Dropped,
}

pub(super) struct World {
    inodes: BTreeMap<u64, Inode>,
    names: BTreeMap<String, u64>,
    durable: BTreeMap<String, u64>,
    next: u64,
    boot: u8,
    witness: Option<(u64, u64)>,
    dice: Dice,
    /// The life of the process. Handles of earlier lives do nothing.
    life: u64,
    /// After this many steps the process is killed, within a step.
    pub(super) dies_in: Option<usize>,
    pub(super) dead: bool,
    /// After this many forced writes, one fails.
    pub(super) fails_in: Option<(usize, Failure)>,
    /// How many of the next writes report that there was no room, although they were done.
    pub(super) refuses: usize,
    /// The next sync reports through this that it has begun, and then waits.
    pub(super) stalls: Option<(Sender<()>, Receiver<()>)>,
    /// Whether a sync has failed.
    pub(super) failed: bool,
    /// Whether syncs do nothing.
    pub(super) lies: bool,
    /// The number of pages of the disk.
    pub(super) capacity: usize,
    pub(super) has_boot: bool,
    pub(super) has_witness: bool,
    pub(super) remote: Option<&'static str>,
}

#[derive(Clone)]
pub(super) struct Sim {
    world: Arc<Mutex<World>>,
    life: u64,
}

impl Sim {
    pub(super) fn new(seed: u64) -> Self {
        let world = World {
            inodes: BTreeMap::new(),
            names: BTreeMap::new(),
            durable: BTreeMap::new(),
            next: 0,
            boot: 1,
            witness: None,
            dice: Dice(seed),
            life: 0,
            dies_in: None,
            dead: false,
            fails_in: None,
            stalls: None,
            refuses: 0,
            failed: false,
            lies: false,
            capacity: usize::MAX,
            has_boot: true,
            has_witness: true,
            remote: None,
        };
        Self { world: Arc::new(Mutex::new(world)), life: 0 }
    }

    pub(super) fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap()
    }

    /// The disk as the next process sees it.
    pub(super) fn killed(&self) -> Self {
        let mut world = self.world();
        world.life += 1;
        (world.dead, world.dies_in, world.fails_in) = (false, None, None);
        Self { world: Arc::clone(&self.world), life: world.life }
    }

    /// The disk after a power failure.
    pub(super) fn cut(&self) -> Self {
        let mut world = self.world();
        let World { inodes, names, durable, dice, .. } = &mut *world;
        inodes.values_mut().for_each(|inode| inode.cut(dice));
        for name in names.keys().chain(durable.keys()).cloned().collect::<BTreeSet<_>>() {
            if dice.roll(2) == 0 {
                match names.get(&name) {
                    Some(inode) => drop(durable.insert(name, *inode)),
                    None => drop(durable.remove(&name)),
                }
            }
        }
        *names = durable.clone();
        let used: BTreeSet<_> = names.values().copied().collect();
        inodes.retain(|inode, _| used.contains(inode));
        world.boot += 1;
        world.witness = None;
        drop(world);
        self.killed()
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.world().names.keys().cloned().collect()
    }

    /// Changes a file durably, as no process of the journal would.
    pub(super) fn tamper(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let mut world = self.world();
        let inode = world.names[name];
        let inode = world.inodes.get_mut(&inode).unwrap();
        change(&mut inode.cached);
        inode.durable = inode.cached.clone();
    }

    /// The content of the disk. The result puts it back.
    pub(super) fn image(&self) -> impl Fn(&Sim) + use<> {
        let world = self.world();
        let (inodes, names, durable) = (world.inodes.clone(), world.names.clone(), world.durable.clone());
        move |sim| {
            let mut world = sim.world();
            (world.inodes, world.names, world.durable) = (inodes.clone(), names.clone(), durable.clone());
        }
    }

    /// Makes one step of the process. Returns whether the process lives long enough to complete it.
    fn step(&self) -> io::Result<(MutexGuard<'_, World>, bool)> {
        let mut world = self.world();
        if world.life != self.life || world.dead {
            return Err(io::Error::other("the process is dead"));
        }
        match &mut world.dies_in {
            Some(0) => world.dead = true,
            Some(steps) => *steps -= 1,
            None => {}
        }
        let whole = !world.dead;
        Ok((world, whole))
    }

    /// Makes a step that is done completely or not at all.
    fn act(&self) -> io::Result<MutexGuard<'_, World>> {
        let (mut world, whole) = self.step()?;
        if whole || world.dice.roll(2) == 0 {
            Ok(world)
        } else {
            Err(io::Error::other("the process is dead"))
        }
    }
}

impl World {
    fn used(&self) -> usize {
        let inodes: BTreeSet<_> = self.names.values().collect();
        inodes.into_iter().filter_map(|inode| self.inodes.get(inode)).map(Inode::pages).sum()
    }

    pub(super) fn fill(&mut self, spare: usize) {
        self.capacity = self.used() + spare;
    }
}

impl Disk for Sim {
    fn path(&self, name: &str) -> PathBuf {
        PathBuf::from("/sim").join(name)
    }

    fn names(&self) -> io::Result<Vec<String>> {
        Ok(Self::names(self))
    }

    fn open(&self, name: &str) -> io::Result<Option<Box<dyn DiskFile>>> {
        let inode = self.world().names.get(name).copied();
        Ok(inode.map(|inode| Box::new(SimFile { sim: self.clone(), inode }) as Box<dyn DiskFile>))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let mut world = self.act()?;
        if world.names.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        world.next += 1;
        let inode = world.next;
        world.inodes.insert(inode, Inode::default());
        world.names.insert(name.into(), inode);
        Ok(Box::new(SimFile { sim: self.clone(), inode }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut world = self.act()?;
        let inode = world.names.remove(from).ok_or(io::ErrorKind::NotFound)?;
        world.names.insert(to.into(), inode);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.act()?.names.remove(name);
        Ok(())
    }

    fn sync_names(&self) -> io::Result<()> {
        let mut world = self.act()?;
        if !world.lies {
            world.durable = world.names.clone();
        }
        Ok(())
    }

    fn boot(&self) -> Option<[u8; 16]> {
        let world = self.world();
        world.has_boot.then(|| [world.boot; 16])
    }

    fn remote(&self) -> io::Result<Option<&'static str>> {
        Ok(self.world().remote)
    }

    fn witness(&self) -> Option<Box<dyn Witness>> {
        let has = self.world().has_witness;
        has.then(|| Box::new(self.clone()) as Box<dyn Witness>)
    }
}

impl Witness for Sim {
    fn read(&self) -> Option<(u64, u64)> {
        self.world().witness
    }

    fn begin(&mut self, generation: u64, lsn: u64) -> io::Result<()> {
        self.act()?.witness = Some((generation, lsn));
        Ok(())
    }

    fn note(&mut self, lsn: u64) {
        if let Ok(mut world) = self.act()
            && let Some((_, noted)) = &mut world.witness
        {
            *noted = lsn;
        }
    }

    fn remove(&mut self) {
        if let Ok(mut world) = self.act() {
            world.witness = None;
        }
    }
}

struct SimFile {
    sim: Sim,
    inode: u64,
}

impl DiskFile for SimFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.sim.world().inodes.get(&self.inode).map_or(0, |inode| inode.cached.len() as u64))
    }

    fn read_at(&self, at: u64, to: &mut [u8]) -> io::Result<usize> {
        let world = self.sim.world();
        let inode = world.inodes.get(&self.inode).ok_or(io::ErrorKind::NotFound)?;
        let from = inode.cached.get(usize::try_from(at).unwrap()..).unwrap_or(&[]);
        let len = from.len().min(to.len());
        to[..len].copy_from_slice(&from[..len]);
        Ok(len)
    }

    fn write_at(&mut self, at: u64, parts: &[&[u8]]) -> io::Result<()> {
        let (mut world, whole) = self.sim.step()?;
        let (at, bytes) = (usize::try_from(at).unwrap(), parts.concat());
        let mut writes = [0..bytes.len(), 0..0];
        if !whole {
            // Any part of the bytes may have been copied.
            let [a, b, c] = [0; 3].map(|_| world.dice.roll(bytes.len() + 1));
            writes = [a.min(b)..a.max(b), c..bytes.len()];
        }
        let (spare, mut full) = (world.capacity.saturating_sub(world.used()), false);
        let inode = world.inodes.get_mut(&self.inode).ok_or(io::ErrorKind::NotFound)?;
        if whole {
            let needs = (at + bytes.len()).div_ceil(PAGE).saturating_sub(inode.pages());
            if needs > spare {
                full = true;
                writes[0].end = ((inode.pages() + spare) * PAGE).saturating_sub(at).min(bytes.len());
            }
        }
        for range in writes {
            let (from, to) = (at + range.start, at + range.end);
            if range.is_empty() {
                continue;
            }
            if inode.cached.len() < to {
                inode.cached.resize(to, 0);
            }
            inode.cached[from..to].copy_from_slice(&bytes[range]);
            inode.dirty.extend(from / PAGE..to.div_ceil(PAGE));
        }
        let refuses = world.refuses > 0;
        world.refuses -= usize::from(refuses);
        let full = full || refuses;
        match (whole, full) {
            (true, false) => Ok(()),
            (true, true) => Err(io::ErrorKind::StorageFull.into()),
            (false, _) => Err(io::Error::other("the process is dead")),
        }
    }

    fn map(&mut self) {}

    fn syncer(&self) -> Arc<dyn Syncer> {
        Arc::new(SimFile { sim: self.sim.clone(), inode: self.inode })
    }
}

impl Syncer for SimFile {
    fn sync(&self) -> io::Result<()> {
        let stall = self.sim.world().stalls.take();
        if let Some((began, ends)) = stall {
            began.send(()).unwrap();
            ends.recv().unwrap();
        }
        let (mut world, whole) = self.sim.step()?;
        let World { inodes, dice, fails_in, failed, lies, .. } = &mut *world;
        let inode = inodes.get_mut(&self.inode).ok_or(io::ErrorKind::NotFound)?;
        let failure = match fails_in {
            Some((0, failure)) => Some(*failure),
            Some((syncs, _)) => {
                *syncs -= 1;
                None
            }
            None => None,
        };
        if let Some(failure) = failure {
            (*fails_in, *failed) = (None, true);
            // Some of the pages were written before the error.
            for page in std::mem::take(&mut inode.dirty) {
                let range = page * PAGE..((page + 1) * PAGE).min(inode.cached.len());
                if dice.roll(2) == 0 {
                    inode.durable.resize(inode.cached.len().max(inode.durable.len()), 0);
                    inode.durable[range.clone()].copy_from_slice(&inode.cached[range]);
                } else if failure == Failure::Dropped {
                    inode.durable.resize(inode.cached.len().max(inode.durable.len()), 0);
                    inode.cached[range.clone()].copy_from_slice(&inode.durable[range]);
                }
            }
            return Err(io::Error::other("the disk does not answer"));
        }
        if !whole {
            return Err(io::Error::other("the process is dead"));
        }
        if !*lies {
            inode.sync();
        }
        Ok(())
    }
}

/// Jobs that run when the test decides.
#[derive(Default)]
pub(super) struct Jobs(Mutex<Vec<Box<dyn FnOnce() + Send>>>);

impl Helper for Jobs {
    fn start(&self, job: Box<dyn FnOnce() + Send>) {
        self.0.lock().unwrap().push(job);
    }

    fn help(&self) -> bool {
        let job = self.0.lock().unwrap().pop();
        let any = job.is_some();
        if let Some(job) = job {
            job();
        }
        any
    }
}
