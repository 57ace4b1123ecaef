//! `exon names`: names of services.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use exonet::naming::{Expect, Found, Name, Naming, NamingError, Record};
use exonet::{Node, PeerAddr};
use exonet_names::NameServer;
use serde::Serialize;

use super::announce::{announce, be_somebody, reachable};
use super::standing::{Begin, answers};
use super::stop::stop;
use crate::args::{NamesArgs, NamesCommand, NamesServeArgs};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::node::{self, GOODBYE};
use crate::settings::Settings;

/// The pause before the command asks a name service again that did not answer.
const AGAIN: Duration = Duration::from_secs(1);

#[derive(Serialize)]
struct Shown<'a> {
    r#type: &'static str,
    name: &'a str,
    id: String,
    peer: String,
    addresses: Vec<String>,
    generation: u64,
}

#[derive(Serialize)]
struct Summary {
    r#type: &'static str,
    names: usize,
}

#[derive(Serialize)]
struct Watched {
    r#type: &'static str,
    lines: u64,
}

/// A name that is bound to no node.
#[derive(Serialize)]
struct NotBound<'a> {
    r#type: &'static str,
    name: &'a str,
}

#[derive(Serialize)]
struct Unbound<'a> {
    r#type: &'static str,
    unbound: &'a str,
}

impl<'a> Shown<'a> {
    fn new(name: &'a Name, record: &Record) -> Self {
        Self {
            r#type: "name",
            name: name.as_str(),
            id: record.peer.id.to_string(),
            peer: record.peer.to_string(),
            addresses: record.peer.hints().collect(),
            generation: record.generation,
        }
    }
}

pub(super) async fn run(settings: &Settings, args: &NamesArgs) -> Result<Exit, Failure> {
    match &args.command {
        NamesCommand::Serve(args) => return serve(&settings.without_names(), args).await,
        NamesCommand::Ls => list(settings).await?,
        NamesCommand::Lookup { name } => {
            let found =
                settings.naming()?.look_up(name).await.map_err(|error| failed("look up", name, &error))?;
            let Found { record, .. } =
                found.ok_or_else(|| failed("look up", name, &NamingError::Unbound(name.clone())))?;
            settings.output.text(&record.peer.to_string())?;
            settings.output.line(&Shown::new(name, &record))?;
        }
        NamesCommand::Watch { name, exit_after } => return watch(settings, name, *exit_after).await,
        NamesCommand::Bind { name, addresses } => bind(settings, name, addresses).await?,
        NamesCommand::Unbind { name } => {
            let naming = own(settings).await?;
            let unbound = async {
                let found = naming.look_up(name).await?.ok_or_else(|| NamingError::Unbound(name.clone()))?;
                naming.unbind(name, found.version).await
            };
            unbound.await.map_err(|error| failed("unbind", name, &error))?;
            settings.note(format!("{name} is unbound now"));
            settings.output.line(&Unbound { r#type: "summary", unbound: name.as_str() })?;
        }
    }
    Ok(Exit::Success)
}

/// Prints the record of `name`, and then each later record of this name.
async fn watch(settings: &Settings, name: &Name, exit_after: Option<u64>) -> Result<Exit, Failure> {
    let naming = settings.naming()?;
    let mut stopped = pin!(stop(None)?);
    let found = naming.look_up(name).await.map_err(|error| failed("watch", name, &error))?;
    let (mut last, mut lines, mut told) = (found, 0, false);
    show_change(settings, name, last.as_ref())?;
    let exit = loop {
        lines += 1;
        if exit_after == Some(lines) {
            break Exit::Success;
        }
        let next = loop {
            let since = last.as_ref().map(|found| found.version);
            let found = tokio::select! {
                _ = &mut stopped => break None,
                found = naming.watch(name, since) => found,
            };
            match found {
                // A service may answer without a change.
                Ok(found) if found.as_ref().map(|found| found.version) == since => told = false,
                Ok(found) => break Some(found),
                Err(error) => {
                    if !told {
                        settings.note(format!("{error}; still watching, Ctrl-C stops"));
                        told = true;
                    }
                    tokio::select! {
                        _ = &mut stopped => break None,
                        () = tokio::time::sleep(AGAIN) => {}
                    }
                }
            }
        };
        let Some(next) = next else { break Exit::Interrupted };
        (last, told) = (next, false);
        show_change(settings, name, last.as_ref())?;
    };
    settings.output.line(&Watched { r#type: "summary", lines })?;
    Ok(exit)
}

fn show_change(settings: &Settings, name: &Name, found: Option<&Found>) -> Result<(), Failure> {
    match found {
        Some(Found { record, .. }) => {
            let gone = if record.peer.hints().next().is_none() { "  no address" } else { "" };
            settings.output.text(&format!("{name}  {}{gone}", record.peer))?;
            settings.output.line(&Shown::new(name, record))
        }
        None => {
            settings.output.text(&format!("{name}  unbound"))?;
            settings.output.line(&NotBound { r#type: "unbound", name: name.as_str() })
        }
    }
}

/// Fails if the file of names does not exist. A look-up treats such a file as empty. Here the path is probably mistyped.
fn is_there(settings: &Settings) -> Result<(), Failure> {
    let Some(path) = settings.names().and_then(|names| names.strip_prefix("file:")) else { return Ok(()) };
    if std::path::Path::new(path).exists() {
        return Ok(());
    }
    Err(Failure::new(format!("there is no file of names at {path}"))
        .hint("check --names or EXON_NAMES; a service with --name makes the file when it starts"))
}

async fn list(settings: &Settings) -> Result<(), Failure> {
    let naming = settings.naming()?;
    is_there(settings)?;
    let listed = naming.list().await;
    let names = listed.map_err(|error| {
        let failure = Failure::new("cannot list the names").because(&error);
        advised(failure, &error)
    })?;
    let width = names.iter().map(|(name, _)| name.as_str().len()).max().unwrap_or(0);
    for (name, Found { record, .. }) in &names {
        settings.output.text(&format!("{name:<width$}  {}", record.peer))?;
        settings.output.line(&Shown::new(name, record))?;
    }
    if names.is_empty() {
        settings.note("no name is bound there");
    }
    settings.output.line(&Summary { r#type: "summary", names: names.len() })
}

/// The name service, for requests that the identity makes.
async fn own(settings: &Settings) -> Result<Arc<dyn Naming>, Failure> {
    settings.identity.require()?;
    settings.naming()?;
    settings.own_naming().await?.ok_or_else(|| Failure::new("no name service is given"))
}

async fn bind(settings: &Settings, name: &Name, addresses: &[String]) -> Result<(), Failure> {
    if let Some(nowhere) = addresses.iter().find(|hint| leads_nowhere(hint)) {
        return Err(Failure::new(format!("no other node can reach {nowhere}"))
            .hint("give an address of this machine, and the port of the node")
            .wrong_usage());
    }
    let naming = own(settings).await?;
    let id = settings.identity.look()?;
    let peer = PeerAddr::new(id, addresses).map_err(|e| Failure::new("cannot bind the name").because(&e))?;
    let record = Record { peer, generation: settings.identity.term()?.generation };
    let bound = async {
        let expect = match naming.look_up(name).await? {
            Some(found) => Expect::Version(found.version),
            None => Expect::Unbound,
        };
        naming.bind(name, &record, expect).await
    };
    bound.await.map_err(|error| failed("bind", name, &error))?;
    settings.note(format!("{name} is bound to {}", record.peer));
    settings.output.line(&Shown::new(name, &record))
}

/// Whether nobody can send to this address: it stands for all addresses of a machine.
fn leads_nowhere(hint: &str) -> bool {
    let address = hint.parse::<SocketAddr>();
    address.is_ok_and(|address| address.ip().to_canonical().is_unspecified())
}

/// Binds `names` to `node`, and prints that.
pub(super) async fn stand_for(settings: &Settings, node: &Node, names: &[Name]) -> Result<(), Failure> {
    if !names.is_empty() {
        settings.naming()?;
    }
    for name in names {
        let addresses = reachable(node.local_addr());
        let bound = node.bind_name(name, addresses.iter().map(ToString::to_string)).await;
        // The name stays bound for the next run.
        drop(bound.map_err(|error| failed("bind", name, &error))?);
        settings.note(format!("found as name:{name}"));
    }
    Ok(())
}

async fn serve(settings: &Settings, args: &NamesServeArgs) -> Result<Exit, Failure> {
    if !settings.identity.is_there()? {
        node::can_bind(args.bind).await?;
    }
    be_somebody(settings)?;
    let mut stopped = pin!(stop(None)?);
    let node = node::at(settings, args.bind, &args.allow, |config| {
        // Nothing would ever read messages.
        config.takes.messages = false;
    })
    .await?;
    let file = match &args.file {
        Some(file) => file.clone(),
        None => settings.identity.place()?.join("names"),
    };
    let key = settings.identity.key()?;
    let server = NameServer::start(&node, key, &file).await;
    let server = server.map_err(|error| Failure::new("cannot serve names").because(&error))?;
    Begin::First.greet(settings, &node);
    answers(settings, None);
    let serves =
        format!("has {} in {}", crate::units::counted(server.names().len() as u64, "name"), file.display());
    announce(settings, &node, &args.allow, "look names up", serves)?;
    settings.note("others use it by --names, or by EXON_NAMES in their environment, with the line above");
    (&mut stopped).await;
    server.stop().await;
    node.close(GOODBYE).await;
    Ok(Exit::Interrupted)
}

pub(super) fn failed(doing: &str, name: &Name, error: &NamingError) -> Failure {
    let failure = Failure::new(format!("cannot {doing} the name {:?}", name.as_str())).because(error);
    advised(failure, error)
}

/// Adds the remedy for an error of a name service.
fn advised(failure: Failure, error: &NamingError) -> Failure {
    match error {
        NamingError::Unbound(_) => failure
            .hint("check the name, and --names; `exon names ls` shows what is bound, but cannot ask DNS"),
        NamingError::Taken { .. } => {
            failure.hint("its owner can unbind it: exon names unbind NAME --as IDENTITY")
        }
        NamingError::Storage(_) => failure.hint(
            "if a name server holds the file, name that server by --names; otherwise check the disk and the rights of \
             the file",
        ),
        NamingError::NoServer => failure.hint("`exon names serve` starts a name server"),
        NamingError::Unreachable(_) => {
            failure.hint("check --names or EXON_NAMES, and whether the name service runs there")
        }
        _ => failure,
    }
}
