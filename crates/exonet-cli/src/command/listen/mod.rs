//! `exon listen`: takes messages and files.

mod taking;
mod totals;

use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::{JoinError, JoinSet};

use self::taking::{Listener, Taken};
use self::totals::Totals;
use super::announce::{announce, be_somebody};
use super::stop::{Stop, stop};
use crate::args::ListenArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::node;
use crate::settings::Settings;
use crate::store::Store;
use crate::transfer;

/// Large messages and files that are being taken at once.
const ABREAST: usize = 256;
/// How long the last answers may take at the end.
const GOODBYE: Duration = Duration::from_secs(2);

pub(super) async fn run(settings: &Settings, args: &ListenArgs) -> Result<Exit, Failure> {
    let open = |directory: &Path| Store::open(directory, args.max_store, args.overwrite);
    let store = args.out.as_deref().map(open).transpose()?;
    be_somebody(settings)?;
    let node = node::at(settings, args.bind.as_deref(), &args.allow, |_| ()).await?;
    let stop = stop(None)?;
    let stores = match &args.out {
        Some(directory) => format!("stores up to {} in {}", args.max_store, directory.display()),
        None => "shows messages and stores nothing; --out DIR stores, and takes files".to_owned(),
    };
    announce(settings, &node, &args.allow, "send", stores)?;
    let listener = Arc::new(Listener { node: node.clone(), output: settings.output, raw: args.raw, store });
    let mut totals = Totals::default();
    let started = Instant::now();
    let interrupted = serve(settings, &listener, (args.exit_after, stop), &mut totals).await;
    node.close(GOODBYE).await;
    let interrupted = interrupted?;
    totals.sum_up(settings, started.elapsed(), interrupted)?;
    Ok(if interrupted { Exit::Interrupted } else { Exit::Success })
}

/// Takes what comes until told to stop (true) or until there was enough.
async fn serve(
    settings: &Settings,
    listener: &Arc<Listener>,
    (enough, stop): (Option<u64>, impl Future<Output = Stop>),
    totals: &mut Totals,
) -> Result<bool, Failure> {
    let mut stop = pin!(stop);
    let mut jobs: JoinSet<Result<Taken, Failure>> = JoinSet::new();
    loop {
        let under_way = u64::try_from(jobs.len()).unwrap_or(u64::MAX);
        let wanted = enough.is_none_or(|enough| totals.taken().saturating_add(under_way) < enough);
        if !wanted && jobs.is_empty() {
            return Ok(false);
        }
        tokio::select! {
            delivery = listener.node.accept(), if wanted && jobs.len() < ABREAST => {
                let delivery = delivery.map_err(|e| Failure::new("the node has stopped").because(&e))?;
                if delivery.tag() == transfer::TAG {
                    jobs.spawn(Arc::clone(listener).file(delivery));
                } else if delivery.body().is_stream() || listener.store.is_some() {
                    jobs.spawn(Arc::clone(listener).message(delivery));
                } else {
                    // A small one that is only shown: at once, and in the order of arrival.
                    totals.add(settings, Arc::clone(listener).message(delivery).await?);
                }
            }
            Some(job) = jobs.join_next() => totals.add(settings, finished(job)?),
            _ = &mut stop => return Ok(true),
        }
    }
}

fn finished(job: Result<Result<Taken, Failure>, JoinError>) -> Result<Taken, Failure> {
    job.map_err(|e| Failure::new("taking a message failed").because(&e))?
}
