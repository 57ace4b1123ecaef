//! The kept connections of one identity, and the run that they belong to.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::{mpsc, watch};

use super::connection::{Command, Program, keep, part};
use super::say::{About, Ending, Key, Order, Tale, word};
use super::socket::Half;
use crate::tunnel::carry::finish;

/// The most ends of connections that are remembered for the next run.
const MOST_UNREPORTED: usize = 1_024;
/// The most connections. Runs have lower limits of their own.
const MOST_KEPT: usize = 1 << 17;

/// The kept connections.
#[derive(Debug, Default)]
pub(crate) struct Office {
    inner: Mutex<Inner>,
    /// The number of connections, and of runs.
    busy: watch::Sender<(usize, usize)>,
}

#[derive(Debug, Default)]
struct Inner {
    kept: BTreeMap<Key, Kept>,
    run: Option<(u64, mpsc::UnboundedSender<Tale>)>,
    /// How many runs there have been, and how many connections.
    runs: u64,
    connections: u64,
    /// Connections of which nothing is left, and whose ends no run has reported yet.
    unreported: VecDeque<(About, Ending)>,
    keep: Duration,
}

#[derive(Debug)]
struct Kept {
    number: u64,
    about: About,
    commands: mpsc::UnboundedSender<Command>,
    /// How it has ended. The other end may not know yet.
    ending: Option<Ending>,
    /// A run has reported the end.
    reported: bool,
}

/// What a run hears.
#[derive(Debug)]
pub(crate) struct Attached {
    pub(crate) tales: mpsc::UnboundedReceiver<Tale>,
    number: u64,
}

impl Office {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, inner: &Inner) {
        self.busy.send_replace((inner.kept.len(), usize::from(inner.run.is_some())));
    }

    /// A new run, which keeps connections for the time `keep`. It hears of those of former runs first, and of their ends
    /// that no run has reported.
    pub(crate) fn attach(&self, keep: Duration) -> Attached {
        let (tell, tales) = mpsc::unbounded_channel();
        let mut inner = self.lock();
        let gone = || inner.unreported.iter();
        let abouts = gone().map(|(about, _)| about).chain(inner.kept.values().map(|kept| &kept.about));
        let kept = abouts.map(|about| Tale::Kept(Box::new(about.clone())));
        let reported = inner.kept.iter().filter(|(_, kept)| kept.reported);
        let reported = reported.map(|(key, _)| Tale::Reported(key.clone()));
        let fresh = inner.kept.iter().filter(|(_, kept)| !kept.reported);
        let ended = fresh.filter_map(|(key, kept)| Some((key.clone(), kept.ending.clone()?)));
        let ended = gone().map(|(about, ending)| (about.key(), ending.clone())).chain(ended);
        let closed = ended.map(|(key, ending)| Tale::Closed { key, ending });
        let forgotten = gone().map(|(about, _)| Tale::Forgotten(about.key()));
        for tale in kept.chain(reported).chain([Tale::All]).chain(closed).chain(forgotten) {
            // The receiver is here.
            let _ = tell.send(tale);
        }
        for kept in inner.kept.values() {
            // A connection that has just gone needs no time.
            let _ = kept.commands.send(Command::Renew(keep));
        }
        inner.keep = keep;
        inner.runs += 1;
        let number = inner.runs;
        inner.run = Some((number, tell));
        self.count(&inner);
        Attached { tales, number }
    }

    /// A run has ended.
    pub(crate) fn detach(&self, attached: &Attached) {
        let mut inner = self.lock();
        if inner.run.as_ref().is_some_and(|(number, _)| *number == attached.number) {
            inner.run = None;
        }
        self.count(&inner);
    }

    pub(crate) fn order(&self, order: Order) {
        let inner = self.lock();
        let tell = |key: &Key, command| {
            if let Some(kept) = inner.kept.get(key) {
                // A connection that has just gone needs no command.
                let _ = kept.commands.send(command);
            }
        };
        match order {
            Order::Drop { key, why, text } => {
                tell(&key, Command::Break { word: word(&why), text, forget: true });
            }
            Order::Break { key, why, text } => {
                tell(&key, Command::Break { word: word(&why), text, forget: false });
            }
            Order::Reported(key) => {
                drop(inner);
                self.reported(&key);
            }
            Order::Stop => {
                for kept in inner.kept.values() {
                    let _ = kept.commands.send(Command::Stop);
                }
            }
        }
    }

    /// Keeps the socket of a program from now on, with its first link. A connection of the same key ends.
    pub(crate) fn hold_socket(
        self: &Arc<Self>,
        about: About,
        window: usize,
        socket: TcpStream,
        link: UnixStream,
    ) {
        let socket = Arc::new(socket);
        let [reader, writer] = [Arc::clone(&socket), Arc::clone(&socket)].map(Half);
        self.hold(about, window, Program { reader, writer }, link, move |gave_all| {
            finish(&socket, !gave_all);
        });
    }

    /// As [`Self::hold_socket`], for a program at the other end of anything else.
    pub(crate) fn hold_pipes<R, W>(
        self: &Arc<Self>,
        about: About,
        window: usize,
        (reader, writer): (R, W),
        link: UnixStream,
    ) where
        R: AsyncRead + Unpin + Send + 'static,
        W: AsyncWrite + Unpin + Send + 'static,
    {
        self.hold(about, window, Program { reader, writer }, link, |_| ());
    }

    fn hold<R, W>(
        self: &Arc<Self>,
        about: About,
        window: usize,
        program: Program<R, W>,
        link: UnixStream,
        finish: impl FnOnce(bool) + Send + 'static,
    ) where
        R: AsyncRead + Unpin + Send + 'static,
        W: AsyncWrite + Unpin + Send + 'static,
    {
        let (commands, obeyed) = mpsc::unbounded_channel();
        // The receiver is here.
        let _ = commands.send(Command::Link(link));
        let key = about.key();
        let (span, number) = {
            let mut inner = self.lock();
            if inner.kept.len() >= MOST_KEPT {
                return finish(false);
            }
            inner.connections += 1;
            let number = inner.connections;
            // If there was one of the same key, it hears nothing more, and ends.
            inner.kept.insert(key.clone(), Kept { number, about, commands, ending: None, reported: false });
            self.count(&inner);
            (inner.keep, number)
        };
        let office = Arc::clone(self);
        tokio::spawn(async move {
            let told = |ending, gave_all| {
                finish(gave_all);
                office.ended(&key, number, ending);
            };
            let link = keep(program, window, span, obeyed, told).await;
            office.forgotten(&key, number);
            if let Some(link) = link {
                part(link).await;
            }
        });
    }

    /// A new link of a connection. False: there is no such connection.
    pub(crate) fn link(&self, key: &Key, link: UnixStream) -> bool {
        let inner = self.lock();
        inner.kept.get(key).is_some_and(|kept| kept.commands.send(Command::Link(link)).is_ok())
    }

    pub(crate) fn has(&self, key: &Key) -> bool {
        self.lock().kept.get(key).is_some_and(|kept| !kept.commands.is_closed())
    }

    fn ended(&self, key: &Key, number: u64, ending: Ending) {
        let mut inner = self.lock();
        let Some(kept) = inner.kept.get_mut(key).filter(|kept| kept.number == number) else { return };
        kept.ending = Some(ending.clone());
        if let Some((_, tell)) = &inner.run {
            // If this run has just ended, the next one hears of it.
            let _ = tell.send(Tale::Closed { key: key.clone(), ending });
        }
    }

    fn reported(&self, key: &Key) {
        let mut inner = self.lock();
        inner.unreported.retain(|(about, _)| about.key() != *key);
        if let Some(kept) = inner.kept.get_mut(key).filter(|kept| kept.ending.is_some()) {
            kept.reported = true;
        }
    }

    fn forgotten(&self, key: &Key, number: u64) {
        let mut inner = self.lock();
        if inner.kept.get(key).is_some_and(|kept| kept.number == number)
            && let Some(Kept { about, ending, reported, .. }) = inner.kept.remove(key)
        {
            if let Some(ending) = ending.filter(|_| !reported) {
                if inner.unreported.len() >= MOST_UNREPORTED {
                    inner.unreported.pop_front();
                }
                inner.unreported.push_back((about, ending));
            }
            if let Some((_, tell)) = &inner.run {
                // A run that has just ended need not know.
                let _ = tell.send(Tale::Forgotten(key.clone()));
            }
        }
        self.count(&inner);
    }

    /// Waits until there is a run.
    pub(super) async fn attached(&self) {
        // The sender lives as long as this.
        let _ = self.busy.subscribe().wait_for(|(_, runs)| *runs > 0).await;
    }

    /// Waits until there is neither a connection nor a run.
    pub(crate) async fn idle(&self) {
        let _ = self.busy.subscribe().wait_for(|busy| *busy == (0, 0)).await;
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;
    use crate::tunnel::event::{Story, Way};
    use crate::tunnel::keep::say::Token;

    const KEEP: Duration = Duration::from_secs(60);

    fn about() -> About {
        let [peer, from, to] = ["peer", "from", "to"].map(str::to_owned);
        let story = Story { way: Way::Local, peer, from, to };
        About { token: "0".repeat(32).parse::<Token>().unwrap(), opener: true, story, address: String::new() }
    }

    /// The words for what a new run hears at once.
    fn hears(attached: &mut Attached) -> Vec<&'static str> {
        let tales = std::iter::from_fn(|| attached.tales.try_recv().ok());
        tales
            .map(|tale| match tale {
                Tale::Kept(_) => "kept",
                Tale::Reported(_) => "reported",
                Tale::All => "all",
                Tale::Closed { .. } => "closed",
                Tale::Forgotten(_) => "forgotten",
            })
            .collect()
    }

    #[tokio::test]
    async fn an_end_is_told_to_each_run_until_one_has_reported_it() {
        let office = Arc::new(Office::default());
        let mut killed = office.attach(KEEP);
        assert_eq!(hears(&mut killed), ["all"]);
        let ((near, program), (link, mut run)) = (tokio::io::duplex(64), UnixStream::pair().unwrap());
        let (reader, writer) = tokio::io::split(near);
        office.hold_pipes(about(), 1 << 16, (reader, writer), link);
        // The program is gone, and nobody sees what the dead run hears.
        drop(program);
        run.write_all(b"nonsense").await.unwrap();
        assert!(matches!(killed.tales.recv().await, Some(Tale::Closed { .. })));

        let mut second = office.attach(KEEP);
        let heard = hears(&mut second);
        assert!(heard.starts_with(&["kept", "all", "closed"]), "{heard:?}");
        office.order(Order::Reported(about().key()));
        let heard = hears(&mut office.attach(KEEP));
        assert!(!heard.contains(&"closed"), "{heard:?}");
        // The link has the reason for the other end.
        let mut said = Vec::new();
        run.shutdown().await.unwrap();
        run.read_to_end(&mut said).await.unwrap();
        assert!(!said.is_empty());
    }
}
