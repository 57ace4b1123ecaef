//! What strangers cost a server over real sockets: in time, to those that it knows already, and in memory.
//!
//! The server has this process and one thread, with its friends; strangers have processes of their own, on the loopback.
//! What is counted is this process's CPU time, and floods are paced by it: so many a second are so many in a second of its work, whatever
//! else the machine does.
//!
//! `cargo bench -p exonet --bench first_contact`, with `contacts`, `siege`, `memory` or `vanish` for one part of it, and a
//! number of clients for the last two: 100,000 that close, 20,000 that do not, unless one is given.

#![allow(missing_docs)]

#[cfg(target_os = "linux")]
mod client;
#[cfg(target_os = "linux")]
mod crowd;
#[cfg(target_os = "linux")]
mod flood;
#[cfg(target_os = "linux")]
mod friend;
#[cfg(target_os = "linux")]
mod server;
#[cfg(target_os = "linux")]
mod target;

use cap::Cap;
use mimalloc::MiMalloc;

/// As the command has.
#[global_allocator]
static MEMORY: Cap<MiMalloc> = Cap::new(MiMalloc, usize::MAX);

#[cfg(target_os = "linux")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["crowd", target @ .., clients, at_once, per_second, leaving] => {
            let (target, leaving) = (target::Target::parse(target)?, crowd::Leaving::parse(leaving)?);
            crowd::run(&target, clients.parse()?, at_once.parse()?, per_second.parse()?, leaving)
        }
        ["flood", target @ .., per_second] => {
            flood::run(&target::Target::parse(target)?, per_second.parse()?)
        }
        parts => server::run(parts),
    }
}

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("this measures by the clocks that Linux has for other processes");
}
