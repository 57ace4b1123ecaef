//! `exon peer`: names for peers.

use exonet::PeerAddr;
use serde::Serialize;

use crate::args::{PeerArgs, PeerCommand};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::peers::Book;
use crate::settings::Settings;

#[derive(Serialize)]
struct Shown<'a> {
    r#type: &'static str,
    name: &'a str,
    id: String,
    peer: String,
    addresses: Vec<String>,
}

#[derive(Serialize)]
struct Summary {
    r#type: &'static str,
    peers: usize,
}

impl<'a> Shown<'a> {
    fn new(r#type: &'static str, name: &'a str, peer: &PeerAddr) -> Self {
        Self {
            r#type,
            name,
            id: peer.id.to_string(),
            peer: peer.to_string(),
            addresses: peer.hints().collect(),
        }
    }
}

pub(super) fn run(settings: &Settings, args: &PeerArgs) -> Result<Exit, Failure> {
    match &args.command {
        PeerCommand::Add { name, peer, replace } => add(settings, name, peer, *replace)?,
        PeerCommand::List => list(settings)?,
        PeerCommand::Show { name } => {
            let book = Book::open()?;
            let peer = book.get(name).ok_or_else(|| unknown(name))?;
            settings.output.text(&peer.to_string())?;
            settings.output.line(&Shown::new("peer", name, peer))?;
        }
        PeerCommand::Remove { name } => {
            let peer = Book::change(|book| {
                let peer = book.get(name).cloned().ok_or_else(|| unknown(name))?;
                book.remove(name);
                Ok(peer)
            })?;
            settings.note(format!("removed {name}"));
            settings.output.line(&Shown::new("removed", name, &peer))?;
        }
    }
    Ok(Exit::Success)
}

fn add(settings: &Settings, name: &str, peer: &PeerAddr, replace: bool) -> Result<(), Failure> {
    let (path, new) = Book::change(|book| {
        let known = book.get(name).cloned();
        if let Some(known) = known.as_ref().filter(|known| *known != peer && !replace) {
            let failure = Failure::new(format!("{name} is already {known}"));
            return Err(failure.hint("--replace replaces it"));
        }
        book.put(name, peer.clone());
        Ok((book.path().to_owned(), known.as_ref() != Some(peer)))
    })?;
    let did = if new { "is now listed" } else { "is already listed" };
    settings.note(format!("{name} {did} in {}", path.display()));
    if peer.hints().next().is_none() {
        settings.note("it has no address: it can be used with --allow, but not for sending");
    }
    settings.output.line(&Shown::new("peer", name, peer))
}

fn list(settings: &Settings) -> Result<(), Failure> {
    let book = Book::open()?;
    let peers = book.peers();
    let width = peers.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    for (name, peer) in &peers {
        settings.output.text(&format!("{name:<width$}  {peer}"))?;
        settings.output.line(&Shown::new("peer", name, peer))?;
    }
    settings.output.line(&Summary { r#type: "summary", peers: peers.len() })?;
    if peers.is_empty() {
        settings.note("no peer has a name yet; to give one: exon peer add NAME ID@HOST:PORT");
    }
    Ok(())
}

fn unknown(name: &str) -> Failure {
    Failure::new(format!("no peer is called {name}")).hint("exon peer list shows the names")
}
