mod crashes;
mod files;
mod process;
mod rules;
mod sim;

use std::path::Path;

use super::*;

const IDENTITY: [u8; 32] = *b"a tag of an identity in the test";

fn options(level: Level) -> Options {
    Options { runtime: Runtime::None, ..Options::new(IDENTITY, level) }
}

/// All groups.
fn read(found: Found) -> Vec<Vec<u8>> {
    found.groups.map(Result::unwrap).collect()
}
