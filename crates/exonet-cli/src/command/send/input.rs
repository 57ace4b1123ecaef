//! The input of `exon send`: arguments, files, and the lines of standard input.

use std::path::Path;

use tokio::fs::File;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader};

use crate::args::SendArgs;
use crate::failure::Failure;
use crate::units;

/// The longest line, which is held in memory.
const LONGEST_LINE: u64 = 64 << 20;
/// The longest file that is held in memory, and in the journal if there is one. A longer file is read while it is sent.
const LONGEST_KEPT: u64 = 16 << 20;

/// Accepts messages, each when there is room for it.
pub(super) trait Taker {
    /// Accepts a message. The outcome is not reported here.
    async fn whole(&mut self, body: Vec<u8>) -> Result<(), Failure>;

    /// Accepts all of `from` as one message. `size` is its length, if that is known.
    async fn stream(
        &mut self,
        path: &Path,
        from: impl AsyncRead + Unpin,
        size: Option<u64>,
    ) -> Result<(), Failure>;
}

/// Sends everything that the arguments name.
pub(super) async fn give(args: &SendArgs, to: &mut impl Taker) -> Result<(), Failure> {
    for text in &args.texts {
        to.whole(text.clone().into_bytes()).await?;
    }
    for path in &args.files {
        if is_input(path) {
            to.stream(path, tokio::io::stdin(), None).await?;
        } else {
            file(path, to).await?;
        }
    }
    if args.reads_input() {
        lines(tokio::io::stdin(), to).await?;
    }
    Ok(())
}

async fn file(path: &Path, to: &mut impl Taker) -> Result<(), Failure> {
    let unreadable = |e| Failure::path("read", path, &e);
    let file = File::open(path).await.map_err(unreadable)?;
    let about = file.metadata().await.map_err(unreadable)?;
    // What is held in memory can be sent again from the start, if the receiver puts it off.
    if about.is_file() && about.len() <= LONGEST_KEPT {
        let mut body = Vec::new();
        file.take(about.len()).read_to_end(&mut body).await.map_err(unreadable)?;
        return if u64::try_from(body.len()) == Ok(about.len()) {
            to.whole(body).await
        } else {
            Err(became_shorter(path))
        };
    }
    // The length of a pipe or a device is unknown.
    to.stream(path, file, about.is_file().then_some(about.len())).await
}

async fn lines(input: impl AsyncRead + Unpin, to: &mut impl Taker) -> Result<(), Failure> {
    let mut input = BufReader::new(input);
    loop {
        let mut line = Vec::new();
        let read = (&mut input).take(LONGEST_LINE + 1).read_until(b'\n', &mut line).await;
        if read.map_err(|e| Failure::new("cannot read standard input").because(&e))? == 0 {
            return Ok(());
        }
        if line.last() == Some(&b'\n') {
            line.pop();
        } else if u64::try_from(line.len()).is_ok_and(|len| len > LONGEST_LINE) {
            let limit = units::Size(LONGEST_LINE);
            return Err(Failure::new(format!("a line of standard input is longer than {limit}"))
                .hint("send it as a file: --file FILE"));
        }
        to.whole(line).await?;
    }
}

pub(super) fn became_shorter(path: &Path) -> Failure {
    Failure::new(format!("{} became shorter while it was sent", path.display()))
}

/// Whether a file stands for standard input.
pub(super) fn is_input(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Checks that a file can be read, before anything has been sent.
pub(super) async fn readable(path: &Path) -> Result<(), Failure> {
    let unreadable = |e| Failure::path("read", path, &e);
    let about = tokio::fs::metadata(path).await.map_err(unreadable)?;
    if about.is_dir() {
        return Err(Failure::new(format!("{} is a directory", path.display())).hint("name its files"));
    }
    // A pipe is not opened here: its writer would take this for its reader, and fail when it is closed.
    if about.is_file() {
        File::open(path).await.map_err(unreadable)?;
    }
    Ok(())
}
