//! Copies the half-connection of `exonet-proto` and the state of its calls, and plants the mutants of `mutants/half.txt`,
//! `mutants/calls.txt` and `mutants/streams.txt` in the copy.

#[allow(unreachable_pub)] // the library has it too
#[path = "src/schemata.rs"]
mod schemata;
#[path = "src/source.rs"]
mod source;

use std::path::{Path, PathBuf};
use std::{env, fs};

const HALF: &str = "../exonet-proto/src/half";
const PATTERN: &str = "../exonet-proto/src/pattern";
const LISTS: [&str; 2] = ["mutants/half.txt", "mutants/calls.txt"];
const STREAMS: &str = "mutants/streams.txt";

fn main() -> Result<(), String> {
    for path in LISTS.iter().chain(&[STREAMS, "build.rs", "src/schemata.rs", "src/source.rs", HALF]) {
        println!("cargo:rerun-if-changed={path}");
    }
    println!("cargo:rerun-if-changed={PATTERN}/call");
    let read = |path: &Path| fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()));
    let mut mutants = Vec::new();
    for list in LISTS {
        mutants.extend(schemata::parse(&read(Path::new(list))?)?);
    }
    let first_of_streams = mutants.len();
    mutants.extend(schemata::parse(&read(Path::new(STREAMS))?)?);
    let mut files = Vec::new();
    for (folder, names) in [(HALF, schemata::FILES), (PATTERN, schemata::CALLS)] {
        for name in names {
            files.push((*name, read(&Path::new(folder).join(name))?));
        }
    }
    let planted = schemata::plant(&files, &mutants)?;
    let (half, calls) = planted.split_at(schemata::FILES.len());
    let out = env::var_os("OUT_DIR").map(PathBuf::from).ok_or("no OUT_DIR")?;
    let write = |name, text: String| fs::write(out.join(name), text).map_err(|e| format!("{name}: {e}"));
    write("half.rs", schemata::half(half)?)?;
    write("calls.rs", schemata::calls(calls))?;
    write("mutants.rs", schemata::table(&mutants, first_of_streams))
}
