//! A run with members that are each on a link of their own.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use super::process::Process;
use super::record::Record;
use super::{DRAIN, PORT, Plan, TO_CONNECT};
use crate::app::{Mark, Role};
use crate::net::Star;
use crate::peer::Setup;

/// The sender's process and the members'.
struct Spread {
    sender: Process,
    members: Vec<Process>,
}

/// The mark of the sender, and one of each member.
type Marks = (Mark, Vec<Mark>);

impl Spread {
    fn order(&mut self, word: &str) -> Result<Marks> {
        let members = self.members.iter_mut().map(|member| member.order(word)).collect::<Result<_>>()?;
        Ok((self.sender.order(word)?, members))
    }
}

impl Plan {
    /// Messages at a steady pace, each for some of the members.
    pub(super) fn spread(&self) -> Result<Vec<Record>> {
        let [peer] = self.flows.as_slice() else { bail!("members apart are of one peer") };
        let star = Star::new(&self.spokes, self.seed)?;
        let mut setup = Setup {
            peer: peer.name.to_owned(),
            role: Role::Server,
            work: self.work,
            part: 0,
            bytes: self.bytes,
            listen: SocketAddr::from((Star::member_ip(0), PORT)),
            server: String::new(),
            window: 0,
            disk: String::new(),
        };
        let (mut members, mut addresses) = (Vec::new(), Vec::new());
        for (host, n) in star.members.iter().zip(0..) {
            setup.listen = SocketAddr::from((Star::member_ip(n), PORT));
            let member = Process::start(host, &setup)?;
            addresses.push(member.address()?);
            members.push(member);
        }
        (setup.role, setup.server) = (Role::Client, addresses.join(","));
        let mut all = Spread { sender: Process::start(&star.client, &setup)?, members };
        await_first(&mut all)?;
        std::thread::sleep(self.warm_up);
        let before = all.order("reset")?;
        star.links.iter().for_each(|link| drop(link.take_stats()));
        std::thread::sleep(self.span);
        let after = all.order("mark")?;
        let bytes: u64 = star.links.iter().flat_map(|link| link.take_stats()).map(|lane| lane.bytes).sum();
        let (end, ended) = drain(&mut all)?;
        let shares = share(&before.1, &after.1);
        let sum = |(sender, members): Marks| [sender, members.into_iter().sum()];
        let marks = [before, after, end].map(sum);
        let record = Record::new(self, peer, marks, None, star.dropped_at_interfaces()?, ended);
        #[allow(clippy::cast_precision_loss)] // far below 2^53
        let each = bytes as f64 / (record.rate * self.span.as_secs_f64()).max(1.0);
        Ok(vec![Record { wire_bytes_each: Some(each), shares: Some(shares), ..record }])
    }
}

/// The share of each member in all copies received between the two marks, in per cent.
#[allow(clippy::cast_precision_loss)] // messages
fn share(before: &[Mark], after: &[Mark]) -> [f64; 3] {
    let got: Vec<f64> =
        before.iter().zip(after).map(|(before, after)| (after.received - before.received) as f64).collect();
    let all = got.iter().sum::<f64>().max(1.0);
    std::array::from_fn(|n| got.get(n).map_or(0.0, |got| got / all * 100.0))
}

/// Waits until the sender knows the outcome of one message.
fn await_first(all: &mut Spread) -> Result<()> {
    let began = Instant::now();
    while all.order("mark")?.0.received == 0 {
        if began.elapsed() > TO_CONNECT {
            bail!("no message has arrived within {} s", TO_CONNECT.as_secs());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Stops the sender, and waits until it knows all outcomes. False: some are still open.
fn drain(all: &mut Spread) -> Result<(Marks, bool)> {
    all.order("stop")?;
    let began = Instant::now();
    loop {
        std::thread::sleep(Duration::from_millis(20));
        let marks = all.order("mark")?;
        let ended = marks.0.received >= marks.0.sent;
        if ended || began.elapsed() > DRAIN {
            return Ok((marks, ended));
        }
    }
}
