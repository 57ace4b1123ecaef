//! `exon up`: a node in the background that sends for other commands.

mod book;
#[cfg(unix)]
mod detach;

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use exonet::Node;
use serde::Serialize;
use tokio::sync::{mpsc, watch};

use self::book::Book;
use super::announce::be_somebody;
use super::stop::stop;
use crate::args::UpArgs;
use crate::control::{Control, Desk, Role};
use crate::exit::{Exit, Tally};
use crate::failure::Failure;
use crate::gateway::{Gateway, Site};
use crate::metrics::{self, Metrics};
use crate::node::{self, GOODBYE};
use crate::settings::Settings;
use crate::units::{self, counted};

pub(super) async fn run(settings: &Settings, args: &UpArgs) -> Result<Exit, Failure> {
    if args.bind.is_some() && !settings.identity.is_there() {
        node::can_bind(args.bind.as_deref()).await?;
    }
    be_somebody(settings)?;
    if args.detach {
        #[cfg(unix)]
        return detach::detach(settings).await;
        #[cfg(not(unix))]
        return Err(Failure::new("--detach does not work on this system"));
    }
    #[cfg(unix)]
    if args.session {
        // A terminal that is closed ends nothing. It is the first of its session already, if this fails.
        let _ = rustix::process::setsid();
    }
    let stop = stop(None)?;
    let site = Site::take(&args.gateway).await?;
    let metrics = Metrics::open(settings, &args.metrics, "up").await?;
    let (node, left) = node::background(settings, args).await?;
    let _watched = metrics.as_ref().map(|metrics| metrics.watch(&node));
    let started = Instant::now();
    let (taken, mut handed) = mpsc::unbounded_channel();
    let (end, mut ended) = watch::channel(false);
    let desk = Desk { taken, end: Arc::new(end) };
    let (gateway, askers) = match site {
        Some(site) => site
            .open(settings, &node, &args.gateway, &desk.taken, &left)
            .map(|(it, askers)| (Some(it), askers))?,
        None => (None, Vec::new()),
    };
    let control = Control::open(settings, &node, Role::Up(desk))?;
    announce(settings, &node, &control, (gateway.as_ref(), metrics.as_ref()))?;
    let mut book = Book::new(settings, &node, left, askers);
    let worked = {
        let mut stop = pin!(async {
            tokio::select! {
                _ = stop => {}
                // The desk lives as long as the control socket.
                _ = ended.wait_for(|ended| *ended) => {}
            }
        });
        book.keep(&mut handed, &mut stop).await
    };
    control.close().await;
    if let Some(gateway) = gateway {
        gateway.close().await;
    }
    let open = node.close(GOODBYE).await.len();
    book.finish()?;
    worked?;
    sum_up(settings, &book, open, started.elapsed())?;
    Ok(Exit::Interrupted)
}

fn announce(
    settings: &Settings,
    node: &Node,
    control: &Control,
    (gateway, metrics): (Option<&Gateway>, Option<&Metrics>),
) -> Result<(), Failure> {
    #[derive(Serialize)]
    struct Up {
        r#type: &'static str,
        id: String,
        peer: String,
        identity: String,
        pid: u32,
        control: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        http: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        http_token: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        metrics: Option<String>,
    }
    let options = settings.identity.options();
    let (identity, pid) = (&settings.identity, std::process::id());
    settings.note(format!("identity {identity} is up (process {pid}): it sends as {}", node.id().short()));
    settings
        .note(format!("hand over: exon send{options} --durable PEER TEXT; look: exon outbox ls{options}"));
    if let Some(gateway) = gateway {
        gateway.announce(settings);
    }
    settings.output.line(&Up {
        r#type: "up",
        id: node.id().to_string(),
        peer: node.peer_addr().to_string(),
        identity: identity.to_string(),
        pid,
        control: control.path().map(|path| path.display().to_string()),
        http: gateway.map(|gateway| gateway.url.clone()),
        http_token: gateway.map(|gateway| gateway.token.display().to_string()),
        metrics: metrics::url(metrics),
    })
}

fn sum_up(settings: &Settings, book: &Book<'_>, open: usize, took: Duration) -> Result<(), Failure> {
    #[derive(Serialize)]
    struct Summary {
        r#type: &'static str,
        end: &'static str,
        /// Handed over by commands.
        taken: u64,
        recovered: u64,
        #[serde(flatten)]
        tally: Tally,
        open: usize,
        seconds: f64,
    }
    let taken = counted(book.taken, "message");
    settings.note(format!("took {taken} in {}: {}", units::span(took), book.tally.describe()));
    if open > 0 {
        let number = counted(u64::try_from(open).unwrap_or(u64::MAX), "message");
        let options = settings.identity.options();
        settings
            .note(format!("kept: {number}. To go on: exon up{options}; to look: exon outbox ls{options}"));
    }
    settings.output.line(&Summary {
        r#type: "summary",
        end: "interrupted",
        taken: book.taken,
        recovered: book.recovered,
        tally: book.tally,
        open,
        seconds: took.as_secs_f64(),
    })
}
