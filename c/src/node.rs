//! The node, and the threads that run it.

use std::ffi::c_char;
use std::fmt::Write as _;
use std::future::Future;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use exo::Node;
use exo::stats::Stats;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::border::{Out, border, free, given, look};
use crate::delivery::{Begun, exonet_delivery};
use crate::fault::{Fault, exonet_code, exonet_error};
use crate::name::{self, Known};
use crate::options::{self, exonet_node_options};
use crate::queue::{Event, Queue};
use crate::raw::{self, exonet_str};
use crate::text::Text;

/// How long the end of a node waits for blocking work: a look-up, a write to the disk.
const STRAGGLERS: Duration = Duration::from_secs(1);

/// A node: it sends and receives messages, each exactly once.
pub struct exonet_node(Arc<Inner>);

impl exonet_node {
    pub(crate) const fn inner(&self) -> &Arc<Inner> {
        &self.0
    }
}

/// The state that the handles of C share. Tasks hold only the core, so that the runtime never ends on one of its own
/// threads.
pub(crate) struct Inner {
    core: Arc<Core>,
    /// None: the runtime has ended.
    runtime: Option<Runtime>,
    handle: Handle,
    id: Text,
    address: Text,
    journal: bool,
    watched: AtomicBool,
    sessions_watched: AtomicBool,
    pub(crate) known: Known,
    pub(crate) callback: Mutex<Option<JoinHandle<()>>>,
}

/// The state of a node that tasks use.
pub(crate) struct Core {
    pub(crate) node: Node,
    pub(crate) queue: Queue,
    /// Deliveries whose bodies were being assembled when a waiting thread timed out.
    pub(crate) begun: Begun,
}

/// How long the end of something waits. Negative: a day.
pub(crate) fn timespan(timeout_ms: i64) -> Duration {
    const DAY: Duration = Duration::from_secs(24 * 3600);
    patience(timeout_ms).unwrap_or(DAY)
}

/// How long to wait. None: for ever.
pub(crate) fn patience(timeout_ms: i64) -> Option<Duration> {
    u64::try_from(timeout_ms).ok().map(Duration::from_millis)
}

impl Inner {
    fn open(options: &exonet_node_options) -> Result<Arc<Self>, Fault> {
        let (builder, journal) = options.builder()?;
        // One thread: a node keeps at most one busy. Callers wait on their own threads.
        let runtime =
            Builder::new_multi_thread().worker_threads(1).thread_name("exonet").enable_all().build();
        let runtime = runtime.map_err(|error| Fault::system("the thread of the node", &error))?;
        let node = runtime.block_on(async {
            let builder = match options.names()? {
                Some((names, state_dir)) => builder.naming_shared(name::service(names, state_dir).await?),
                None => builder,
            };
            Ok::<_, Fault>(builder.build().await?)
        })?;
        let (id, address) = (Text::new(node.id()), Text::new(node.peer_addr()));
        Ok(Arc::new(Self {
            core: Arc::new(Core { node, queue: Queue::new(), begun: Begun::default() }),
            handle: runtime.handle().clone(),
            runtime: Some(runtime),
            id,
            address,
            journal,
            watched: AtomicBool::new(false),
            sessions_watched: AtomicBool::new(false),
            known: Known::default(),
            callback: Mutex::new(None),
        }))
    }

    pub(crate) const fn core(&self) -> &Arc<Core> {
        &self.core
    }

    pub(crate) const fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Whether messages that are sent are in a journal.
    pub(crate) const fn journal(&self) -> bool {
        self.journal
    }

    /// Runs `work` on this thread, and returns its result.
    pub(crate) fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        self.handle.block_on(work)
    }

    /// Runs `work` on this thread, and returns its result if it ends in time.
    pub(crate) fn wait<T>(&self, timeout_ms: i64, work: impl Future<Output = T>) -> Result<T, Fault> {
        match patience(timeout_ms) {
            None => Ok(self.block_on(work)),
            Some(most) => {
                self.block_on(async { tokio::time::timeout(most, work).await }).map_err(|_| Fault::timeout())
            }
        }
    }

    pub(crate) fn watches_messages(&self) -> bool {
        self.watched.swap(true, Ordering::AcqRel)
    }

    pub(crate) fn watches_sessions(&self) -> bool {
        self.sessions_watched.swap(true, Ordering::AcqRel)
    }

    /// Makes events of what `next` waits for, until it returns none. At most `most` of them wait to be taken, at least
    /// one: each has a place, which is released when it is taken.
    pub(crate) fn tell<F>(
        &self,
        most: u32,
        next: impl Fn(Arc<Core>, OwnedSemaphorePermit) -> F + Send + 'static,
    ) where
        F: Future<Output = Option<Event>> + Send,
    {
        let most = usize::try_from(most).unwrap_or(usize::MAX).clamp(1, Semaphore::MAX_PERMITS);
        let (core, room) = (Arc::clone(&self.core), Arc::new(Semaphore::new(most)));
        self.handle.spawn(async move {
            while let Ok(place) = Arc::clone(&room).acquire_owned().await {
                let Some(event) = next(Arc::clone(&core), place).await else { return };
                core.queue.put(event);
            }
        });
    }

    fn close(&self, timeout: Duration) -> usize {
        let open = self.block_on(self.core.node.close(timeout)).len();
        self.core.queue.put(Event::Closed);
        open
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.core.queue.clear();
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(STRAGGLERS);
        }
    }
}

/// Opens a node. It waits for the disk if the node has a state_dir. EXONET_NOT_OPENED says what is wrong.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn exonet_node_open(
    options: *const exonet_node_options,
    node: Option<&mut MaybeUninit<*mut exonet_node>>,
    error: Option<&mut MaybeUninit<*mut exonet_error>>,
) -> exonet_code {
    border(error, || {
        let mut node = Out::handle(node, "node")?;
        // SAFETY: the caller gives NULL, or options with their size.
        let options = unsafe { raw::options(options, "options") }?;
        node.give(exonet_node(Inner::open(&options)?));
        Ok(())
    })
}

/// The id of the node: its key.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_node_id(node: Option<&exonet_node>) -> exonet_str {
    look(exonet_str::empty(), || node.map(|node| node.0.id.lend()))
}

/// The address of the node on the same machine: ID@HOST:PORT. Other machines need another host.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_node_address(node: Option<&exonet_node>) -> exonet_str {
    look(exonet_str::empty(), || node.map(|node| node.0.address.lend()))
}

/// Changes which nodes may talk to this one: "anyone", or ids separated by commas. It applies to each node from its
/// next opening on.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_node_set_allow(
    node: Option<&exonet_node>,
    allow: exonet_str,
    error: Option<&mut MaybeUninit<*mut exonet_error>>,
) -> exonet_code {
    border(error, || {
        let inner = given(node, "node")?.inner();
        inner.core.node.set_allow(options::allow(allow.get("allow")?)?);
        Ok(())
    })
}

/// The statistics of the node as a JSON object, with the names of the library: "sent", "delivered" and so on. A text
/// that ends with a NUL and belongs to the caller: exonet_text_free.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_node_stats(
    node: Option<&exonet_node>,
    json: Option<&mut MaybeUninit<*mut c_char>>,
    error: Option<&mut MaybeUninit<*mut exonet_error>>,
) -> exonet_code {
    border(error, || {
        let mut json = Out::value(json, "json")?;
        json.set(std::ptr::null_mut());
        json.set(raw::give_text(&figures(&given(node, "node")?.inner().core.node.stats())));
        Ok(())
    })
}

fn figures(stats: &Stats) -> String {
    let mut json = String::from("{");
    for figure in Stats::FIGURES {
        let comma = if json.len() > 1 { "," } else { "" };
        // A string takes all that is written.
        let _ = write!(json, "{comma}\"{}\":{}", figure.name, (figure.of)(stats));
    }
    json.push('}');
    json
}

/// Frees a text that the caller owns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn exonet_text_free(text: *mut c_char) {
    // SAFETY: the caller gives NULL, or a text from this library.
    unsafe { raw::take_text(text) };
}

/// Waits until all messages that were sent are settled, for `timeout_ms` at most. EXONET_TIMEOUT: something is still
/// open.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_node_flush(
    node: Option<&exonet_node>,
    timeout_ms: i64,
    error: Option<&mut MaybeUninit<*mut exonet_error>>,
) -> exonet_code {
    border(error, || {
        let inner = given(node, "node")?.inner();
        let open = inner.block_on(inner.core.node.flush(patience(timeout_ms)));
        if open.is_empty() { Ok(()) } else { Err(Fault::timeout()) }
    })
}

/// Ends the node: it takes no new work, waits until all is settled and its peers know, for `timeout_ms` at most
/// (negative: a day), and stops. The thread that calls is blocked until then, and for up to a second more while peers are
/// told of the end. `open`, which may be NULL, gets the number of messages that are not settled. Threads that wait in the
/// node get EXONET_CLOSED.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_node_close(
    node: Option<&exonet_node>,
    timeout_ms: i64,
    open: Option<&mut MaybeUninit<u64>>,
    error: Option<&mut MaybeUninit<*mut exonet_error>>,
) -> exonet_code {
    border(error, || {
        let inner = given(node, "node")?.inner();
        let left = inner.close(timespan(timeout_ms));
        if let Some(open) = open {
            open.write(u64::try_from(left).unwrap_or(u64::MAX));
        }
        Ok(())
    })
}

/// Frees a node. If it is not closed, it ends as by exonet_node_close with a timeout of 0: that takes up to a second.
/// No other thread may use the node any more, or wait in it. Its threads end when the last handle that came from it
/// is freed; deliveries, requests and events of sessions do not count.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_node_free(node: Option<Box<exonet_node>>) {
    look((), || {
        let inner = node.as_ref()?.inner();
        inner.close(Duration::ZERO);
        inner.join_callback();
        None
    });
    free(node);
}

/// Waits for a message, for `timeout_ms` at most.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_recv(
    node: Option<&exonet_node>,
    timeout_ms: i64,
    delivery: Option<&mut MaybeUninit<*mut exonet_delivery>>,
    error: Option<&mut MaybeUninit<*mut exonet_error>>,
) -> exonet_code {
    border(error, || {
        let inner = given(node, "node")?.inner();
        let mut delivery = Out::handle(delivery, "delivery")?;
        delivery.give(inner.wait(timeout_ms, inner.core.next())??);
        Ok(())
    })
}
