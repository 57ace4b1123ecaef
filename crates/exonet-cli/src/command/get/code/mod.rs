//! `exon get CODE`: fetches the files that `exon cp --code` offers on another machine.

mod meet;
mod search;
mod taking;

use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use self::meet::{Met, Open};
use self::search::Search;
use self::taking::{Summary, Taking};
use crate::args::GetArgs;
use crate::code::Code;
use crate::code::meeting::GUESSES;
use crate::command::stop::stop;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::node::GOODBYE;
use crate::settings::Settings;
use crate::store::{Names, Options, Store};
use crate::units::{self, Size};

/// Two offers may have the same number. After a node with another code, the search for the right one goes on this long.
const OTHER: Duration = Duration::from_secs(2);
/// The times after which unfinished messages and files of other processes are removed.
const PATIENCE: Duration = Duration::from_secs(600);
const KEEP_PARTS: Duration = Duration::from_secs(7 * 24 * 3_600);

pub(super) async fn run(settings: &Settings, args: &GetArgs, code: Code) -> Result<Exit, Failure> {
    if args.no_local && settings.names().is_none() {
        return Err(Failure::new("without the local network, only a name server can find the offer")
            .hint("give one: --names ID@HOST:PORT, or EXON_NAMES; or leave out --no-local"));
    }
    let mut stop = pin!(stop(None)?);
    let out = args.out.clone().unwrap_or_else(|| PathBuf::from("."));
    let options = Options {
        limit: Size(u64::MAX),
        overwrite: args.force,
        names: Names { hidden: args.hidden, portable: cfg!(not(unix)) },
        patience: PATIENCE,
        keep_parts: KEEP_PARTS,
    };
    let store = Arc::new(Store::open(&out, options)?);
    let started = Instant::now();
    let open = tokio::select! {
        open = find(settings, args, &code) => open?,
        _ = &mut stop => {
            settings.note("interrupted; nothing had arrived");
            settings.output.line(&Summary::of_nothing(started.into_std()))?;
            return Ok(Exit::Interrupted);
        }
    };
    drop(code);
    let node = open.node.clone();
    let done = Taking::new(settings, args, open, store, out).run(stop.as_mut()).await;
    node.close(GOODBYE).await;
    done
}

/// The offer that the code belongs to.
async fn find(settings: &Settings, args: &GetArgs, code: &Code) -> Result<Open, Failure> {
    let mut search = Search::new(settings, code.number(), args.no_local)?;
    let mut until = Instant::now().checked_add(args.patience);
    let (mut wrong, mut silent) = (Vec::new(), None);
    settings.note(format!("looking for the offer of {}", code.number()));
    loop {
        let candidate = tokio::select! {
            candidate = search.next() => candidate?,
            () = sleep_until(until) => return Err(nothing(args, code, &wrong, silent)),
        };
        if wrong.iter().any(|(id, _)| *id == candidate.id) {
            continue;
        }
        match meet::meet(settings, code, &candidate).await? {
            Met::Open(open) => return Ok(*open),
            Met::Wrong { left } => {
                wrong.push((candidate.id, left));
                // Each node that answers can test one guess against this code, so this asks few nodes.
                if wrong.len() >= GUESSES as usize {
                    return Err(nothing(args, code, &wrong, silent));
                }
                let other = Instant::now() + OTHER;
                until = Some(until.map_or(other, |until| until.min(other)));
            }
            Met::Over(why) => silent = Some((candidate.id, why)),
        }
    }
}

fn nothing(
    args: &GetArgs,
    code: &Code,
    wrong: &[(exonet::NodeId, u32)],
    silent: Option<(exonet::NodeId, String)>,
) -> Failure {
    let number = code.number();
    if let Some((id, left)) = wrong.last() {
        let failure = Failure::new(format!(
            "the code is wrong: the offer with number {number}, at {}, has other words",
            id.short()
        ));
        return match left {
            0 => failure.hint("too many wrong codes: the offer has ended; ask for a new code"),
            left => failure.hint(format!(
                "compare it with what `exon cp --code` shows; {} will end the offer",
                units::counted((*left).into(), "more wrong code")
            )),
        };
    }
    if let Some((id, why)) = silent {
        return Failure::new(format!("the offer with number {number}, at {}, has ended: {why}", id.short()))
            .hint("is `exon cp --code` still running there? each run has a code of its own");
    }
    let failure = Failure::new(format!(
        "no offer with number {number} was found within {}",
        units::span(args.patience)
    ));
    failure.hint(
        "is `exon cp --code` still running, and on this network? on different networks, give both machines \
         a name server: --names ID@HOST:PORT",
    )
}

async fn sleep_until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}
