mod crashes;
mod files;
mod process;
mod room;
mod rules;
mod sim;

use std::path::Path;

use super::*;

const IDENTITY: [u8; 32] = *b"a tag of an identity in the test";

/// A system that does not distinguish its boots, such as Windows, has one boot in these tests.
fn options(level: Level) -> Options {
    let boot = if cfg!(any(target_os = "linux", target_os = "macos")) { boot_id } else { || Some([1; 16]) };
    Options { runtime: Runtime::None, boot, ..Options::new(IDENTITY, level) }
}

/// Reads all groups.
fn read(found: Found) -> Vec<Vec<u8>> {
    found.groups.map(Result::unwrap).collect()
}
