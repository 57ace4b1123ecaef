//! Copies the half-connection of `exonet-proto` and plants the mutants of `mutants/half.txt` in the copy.

#[allow(unreachable_pub)] // the library has it too
#[path = "src/schemata.rs"]
mod schemata;

use std::path::{Path, PathBuf};
use std::{env, fs};

const HALF: &str = "../exonet-proto/src/half";
const LIST: &str = "mutants/half.txt";

fn main() -> Result<(), String> {
    println!("cargo:rerun-if-changed={LIST}");
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=src/schemata.rs");
    println!("cargo:rerun-if-changed={HALF}");
    let read = |path: &Path| fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()));
    let mutants = schemata::parse(&read(Path::new(LIST))?)?;
    let mut files = Vec::new();
    for name in schemata::FILES {
        files.push((*name, read(&Path::new(HALF).join(name))?));
    }
    let out = env::var_os("OUT_DIR").map(PathBuf::from).ok_or("no OUT_DIR")?;
    let write = |name, text: String| fs::write(out.join(name), text).map_err(|e| format!("{name}: {e}"));
    write("half.rs", schemata::plant(&files, &mutants)?)?;
    write("mutants.rs", schemata::table(&mutants))
}
