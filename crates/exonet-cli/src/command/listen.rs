//! `exon listen`: takes messages and files.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use exonet::{Delivery, Message, Node, NodeId, Outcome, PeerAddr, Priority};
use serde::Serialize;
use tokio::io::AsyncReadExt;
use tokio::task::{JoinError, JoinSet};

use super::stop::stop;
use crate::args::ListenArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::identity::Identity;
use crate::node;
use crate::output::Output;
use crate::settings::Settings;
use crate::store::{Landed, Refusal, SafeName, Store};
use crate::text;
use crate::transfer::{self, Header, Refused};
use crate::units::{self, Size, count};

/// Large messages and files that are being taken at once.
const ABREAST: usize = 256;
/// Of a message that is only shown, no more than this is held.
const LONGEST_SHOWN: u64 = 1 << 20;
/// How long a sender may take to hear why it was refused.
const REFUSAL_PATIENCE: Duration = Duration::from_secs(30);
/// How long the last answers may take at the end.
const GOODBYE: Duration = Duration::from_secs(2);

pub(super) async fn run(settings: &Settings, args: ListenArgs) -> Result<Exit, Failure> {
    let open = |directory: &Path| Store::open(directory, args.max_store, args.overwrite);
    let store = args.out.as_deref().map(open).transpose()?;
    if settings.identity.ensure()? {
        if let Identity::Stored { name, path } = &settings.identity {
            settings.note(format!("made identity {name} in {}", path.display()));
        }
    }
    let node = node::at(settings, args.bind.as_deref(), &args.allow).await?;
    announce(settings, &node, &args)?;
    let listener = Arc::new(Listener {
        node: node.clone(),
        output: settings.output,
        raw: args.raw,
        store,
    });
    let mut totals = Totals::default();
    let started = Instant::now();
    let interrupted = serve(settings, &listener, args.exit_after, &mut totals).await;
    node.close(GOODBYE).await;
    let interrupted = interrupted?;
    totals.sum_up(settings, started.elapsed(), interrupted)?;
    Ok(if interrupted { Exit::Interrupted } else { Exit::Success })
}

#[derive(Serialize)]
struct Listening {
    r#type: &'static str,
    id: String,
    peer: String,
    anyone: bool,
    identity: String,
}

/// Says where we are, and who may come.
fn announce(settings: &Settings, node: &Node, args: &ListenArgs) -> Result<(), Failure> {
    let addresses = reachable(node.local_addr());
    let peer = PeerAddr::new(node.id(), addresses.iter().map(SocketAddr::to_string));
    let peer = peer.map_or_else(|_| node.peer_addr(), |peer| peer).to_string();
    settings.note("listening; peers reach this node as");
    if !settings.quiet {
        eprintln!("\n      {}\n", console::style(&peer).bold().for_stderr());
    }
    let who = match args.allow.as_slice() {
        [] => "anyone who knows this may send; --allow ID restricts it".to_owned(),
        [one] => format!("only {} may send", one.short()),
        ids => format!("only {} nodes may send", ids.len()),
    };
    let stores = match &args.out {
        Some(directory) => format!("stores up to {} in {}", args.max_store, directory.display()),
        None => "shows messages and stores nothing; --out DIR stores, and takes files".to_owned(),
    };
    settings.note(who);
    settings.note(stores);
    settings.output.line(&Listening {
        r#type: "listening",
        id: node.id().to_string(),
        peer,
        anyone: args.allow.is_empty(),
        identity: settings.identity.to_string(),
    })
}

/// What others can use for an address that may stand for all of this machine's.
fn reachable(local: SocketAddr) -> Vec<SocketAddr> {
    if !local.ip().is_unspecified() {
        return vec![local];
    }
    // Connecting a datagram socket sends nothing: it only asks which way would be taken to addresses that are
    // reserved for documentation (RFC 5737, RFC 3849).
    let outward = |from: &str, to: &str| {
        let socket = UdpSocket::bind(from).ok()?;
        socket.connect(to).ok()?;
        Some(socket.local_addr().ok()?.ip()).filter(|ip| !ip.is_unspecified())
    };
    let mut ips: Vec<IpAddr> = outward("0.0.0.0:0", "192.0.2.1:9").into_iter().collect();
    if local.is_ipv6() {
        ips.extend(outward("[::]:0", "[2001:db8::1]:9"));
    }
    if ips.is_empty() {
        ips.push(Ipv4Addr::LOCALHOST.into());
    }
    ips.into_iter().map(|ip| SocketAddr::new(ip, local.port())).collect()
}

/// Takes what comes until told to stop (true) or until there was enough.
async fn serve(
    settings: &Settings,
    listener: &Arc<Listener>,
    enough: Option<u64>,
    totals: &mut Totals,
) -> Result<bool, Failure> {
    let mut stop = pin!(stop(None));
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
            stopped = &mut stop => return stopped.map(|_| true),
        }
    }
}

fn finished(job: Result<Result<Taken, Failure>, JoinError>) -> Result<Taken, Failure> {
    job.map_err(|e| Failure::new("taking a message failed").because(&e))?
}

/// What came of a delivery.
enum Taken {
    Message { size: u64 },
    File { size: u64 },
    Refused { from: NodeId, reason: String },
    /// Its sender gave it up, or one of us forgot: not delivered.
    Nothing { reason: String },
}

#[derive(Debug, Default, Serialize)]
struct Totals {
    messages: u64,
    files: u64,
    refused: u64,
    bytes: u64,
}

impl Totals {
    fn taken(&self) -> u64 {
        self.messages.saturating_add(self.files)
    }

    fn add(&mut self, settings: &Settings, taken: Taken) {
        match taken {
            Taken::Message { size } => {
                self.messages += 1;
                self.bytes = self.bytes.saturating_add(size);
            }
            Taken::File { size } => {
                self.files += 1;
                self.bytes = self.bytes.saturating_add(size);
            }
            Taken::Refused { from, reason } => {
                self.refused += 1;
                settings.note(format!("refused a file of {}: {reason}", from.short()));
            }
            Taken::Nothing { reason } => tracing::info!("not delivered: {reason}"),
        }
    }

    fn sum_up(&self, settings: &Settings, took: Duration, interrupted: bool) -> Result<(), Failure> {
        #[derive(Serialize)]
        struct Summary<'a> {
            r#type: &'static str,
            end: &'static str,
            #[serde(flatten)]
            totals: &'a Totals,
            seconds: f64,
        }
        let (messages, files) = (count(self.messages), count(self.files));
        let bytes = Size(self.bytes);
        settings.note(format!("took {messages} messages and {files} files, {bytes}, in {}", units::span(took)));
        settings.output.line(&Summary {
            r#type: "summary",
            end: if interrupted { "interrupted" } else { "done" },
            totals: self,
            seconds: took.as_secs_f64(),
        })
    }
}

#[derive(Serialize)]
struct MessageLine {
    r#type: &'static str,
    from: String,
    id: String,
    tag: String,
    size: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hex: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
}

#[derive(Serialize)]
struct FileLine {
    r#type: &'static str,
    from: String,
    id: String,
    name: String,
    size: u64,
    already_there: bool,
}

struct Listener {
    node: Node,
    output: Output,
    raw: bool,
    store: Option<Store>,
}

impl Listener {
    async fn message(self: Arc<Self>, mut delivery: Delivery) -> Result<Taken, Failure> {
        let size = delivery.body().len();
        let shown = match &self.store {
            Some(store) => self.keep(store, &mut delivery).await,
            None => self.show(&mut delivery).await,
        };
        let id = delivery.id();
        match shown {
            // What has been shown or stored is taken.
            Ok(()) => Ok(match delivery.done() {
                Ok(()) => Taken::Message { size },
                Err(error) => Taken::Nothing { reason: format!("{id}: {error}") },
            }),
            Err(Refusal::GivenUp(error)) => Ok(Taken::Nothing { reason: format!("{id}: {error}") }),
            // A message cannot be refused with a word to its sender; not taking it is all that is left.
            Err(refusal) => Err(Failure::new(format!("cannot take message {id}: {refusal}"))
                .hint("its sender still has it, and delivers it when this listens again with --max-store or more room")),
        }
    }

    /// Stores a message under its id.
    async fn keep(&self, store: &Store, delivery: &mut Delivery) -> Result<(), Refusal> {
        let (id, size) = (delivery.id(), delivery.body().len());
        let name = SafeName::new(&format!("{}-{}-{}.msg", id.sender, id.r.0, id.s.0))?;
        let landing = store.begin(name, size)?;
        let writer = landing.writer()?;
        transfer::pour(delivery.body_mut(), writer, size, |_| ()).await?;
        // Whole, and so that its end has been seen.
        transfer::drain(delivery.body_mut()).await.map_err(Refusal::GivenUp)?;
        let name = landing.name().clone();
        // One id, one content: a file of this name is this message, handed out a second time.
        landing.finish(None).await?;
        let line = message_line(delivery, None, Some(name.to_string()));
        let text = format!("{}  {} in {name}", delivery.from().short(), Size(size));
        self.print(&line, &text)
    }

    /// Prints a message.
    async fn show(&self, delivery: &mut Delivery) -> Result<(), Refusal> {
        let size = delivery.body().len();
        if self.raw {
            return self.copy_out(delivery).await;
        }
        let mut content = Vec::new();
        let body = delivery.body_mut();
        let given_up = Refusal::GivenUp;
        body.take(LONGEST_SHOWN).read_to_end(&mut content).await.map_err(given_up)?;
        transfer::drain(body).await.map_err(given_up)?;
        let rest = size.saturating_sub(u64::try_from(content.len()).unwrap_or(size));
        let from = delivery.from().short();
        let mut line = if text::is_binary(&content) && self.output.is_terminal() {
            format!("{from}  {} of binary data{}", Size(size), text::dump(&content))
        } else {
            format!("{from}  {}", text::escape(&content))
        };
        if rest > 0 {
            line.push_str(&format!(" ... {} more bytes, not shown", count(rest)));
        }
        let json = message_line(delivery, Some(content), None);
        self.print(&json, &line)
    }

    async fn copy_out(&self, delivery: &mut Delivery) -> Result<(), Refusal> {
        let mut out = tokio::io::stdout();
        let size = delivery.body().len();
        transfer::pour(delivery.body_mut(), &mut out, size, |_| ()).await?;
        transfer::drain(delivery.body_mut()).await.map_err(Refusal::GivenUp)?;
        transfer::pour(&b"\n"[..], out, 1, |_| ()).await.map_err(Refusal::from)
    }

    fn print(&self, line: &impl Serialize, text: &str) -> Result<(), Refusal> {
        let told = self.output.line(line).and_then(|()| self.output.text(text));
        told.map_err(|failure| Refusal::Disk(std::io::Error::other(failure.to_string())))
    }

    async fn file(self: Arc<Self>, mut delivery: Delivery) -> Result<Taken, Failure> {
        let id = delivery.id();
        match self.store_file(&mut delivery).await {
            Ok(size) => Ok(match delivery.done() {
                Ok(()) => Taken::File { size },
                Err(error) => Taken::Nothing { reason: format!("{id}: {error}") },
            }),
            Err(Refusal::GivenUp(error)) => Ok(Taken::Nothing { reason: format!("{id}: {error}") }),
            Err(refusal) => Ok(self.refuse(delivery, refusal.to_string()).await),
        }
    }

    async fn store_file(&self, delivery: &mut Delivery) -> Result<u64, Refusal> {
        let store = self.store.as_ref().ok_or(Refusal::NoStore)?;
        let total = delivery.body().len();
        let header = Header::read(delivery.body_mut(), total).await?;
        let name = SafeName::new(&header.name)?;
        let landing = store.begin(name.clone(), header.size)?;
        let writer = landing.writer()?;
        let hash = transfer::read_file(delivery.body_mut(), header.size, writer).await??;
        let landed = landing.finish(Some(hash)).await?;
        let already_there = landed == Landed::AlreadyThere;
        let line = FileLine {
            r#type: "file",
            from: delivery.from().to_string(),
            id: delivery.id().to_string(),
            name: name.to_string(),
            size: header.size,
            already_there,
        };
        let remark = if already_there { ", was there already" } else { "" };
        let text = format!("{}  {name}, {}{remark}", delivery.from().short(), Size(header.size));
        self.print(&line, &text)?;
        Ok(header.size)
    }

    /// Tells the sender why, and only then takes the message, for nothing: a sender that hears `Delivered` has
    /// the refusal already.
    async fn refuse(&self, mut delivery: Delivery, reason: String) -> Taken {
        let (from, id) = (delivery.from(), delivery.id());
        let message = Message::new(Refused::new(id, reason.clone()).encode())
            .tag(transfer::TAG_REFUSED)
            .priority(Priority::Urgent);
        let told = async {
            let receipt = self.node.send(&PeerAddr::from(from), message).await.ok()?;
            (receipt.await.outcome == Outcome::Delivered).then_some(())
        };
        let patience = tokio::time::sleep(REFUSAL_PATIENCE);
        tokio::select! {
            Some(()) = told => {
                // It may have given the rest up, now that it knows.
                if transfer::drain(delivery.body_mut()).await.is_ok() {
                    let _ = delivery.done();
                }
            }
            // Not taken: it comes again, and then its sender may hear us.
            () = patience => drop(delivery),
        }
        Taken::Refused { from, reason }
    }
}

fn message_line(delivery: &Delivery, content: Option<Vec<u8>>, path: Option<String>) -> MessageLine {
    let (text, hex) = match content.map(String::from_utf8) {
        Some(Ok(text)) => (Some(text), None),
        Some(Err(error)) => (None, Some(text::hex(error.as_bytes()))),
        None => (None, None),
    };
    MessageLine {
        r#type: "message",
        from: delivery.from().to_string(),
        id: delivery.id().to_string(),
        tag: String::from_utf8_lossy(delivery.tag()).into_owned(),
        size: delivery.body().len(),
        text,
        hex,
        path,
    }
}
