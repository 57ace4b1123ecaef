//! `exon proxy serve`: the far end of tunnels.

mod control;
mod desk;

use std::sync::Arc;
use std::time::Instant;

use tokio::time::timeout;

use self::desk::Desk;
use super::announce::{announce, be_somebody};
use super::names::stand_for;
use super::standing::{Begin, answers};
use super::stop::{Interrupt, requests};
use crate::args::{ProxyArgs, ProxyCommand, ProxyServeArgs};
use crate::control::{Control, Role};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::node::{self, GOODBYE};
use crate::settings::Settings;
use crate::tunnel::{self, Tell, Totals, keep};

pub(super) async fn run(settings: &Settings, args: &ProxyArgs) -> Result<Exit, Failure> {
    let ProxyCommand::Serve(args) = &args.command;
    serve(settings, args).await
}

async fn serve(settings: &Settings, args: &ProxyServeArgs) -> Result<Exit, Failure> {
    tunnel::raise_files();
    if !settings.identity.is_there()? {
        node::can_bind(args.bind).await?;
    }
    be_somebody(settings)?;
    let window = tunnel::window(args.window)?;
    let node = node::at(settings, args.bind, &args.allow, |config| {
        config.tell_refused = !args.silent;
        config.takes.calls = false;
        tunnel::make_room(&mut config.limits, args.per_peer.into(), window);
    })
    .await?;
    let control = Control::try_open(settings, &node, Role::Command("proxy"));
    let mut interrupt = Interrupt::watch()?;
    let mut requests = requests(2)?;
    let (tell, mut events) = Tell::new();
    let kept = keep::start(settings, args.keep, false, &tell).await;
    let desk = Desk::new(args, window, tell, kept)?;
    let serving = tokio::spawn(Arc::clone(&desk).serve(node.clone()));
    Begin::First.greet(settings, &node);
    stand_for(settings, &node, &args.called).await?;
    answers(settings, None);
    announce(settings, &node, &args.allow, "use the tunnel", allows(args))?;

    let (started, mut totals) = (Instant::now(), Totals::default());
    loop {
        tokio::select! {
            Some(event) = events.recv() => totals.add(settings, &event)?,
            _ = requests.wait_for(|requests| *requests > 0) => break,
        }
    }
    control.close().await;
    // Connections are reset at both ends, unless the next run continues with them. The near ends are told that this end
    // is stopping.
    let _ = timeout(GOODBYE, desk.stop(!interrupt.was())).await;
    node.close(GOODBYE).await;
    serving.abort();
    while let Ok(event) = events.try_recv() {
        totals.add(settings, &event)?;
    }
    totals.sum_up(settings, started.elapsed(), true)?;
    Ok(Exit::Interrupted)
}

/// Describes what the far end allows.
fn allows(args: &ProxyServeArgs) -> String {
    let to: Vec<_> = args.allow_to.iter().map(ToString::to_string).collect();
    let listen: Vec<_> = args.allow_listen.iter().map(ToString::to_string).collect();
    match (to.join(", "), listen.join(", ")) {
        (to, listen) if listen.is_empty() => format!("connections may go to {to}"),
        (to, listen) if to.is_empty() => format!("connections may come to {listen}, but go nowhere"),
        (to, listen) => format!("connections may go to {to}, and come to {listen}"),
    }
}
