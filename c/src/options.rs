//! Options, and the meaning of their fields.

use std::num::NonZeroU32;
use std::time::Duration;

use exo::call::Call;
use exo::group::GroupBuilder;
use exo::session::{LONGEST as LONGEST_IN_SESSION, SessionBuilder};
use exo::{
    Allow, Builder, Carrier, Confirm, Durability, Message, Node, NodeId, PeerAddr, Priority, Traceparent,
};

use crate::fault::Fault;
use crate::raw::{Options, exonet_bytes, exonet_str};

/// The longest message, unless the application says otherwise, in bytes: a body is put together in memory.
const LONGEST: u64 = 64 << 20;

/// The properties of a node.
#[repr(C)]
pub struct exonet_node_options {
    /// sizeof(exonet_node_options).
    size: usize,
    /// The directory of an identity that outlives the process; it is made on first use. Default: a fresh identity,
    /// which ends with the node.
    state_dir: exonet_str,
    /// The local address, as in "0.0.0.0:4455". Default: any port of all addresses.
    bind: exonet_str,
    /// The nodes that may talk to this one: "anyone", or ids separated by commas. Default: only the nodes that this
    /// node sends to.
    allow: exonet_str,
    /// What a crash may lose: "memory", "process", "batched=MS" or "sync". Default: "process" with a state_dir, else
    /// "memory".
    durability: exonet_str,
    /// How packets are carried: "udp", "tcp" or "auto". Default: "udp".
    carrier: exonet_str,
    /// The largest message that is sent or received, in bytes. Default: 64 MiB.
    max_message: u64,
    /// The number of messages that may be queued to one peer. Default: that of the library.
    queued_messages: u64,
    /// A message in doubt for this long ends EXONET_UNKNOWN. Default: never.
    doubt_timeout_ms: u64,
    /// The interval without a packet after which a ping is sent, to keep the mappings of NATs alive. Default: none.
    keepalive_ms: u64,
    /// How often a message that is not acknowledged is handed out before it is rejected. Default: any number of times.
    attempts: u32,
    /// Where names of services are: "file:PATH" for a file of this machine, or ID@HOST:PORT for a name server. Then a
    /// peer may be given as name:NAME, and exonet_name_bind binds names. The node looks a name up on first use. It then
    /// finds the peer again at other addresses, but takes no other node for it. Default: nowhere.
    names: exonet_str,
}

// SAFETY: it is `repr(C)`, begins with its size, and is valid if all bytes are zero.
unsafe impl Options for exonet_node_options {}

/// How a message is sent.
#[repr(C)]
pub struct exonet_send_options {
    /// sizeof(exonet_send_options).
    size: usize,
    /// For dispatch at the receiver: at most 255 bytes.
    tag: exonet_bytes,
    /// How long after the call the message is still wanted. Default: for ever.
    deadline_ms: u64,
    /// EXONET_CONFIRM_DELIVERED or EXONET_CONFIRM_PROCESSED.
    confirm: u32,
    /// EXONET_PRIORITY_NORMAL or another.
    priority: i32,
    /// The message has to be in a journal: a node without one refuses it. The node's durability says how durable the
    /// journal is.
    durable: bool,
    /// If the queue to the peer is full, the function returns EXONET_FULL. Default: it waits.
    no_wait: bool,
    /// The outcome is an event too: EXONET_EVENT_SETTLED.
    notify: bool,
    /// The token that the event carries, to identify the message.
    token: u64,
    /// The trace that the message is part of, as in the header `traceparent` of W3C Trace Context. Default: none.
    traceparent: exonet_str,
}

// SAFETY: as above.
unsafe impl Options for exonet_send_options {}

/// How a call is made.
#[repr(C)]
pub struct exonet_call_options {
    /// sizeof(exonet_call_options).
    size: usize,
    /// How long to wait for the call. Default: until its end is known.
    deadline_ms: u64,
    /// EXONET_PRIORITY_NORMAL or another.
    priority: i32,
    /// Its end is an event too: EXONET_EVENT_CALL_ENDED.
    notify: bool,
    /// The token that the event carries, to identify the call.
    token: u64,
    /// The trace that the call is part of, as in the header `traceparent` of W3C Trace Context. Default: none.
    traceparent: exonet_str,
}

// SAFETY: as above.
unsafe impl Options for exonet_call_options {}

/// How a method is served.
#[repr(C)]
pub struct exonet_serve_options {
    /// sizeof(exonet_serve_options).
    size: usize,
    /// The number of calls that may be unanswered at once; others wait at their callers. Default: 256.
    concurrency: u64,
    /// A call that is not answered for this long fails. Default: never.
    timeout_ms: u64,
    /// The calls are events, EXONET_EVENT_REQUEST, and exonet_service_next returns none.
    notify: bool,
    /// The token that the events carry, to identify the method.
    token: u64,
}

// SAFETY: as above.
unsafe impl Options for exonet_serve_options {}

/// The limits of a session.
#[repr(C)]
pub struct exonet_session_options {
    /// sizeof(exonet_session_options).
    size: usize,
    /// The session ends when no message was sent or received in it for this long. Negative: never. Default: 24 h.
    idle_ms: i64,
    /// The session ends after this time in all. Default: never.
    life_ms: u64,
    /// The longest message that this end receives, in bytes; a longer one is rejected. Default: 16 MiB.
    longest: u64,
}

// SAFETY: as above.
unsafe impl Options for exonet_session_options {}

/// How a group treats its messages.
#[repr(C)]
pub struct exonet_group_options {
    /// sizeof(exonet_group_options).
    size: usize,
    /// The least time for which a message of EXONET_MODE_BALANCED waits at a member before another is tried in its
    /// place. Default: 50 ms.
    patience_ms: u64,
    /// The number of messages that may wait for room in a member's queue; after that, the next exonet_group_send
    /// waits. Default: 1024.
    waiting: u64,
}

// SAFETY: as above.
unsafe impl Options for exonet_group_options {}

/// The sender is told that the receiving application has the message. The default.
pub const EXONET_CONFIRM_DELIVERED: u32 = 0;
/// The sender is told that the receiving application has processed the message.
pub const EXONET_CONFIRM_PROCESSED: u32 = 1;

/// Before all others.
pub const EXONET_PRIORITY_URGENT: i32 = 1;
/// The default.
pub const EXONET_PRIORITY_NORMAL: i32 = 0;
/// After normal ones.
pub const EXONET_PRIORITY_LOW: i32 = -1;
/// After all others.
pub const EXONET_PRIORITY_BULK: i32 = -2;

/// The duration; zero is none.
pub(crate) const fn millis(ms: u64) -> Option<Duration> {
    if ms == 0 { None } else { Some(Duration::from_millis(ms)) }
}

fn priority(priority: i32) -> Result<Priority, Fault> {
    match priority {
        EXONET_PRIORITY_URGENT => Ok(Priority::Urgent),
        EXONET_PRIORITY_NORMAL => Ok(Priority::Normal),
        EXONET_PRIORITY_LOW => Ok(Priority::Low),
        EXONET_PRIORITY_BULK => Ok(Priority::Bulk),
        _ => Err(Fault::usage(format!("{priority} is not a priority: see EXONET_PRIORITY_NORMAL"))),
    }
}

/// The number of a priority.
pub(crate) const fn priority_number(priority: Priority) -> i32 {
    match priority {
        Priority::Urgent => EXONET_PRIORITY_URGENT,
        Priority::Normal => EXONET_PRIORITY_NORMAL,
        Priority::Low => EXONET_PRIORITY_LOW,
        Priority::Bulk => EXONET_PRIORITY_BULK,
    }
}

fn traceparent(text: &exonet_str) -> Result<Option<Traceparent>, Fault> {
    let Some(text) = text.given("options->traceparent")? else { return Ok(None) };
    let parent = text.parse::<Traceparent>();
    parent.map(Some).map_err(|error| Fault::usage(format!("options->traceparent is {text:?}: {error}")))
}

fn durability(text: &str) -> Result<Durability, Fault> {
    match text {
        "memory" => Ok(Durability::Memory),
        "process" => Ok(Durability::Process),
        "sync" => Ok(Durability::Sync),
        _ => {
            let ms = text.strip_prefix("batched=").and_then(|ms| ms.parse().ok());
            ms.map(|ms| Durability::Batched(Duration::from_millis(ms))).ok_or_else(|| {
                Fault::usage(format!(
                    "durability is \"memory\", \"process\", \"batched=MS\" or \"sync\", not {text:?}"
                ))
            })
        }
    }
}

fn carrier(text: &str) -> Result<Carrier, Fault> {
    match text {
        "udp" => Ok(Carrier::Udp),
        "tcp" => Ok(Carrier::Tcp),
        "auto" => Ok(Carrier::Auto),
        _ => Err(Fault::usage(format!("carrier is \"udp\", \"tcp\" or \"auto\", not {text:?}"))),
    }
}

/// The nodes that may talk to this one.
pub(crate) fn allow(text: &str) -> Result<Allow, Fault> {
    if text == "anyone" {
        return Ok(Allow::anyone());
    }
    let words = text.split(|c: char| c == ',' || c.is_whitespace()).filter(|word| !word.is_empty());
    let ids = words.map(|word| Ok(word.parse::<PeerAddr>()?.id)).collect::<Result<Vec<NodeId>, Fault>>()?;
    Ok(Allow::only(ids))
}

impl exonet_node_options {
    /// The builder of the node, and whether the node has a journal.
    pub(crate) fn builder(&self) -> Result<(Builder, bool), Fault> {
        let mut builder = Node::builder(allow(self.allow.get("options->allow")?)?);
        let state_dir = self.state_dir.given("options->state_dir")?;
        let durability = self.durability.given("options->durability")?.map(durability).transpose()?;
        let journal = state_dir.is_some() && durability != Some(Durability::Memory);
        if let Some(path) = state_dir {
            builder = builder.state_dir(path);
        }
        if let Some(durability) = durability {
            builder = builder.durability(durability);
        }
        if let Some(address) = self.bind.given("options->bind")? {
            builder = builder.bind(address);
        }
        if let Some(text) = self.carrier.given("options->carrier")? {
            builder = builder.carrier(carrier(text)?);
        }
        if let Some(timeout) = millis(self.doubt_timeout_ms) {
            builder = builder.doubt_timeout(timeout);
        }
        if let Some(interval) = millis(self.keepalive_ms) {
            builder = builder.keepalive(interval);
        }
        if let Some(most) = NonZeroU32::new(self.attempts) {
            builder = builder.attempts(most);
        }
        let builder = builder.limits(|limits| {
            limits.message = if self.max_message == 0 { LONGEST } else { self.max_message };
            if let Ok(most @ 1..) = usize::try_from(self.queued_messages) {
                limits.queued_messages = most;
            }
        });
        Ok((builder, journal))
    }

    /// The name service, and the directory of the identity, if there is one.
    pub(crate) fn names(&self) -> Result<Option<(&str, Option<&str>)>, Fault> {
        let names = self.names.given("options->names")?;
        let state_dir = self.state_dir.given("options->state_dir")?;
        Ok(names.map(|names| (names, state_dir)))
    }
}

impl exonet_send_options {
    /// A message with this body, for a node that has a journal or not.
    pub(crate) fn message(&self, body: &exonet_bytes, journal: bool) -> Result<Message, Fault> {
        if self.durable && !journal {
            return Err(Fault::usage(
                "options->durable needs a node with a journal: open it with a state_dir, and durability \"process\" or above",
            ));
        }
        let message = Message::new(body.copy("body")?).tag(self.tag.copy("options->tag")?);
        let message = message.priority(priority(self.priority)?);
        let message = match traceparent(&self.traceparent)? {
            Some(parent) => message.traceparent(parent),
            None => message,
        };
        let message = match self.confirm {
            EXONET_CONFIRM_DELIVERED => message,
            EXONET_CONFIRM_PROCESSED => message.confirm(Confirm::Processed),
            other => {
                return Err(Fault::usage(format!(
                    "options->confirm is {other}: see EXONET_CONFIRM_DELIVERED"
                )));
            }
        };
        Ok(match millis(self.deadline_ms) {
            Some(deadline) => message.deadline(deadline),
            None => message,
        })
    }

    pub(crate) const fn no_wait(&self) -> bool {
        self.no_wait
    }

    /// The token of the event, if one is wanted.
    pub(crate) const fn token(&self) -> Option<u64> {
        if self.notify { Some(self.token) } else { None }
    }
}

impl exonet_call_options {
    pub(crate) fn treat(&self, call: Call) -> Result<Call, Fault> {
        let call = call.priority(priority(self.priority)?);
        let call = match traceparent(&self.traceparent)? {
            Some(parent) => call.traceparent(parent),
            None => call,
        };
        Ok(match millis(self.deadline_ms) {
            Some(deadline) => call.deadline(deadline),
            None => call,
        })
    }

    /// The token of the event, if one is wanted.
    pub(crate) const fn token(&self) -> Option<u64> {
        if self.notify { Some(self.token) } else { None }
    }
}

impl exonet_session_options {
    fn longest(&self) -> usize {
        if self.longest == 0 {
            LONGEST_IN_SESSION
        } else {
            usize::try_from(self.longest).unwrap_or(usize::MAX)
        }
    }

    /// The session of a client.
    pub(crate) fn of(&self, builder: SessionBuilder) -> SessionBuilder {
        let builder = builder.longest(self.longest()).life(Duration::from_millis(self.life_ms));
        match self.idle_ms {
            0 => builder,
            idle => builder.idle(u64::try_from(idle).map_or(Duration::ZERO, Duration::from_millis)),
        }
    }

    /// The longest message that a server receives. It has no say about the others.
    pub(crate) fn of_server(&self) -> Result<usize, Fault> {
        if self.idle_ms != 0 || self.life_ms != 0 {
            return Err(Fault::usage("the client says idle_ms and life_ms of a session, not the server"));
        }
        Ok(self.longest())
    }
}

impl exonet_group_options {
    pub(crate) fn of(&self, mut builder: GroupBuilder) -> GroupBuilder {
        if let Some(patience) = millis(self.patience_ms) {
            builder = builder.patience(patience);
        }
        if let Ok(most @ 1..) = usize::try_from(self.waiting) {
            builder = builder.waiting(most);
        }
        builder
    }
}

impl exonet_serve_options {
    /// The number of calls at once; None: the default.
    pub(crate) fn concurrency(&self) -> Option<usize> {
        usize::try_from(self.concurrency).ok().filter(|most| *most > 0)
    }

    pub(crate) const fn timeout(&self) -> Option<Duration> {
        millis(self.timeout_ms)
    }

    /// The token of the events, if they are wanted.
    pub(crate) const fn token(&self) -> Option<u64> {
        if self.notify { Some(self.token) } else { None }
    }
}
