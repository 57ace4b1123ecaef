//! `exon forward`: the near end of tunnels.

mod control;
mod entrance;
mod near;
mod stdio;

use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;

use tokio::task::JoinSet;
use tokio::time::timeout;

use self::entrance::{Leads, take};
use self::near::Near;
use super::stop::{Interrupt, stop};
use crate::args::ForwardArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::node::{self, GOODBYE};
use crate::settings::Settings;
use crate::tunnel::{self, Event, Tell, Totals, Way, bind, keep};

pub(super) async fn run(settings: &Settings, args: &ForwardArgs) -> Result<Exit, Failure> {
    tunnel::raise_files();
    let window = tunnel::window(args.window)?;
    let (tell, mut events) = Tell::new();
    // Ports are bound before the far end is contacted, so that a port in use is reported at once.
    let mut entrances = Vec::new();
    for spec in &args.local {
        entrances.push((bind(spec.bind).await?, Leads::To(spec.to.clone())));
    }
    for socks in &args.socks {
        entrances.push((bind(socks.0).await?, Leads::WhereTheySay));
    }
    let node = node::toward_with(settings, &args.peer, |config| {
        config.takes.calls = false;
        tunnel::make_room(&mut config.limits, args.max_connections.into(), window);
    })
    .await?;
    let mut interrupt = Interrupt::watch()?;
    let mut stopped = pin!(stop(None)?);
    let kept = keep::start(settings, args.keep, args.stdio.is_some(), &tell).await;
    let (near, former) = Near::new(&node, args, window, tell.clone(), kept)?;
    let near = Arc::new(near);
    let mut listening = JoinSet::new();
    for (listener, leads) in entrances {
        let at = listener.local_addr().map_or_else(|error| error.to_string(), |at| at.to_string());
        let (way, to) = match &leads {
            Leads::To(target) => (Way::Local, Some(target.to_string())),
            Leads::WhereTheySay => (Way::Socks, None),
        };
        tell.say(Event::Listening { way, bind: at, to });
        listening.spawn(take(Arc::clone(&near), listener, leads));
    }
    near.continue_with(former, args);
    listening.spawn(near::serve(Arc::clone(&near), node.clone()));

    let (started, mut totals) = (Instant::now(), Totals::default());
    let ended = {
        let mut keeps = pin!(control::keep(&near));
        let mut carries = pin!(stdio::carry(&near, args.stdio.as_ref()));
        loop {
            tokio::select! {
                exit = &mut keeps => break Some(exit),
                exit = &mut carries => break Some(exit),
                Some(event) = events.recv() => tells(settings, args, &mut totals, &event)?,
                _ = &mut stopped => break None,
            }
        }
    };
    drop(listening);
    // Connections are reset at both ends, unless the next run continues with them. The far end is told that this end is
    // stopping.
    let leaves = !interrupt.was();
    let _ = timeout(GOODBYE, near.stop(leaves)).await;
    node.close(GOODBYE).await;
    while let Ok(event) = events.try_recv() {
        tells(settings, args, &mut totals, &event)?;
    }
    if args.stdio.is_none() {
        totals.sum_up(settings, started.elapsed(), ended.is_none())?;
    }
    Ok(ended.unwrap_or(Exit::Interrupted))
}

/// Reports events. For a single connection, people see only faults.
fn tells(settings: &Settings, args: &ForwardArgs, totals: &mut Totals, event: &Event) -> Result<(), Failure> {
    let wrong = matches!(event, Event::Trouble { .. } | Event::Away { .. } | Event::Back { .. });
    if args.stdio.is_some() && !wrong && !settings.verbose { Ok(()) } else { totals.add(settings, event) }
}
