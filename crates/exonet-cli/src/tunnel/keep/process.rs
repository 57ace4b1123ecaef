//! The process that keeps the connections of an identity.

use std::io;
use std::net::TcpStream as StdStream;
use std::os::fd::RawFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use super::office::Office;
use super::pass;
use super::say::{Header, Order, VERSION, Wish};
use crate::control::{Bound, Lines, is_trusted, say};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::tunnel::{HANDSHAKE, raise_files};

/// The answers to a first line.
pub(super) const YES: u8 = b'+';
pub(super) const NO: u8 = b'-';
/// The most processes at once whose first line has not come.
const MOST_NEW: usize = 64;
/// How long the keeper waits for its first run.
const FIRST: Duration = Duration::from_secs(10);
/// The pause before another `accept` after one has failed.
const PAUSE: Duration = Duration::from_millis(100);

/// Closes the files that this process has from the one that started it, other than standard input, output and error: a
/// pipe or a lock must not stay as long as the keeper.
///
/// Call it before anything else: nothing in this process may have opened a file.
pub(crate) fn close_inherited() {
    let open = Path::new("/dev/fd");
    let names = std::fs::read_dir(open).into_iter().flatten().flatten();
    let files: Vec<RawFd> = names.filter_map(|name| name.file_name().to_str()?.parse().ok()).collect();
    // The file by which the list was read is in it, and is closed by now.
    let is_open = |file: &RawFd| *file > 2 && open.join(file.to_string()).symlink_metadata().is_ok();
    for file in files.into_iter().filter(is_open) {
        #[expect(unsafe_code, reason = "no safe function closes a file that no object of this process owns")]
        // SAFETY: this process has opened no file yet, so nothing in it owns this one, or uses it later.
        unsafe {
            rustix::io::close(file);
        }
    }
}

/// Keeps connections until there is neither a connection nor a run. Says so on standard output when it can be reached
/// at `path`.
///
/// # Errors
/// It cannot be reached there.
pub(crate) async fn run(path: &Path) -> Result<Exit, Failure> {
    // The terminal of the run is not the keeper's.
    let _ = rustix::process::setsid();
    let _ = std::env::set_current_dir("/");
    raise_files();
    let (bound, listener) = Bound::bind(path.to_owned())?;
    let mut stdout = tokio::io::stdout();
    let said = async {
        stdout.write_all(&[YES]).await?;
        stdout.flush().await
    };
    said.await.map_err(|error| Failure::output(&error))?;
    let (office, places) = (Arc::new(Office::default()), Arc::new(Semaphore::new(MOST_NEW)));
    let own = rustix::process::geteuid().as_raw();
    let accepts = async {
        loop {
            match listener.accept().await {
                Ok((stream, _)) if is_trusted(&stream, own) => {
                    let (office, places) = (Arc::clone(&office), Arc::clone(&places));
                    tokio::spawn(async move { serve(stream, &office, &places).await });
                }
                Ok(_) => {}
                Err(_) => sleep(PAUSE).await,
            }
        }
    };
    let done = async {
        let _ = timeout(FIRST, office.attached()).await;
        office.idle().await;
    };
    tokio::select! {
        () = accepts => {}
        () = done => {}
    }
    drop(bound);
    Ok(Exit::Success)
}

async fn serve(mut stream: UnixStream, office: &Arc<Office>, places: &Semaphore) {
    // The semaphore is never closed.
    let Ok(place) = places.acquire().await else { return };
    let heard = timeout(HANDSHAKE, pass::receive::<Header>(&stream)).await;
    let Ok(Ok((Header { v: VERSION, wish }, sockets))) = heard else {
        let _ = stream.write_all(&[NO]).await;
        return;
    };
    drop(place);
    match wish {
        Wish::Attach { keep_ms } => attend(stream, office, Duration::from_millis(keep_ms)).await,
        Wish::New { about, window } => {
            let socket = sockets.into_iter().next().map(StdStream::from).map(adopt);
            match socket {
                Some(Ok(socket)) => {
                    if stream.write_all(&[YES]).await.is_ok() {
                        office.hold_socket(about, window, socket, stream);
                    }
                }
                _ => drop(stream.write_all(&[NO]).await),
            }
        }
        Wish::Link(key) => {
            let answer = if office.has(&key) { YES } else { NO };
            if stream.write_all(&[answer]).await.is_ok() {
                office.link(&key, stream);
            }
        }
    }
}

fn adopt(socket: StdStream) -> io::Result<TcpStream> {
    socket.set_nonblocking(true)?;
    TcpStream::from_std(socket)
}

/// Serves the run until it ends.
async fn attend(mut stream: UnixStream, office: &Office, keep: Duration) {
    if stream.write_all(&[YES]).await.is_err() {
        return;
    }
    let mut attached = office.attach(keep);
    let (from, mut to) = stream.into_split();
    let orders = async {
        let mut lines = Lines::new(from);
        while let Ok(Some(order)) = lines.next::<Order>().await {
            office.order(order);
        }
    };
    let tales = async {
        while let Some(tale) = attached.tales.recv().await {
            if say(&mut to, &tale).await.is_err() {
                break;
            }
        }
    };
    tokio::select! {
        () = orders => {}
        () = tales => {}
    }
    office.detach(&attached);
}
