//! What friends of a node keep while one admitted peer sends it the dearest packets that it can make, as fast as it can.
//!
//! The victim has this process: one thread, with the application that takes all messages. Its friends have another
//! process, which sends at a steady rate that is well below their share. The attacker has a third. On Linux the victim
//! has a processor of its own, if there are two.
//!
//! `cargo bench -p exonet --bench shares`; any argument picks the attacks whose names have it. The process fails if
//! friends keep less than 80 % beside any of them.

#![allow(missing_docs)]

#[cfg(target_os = "linux")]
mod attack;
#[cfg(target_os = "linux")]
mod foe;
#[cfg(target_os = "linux")]
mod friends;
#[cfg(target_os = "linux")]
mod victim;

use mimalloc::MiMalloc;

/// As the command has.
#[global_allocator]
static MEMORY: MiMalloc = MiMalloc;

#[cfg(target_os = "linux")]
type Failure = Box<dyn std::error::Error>;

#[cfg(target_os = "linux")]
fn main() -> Result<std::process::ExitCode, Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["friends", victim, count, rate] => friends::run(victim.parse()?, count.parse()?, rate.parse()?)?,
        ["foe", victim, attack] => foe::run(&victim.parse()?, attack.parse()?)?,
        parts => return victim::run(parts),
    }
    Ok(std::process::ExitCode::SUCCESS)
}

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("this gives processes a processor each, as Linux does");
}
