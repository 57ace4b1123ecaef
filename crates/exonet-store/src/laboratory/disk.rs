//! A disk of the system, with faults.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use super::image::{Image, Number};
use super::plan::{self, Plan, die};
use crate::disk::{Disk, DiskFile, RealDisk, Syncer, Witness};

pub(crate) struct LabDisk {
    real: RealDisk,
    plan: &'static Plan,
    image: Option<Arc<Mutex<Image>>>,
}

impl LabDisk {
    pub(crate) fn new(real: RealDisk) -> io::Result<Self> {
        let plan = plan::plan();
        let image = plan.image.as_ref().map(|dir| Image::open(dir, &real.path(""))).transpose()?;
        Ok(Self { real, plan, image: image.map(|image| Arc::new(Mutex::new(image))) })
    }

    fn image<T: Default>(&self, f: impl FnOnce(&mut Image) -> io::Result<T>) -> io::Result<T> {
        match &self.image {
            Some(image) => f(&mut image.lock().unwrap_or_else(PoisonError::into_inner)),
            None => Ok(T::default()),
        }
    }

    fn file(&self, file: Box<dyn DiskFile>, number: Number) -> Box<dyn DiskFile> {
        let (plan, image) = (self.plan, self.image.clone());
        Box::new(LabFile { file, plan, number, image, dirty: Arc::default() })
    }
}

impl Disk for LabDisk {
    fn path(&self, name: &str) -> PathBuf {
        self.real.path(name)
    }

    fn names(&self) -> io::Result<Vec<String>> {
        self.real.names()
    }

    fn open(&self, name: &str) -> io::Result<Option<Box<dyn DiskFile>>> {
        let Some(file) = self.real.open(name)? else { return Ok(None) };
        let number = self.image(|image| image.number(name))?;
        Ok(Some(self.file(file, number)))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        self.plan.run("create", || {
            let file = self.real.create(name)?;
            let number = self.image(|image| image.create(name))?;
            Ok(self.file(file, number))
        })
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.plan.run("rename", || {
            self.real.rename(from, to)?;
            self.image(|image| image.rename(from, to))
        })
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.plan.run("remove", || {
            self.real.remove(name)?;
            self.image(|image| image.remove(name))
        })
    }

    fn sync_names(&self) -> io::Result<()> {
        self.plan.run("names", || {
            self.real.sync_names()?;
            if self.plan.lies() { Ok(()) } else { self.image(Image::sync_names) }
        })
    }

    fn boot(&self) -> Option<[u8; 16]> {
        self.plan.boot.or_else(|| self.real.boot())
    }

    fn remote(&self) -> io::Result<Option<&'static str>> {
        self.real.remote()
    }

    fn witness(&self) -> Option<Box<dyn Witness>> {
        match &self.plan.memory {
            Some(dir) => Some(self.real.witness_in(dir)),
            None => self.real.witness(),
        }
    }
}

/// Ranges that were written and not forced.
type Dirty = Arc<Mutex<Vec<(u64, u64)>>>;

struct LabFile {
    file: Box<dyn DiskFile>,
    plan: &'static Plan,
    number: Number,
    image: Option<Arc<Mutex<Image>>>,
    dirty: Dirty,
}

impl DiskFile for LabFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read_at(&self, at: u64, to: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(at, to)
    }

    fn write_at(&mut self, at: u64, parts: &[&[u8]]) -> io::Result<()> {
        if self.plan.is_last("write.torn") {
            let whole = parts.concat();
            let half = whole.get(..whole.len() / 2).unwrap_or_default();
            self.file.write_at(at, &[half])?;
            die();
        }
        let (file, dirty, has_image) = (&mut self.file, &self.dirty, self.image.is_some());
        self.plan.run("write", || {
            file.write_at(at, parts)?;
            if has_image {
                let len = parts.iter().map(|part| part.len() as u64).sum();
                dirty.lock().unwrap_or_else(PoisonError::into_inner).push((at, len));
            }
            Ok(())
        })
    }

    fn map(&mut self) {
        self.file.map();
    }

    fn syncer(&self) -> Arc<dyn Syncer> {
        Arc::new(LabSyncer {
            real: self.file.syncer(),
            plan: self.plan,
            number: self.number,
            image: self.image.clone(),
            dirty: Arc::clone(&self.dirty),
        })
    }
}

struct LabSyncer {
    real: Arc<dyn Syncer>,
    plan: &'static Plan,
    number: Number,
    image: Option<Arc<Mutex<Image>>>,
    dirty: Dirty,
}

impl Syncer for LabSyncer {
    fn sync(&self) -> io::Result<()> {
        self.plan.run("sync", || {
            let written = std::mem::take(&mut *self.dirty.lock().unwrap_or_else(PoisonError::into_inner));
            self.real.sync()?;
            match &self.image {
                Some(_) if self.plan.lies() => Ok(()),
                Some(image) => {
                    image.lock().unwrap_or_else(PoisonError::into_inner).sync(self.number, &written)
                }
                None => Ok(()),
            }
        })
    }
}
