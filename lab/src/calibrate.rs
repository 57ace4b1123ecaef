//! The emulator's own error. A placeholder for the compiler, replaced below.

use anyhow::Result;

pub(crate) fn run() -> Result<bool> {
    Ok(true)
}
