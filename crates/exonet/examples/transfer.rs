//! A file transfer that continues after an outage of the network.
//!
//! ```text
//! cargo run --example transfer -- receive DIRECTORY 0.0.0.0:4478         # prints ID@ADDRESS:PORT
//! cargo run --example transfer -- send ID@HOST:4478 FILE
//! ```
//!
//! Take the interface down for a minute, and up again; or change the network. The program need not do anything: a
//! session continues when the peer is back. `transfer.sh`, beside this file, does that in a network of its own.

use std::error::Error;
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use exonet::session::SessionEvent;
use exonet::{Allow, Confirm, Message, Node, Outcome, PeerAddr, Session};

const USAGE: &str = "usage: transfer receive DIRECTORY ADDRESS:PORT | transfer send ID@HOST:PORT FILE";
/// The number of bytes of the file in one message.
const CHUNK: usize = 32 << 10;
/// How long the end of the session may take.
const GOODBYE: Duration = Duration::from_secs(5);

type Failure = Box<dyn Error + Send + Sync>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["receive", directory, bind] => receive(Path::new(directory), bind).await,
        ["send", peer, file] => send(peer.parse()?, Path::new(file)).await,
        _ => Err(USAGE.into()),
    }
}

async fn receive(directory: &Path, bind: &str) -> Result<(), Failure> {
    fs::create_dir_all(directory)?;
    let node = Node::builder(Allow::anyone()).bind(bind).build().await?;
    println!("{}", node.peer_addr());
    std::io::stdout().flush()?;
    loop {
        let session = node.accept_session().await?;
        let directory = directory.to_owned();
        tokio::spawn(async move {
            if let Err(error) = take(session, &directory).await {
                eprintln!("a file has not come: {error}");
            }
        });
    }
}

/// The first message has the name of the file, those after it have its content, and the end of the session is the end
/// of the file.
async fn take(mut session: Session, directory: &Path) -> Result<(), Failure> {
    let name = session.recv().await?.ok_or("nothing was said")?.take()?;
    let name = PathBuf::from(String::from_utf8(name.to_vec())?);
    // A peer cannot choose the directory of its file.
    let name = name.file_name().ok_or("the name is not one of a file")?;
    let (part, whole) = (directory.join(format!("{}.part", name.display())), directory.join(name));
    let mut file = File::create(&part)?;
    let mut bytes = 0;
    while let Some(message) = session.recv().await? {
        if message.body().is_empty() {
            // The last message: it is confirmed once the file is complete.
            file.sync_all()?;
            fs::rename(&part, &whole)?;
            println!("{} has come: {bytes} bytes", whole.display());
            message.ack()?;
            continue;
        }
        file.write_all(message.body())?;
        bytes += message.body().len();
        message.ack()?;
    }
    session.close(GOODBYE).await?;
    Ok(())
}

async fn send(to: PeerAddr, path: &Path) -> Result<(), Failure> {
    let name = path.file_name().and_then(|name| name.to_str()).ok_or("the file has no name")?;
    let mut file = File::open(path)?;
    let node = Node::builder(Allow::only([to.id])).bind("0.0.0.0:0").build().await?;
    let mut session = node.peer(to).session("file")?.open().await?;
    let mut events = session.events();
    tokio::spawn(async move {
        while let Ok(event) = events.next().await {
            match event {
                SessionEvent::Away(since) => eprintln!("the peer has been silent for {since:.1?}"),
                SessionEvent::Back(after) => eprintln!("the peer is back after {after:.1?}"),
                _ => {}
            }
        }
    });
    let (began, mut bytes) = (Instant::now(), 0);
    drop(session.send(name.to_owned()).await?);
    loop {
        let mut chunk = Vec::with_capacity(CHUNK);
        if (&mut file).take(CHUNK as u64).read_to_end(&mut chunk)? == 0 {
            break;
        }
        bytes += chunk.len();
        // It waits while the peer is away, or writes more slowly.
        drop(session.send(chunk).await?);
    }
    let last = session.send(Message::new("").confirm(Confirm::Processed)).await?;
    match last.await.outcome {
        Outcome::Processed { .. } => {
            println!("{bytes} bytes are there, after {:.1?}", began.elapsed());
            session.close(GOODBYE).await?;
            Ok(())
        }
        outcome => Err(format!("the peer has not confirmed the file: {outcome:?}").into()),
    }
}
