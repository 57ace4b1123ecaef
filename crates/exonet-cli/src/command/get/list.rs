//! `exon get --list`: lists the shared files.

use exonet::Node;
use serde::Serialize;
use tokio::sync::mpsc;

use super::server::Server;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::peers::Named;
use crate::settings::Settings;
use crate::text::escape;
use crate::units::{Size, counted};

/// No node is asked for more names than this.
const MOST: u64 = 1_000_000;

#[derive(Serialize)]
struct File<'a> {
    r#type: &'static str,
    peer: String,
    from: &'a str,
    name: &'a str,
    size: u64,
}

#[derive(Serialize)]
struct Summary {
    r#type: &'static str,
    end: &'static str,
    files: u64,
    /// Nodes that did not list their files.
    failed: u64,
}

/// Shows the files of each server.
pub(super) async fn run(settings: &Settings, servers: &[Named], node: &Node) -> Result<Exit, Failure> {
    let (mut files, mut failed) = (0, 0);
    for (at, named) in servers.iter().enumerate() {
        let (tell, _) = mpsc::unbounded_channel();
        let server = Server::new(at, node.peer(&named.peer), tell);
        match of_one(settings, servers, named, &server).await? {
            Ok(number) => files += number,
            Err(why) => {
                settings.error(format!("{}: {why}", named.name));
                failed += 1;
            }
        }
    }
    settings.note(counted(files, "file"));
    let end = if failed > 0 { "failed" } else { "done" };
    settings.output.line(&Summary { r#type: "summary", end, files, failed })?;
    Ok(if failed > 0 { Exit::Error } else { Exit::Success })
}

/// How many there are, or why that is not known.
async fn of_one(
    settings: &Settings,
    servers: &[Named],
    named: &Named,
    server: &Server,
) -> Result<Result<u64, String>, Failure> {
    let names = servers.iter().map(|named| named.name.len()).max().unwrap_or(0);
    let (mut after, mut files) = (String::new(), 0);
    loop {
        let page = match server.list(&after).await {
            Ok(page) => page,
            Err(why) => return Ok(Err(why)),
        };
        for file in &page.files {
            let from = if servers.len() > 1 { format!("{:<names$}  ", named.name) } else { String::new() };
            let (name, size) = (escape(file.name.as_bytes()), Size(file.size).to_string());
            settings.output.text(&format!("{from}{size:>10}  {name}"))?;
            let peer = named.peer.id.to_string();
            settings.output.line(&File {
                r#type: "file",
                peer,
                from: &named.name,
                name: &file.name,
                size: file.size,
            })?;
            files += 1;
        }
        match page.files.last() {
            Some(last) if page.more && last.name != after && files < MOST => after.clone_from(&last.name),
            _ if page.more => return Ok(Err("its list of files has no end".to_owned())),
            _ => return Ok(Ok(files)),
        }
    }
}
