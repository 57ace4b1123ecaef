//! `exon group send`: sends one message to several nodes, and reports which of them have it.

use std::collections::BTreeMap;
use std::io::{IsTerminal as _, Read as _};
use std::pin::pin;

use exonet::error::GroupError;
use exonet::group::{MemberLine, MemberState, Mode, Verdict, Why};
use exonet::send::Refusal;
use exonet::{Message, Node, NodeId, Outcome, PeerAddr};
use serde::Serialize;

use super::group_stream;
use super::stop::stop;
use crate::args::{GroupArgs, GroupCommand, GroupSendArgs};
use crate::exit::{Exit, outcome_name, remedy};
use crate::failure::Failure;
use crate::node::{self, GOODBYE};
use crate::peers::Named;
use crate::settings::Settings;
use crate::text::escape;
use crate::units;

/// The longest message.
const LONGEST: u64 = 16 << 20;

#[derive(Serialize)]
struct Member<'a> {
    r#type: &'static str,
    peer: String,
    /// The name of the member on the command line, or the beginning of its id.
    name: &'a str,
    state: &'static str,
    /// The member has the message.
    has_it: bool,
    /// The member certainly has not acted on the message, and never will.
    certainly_not: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    #[serde(flatten)]
    path: Path,
}

/// The path to a member, as measured by the end.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Path {
    /// The smoothed round-trip time. None: there is no channel to the member.
    rtt_ms: Option<f64>,
    /// The share of packets that were lost, from 0 to 1. None: none was sent.
    loss: Option<f64>,
}

impl Path {
    /// The paths to the members. The node must still run.
    pub(super) fn all(node: &Node, args: &GroupSendArgs) -> BTreeMap<NodeId, Self> {
        args.members.iter().map(|named| (named.peer.id, Self::to(node, &named.peer))).collect()
    }

    fn to(node: &Node, member: &PeerAddr) -> Self {
        let Some(stats) = node.peer(member.id).stats() else { return Self::default() };
        // Without a channel, the time is a first guess.
        let rtt_ms = stats.remote.map(|_| stats.rtt.as_secs_f64() * 1e3);
        let sent = stats.packets_sent > 0;
        let loss = sent.then(|| units::precise(stats.packets_lost) / units::precise(stats.packets_sent));
        Self { rtt_ms, loss }
    }

    /// For people, with a blank before it, if they want details.
    pub(super) fn describe(self, settings: &Settings) -> String {
        let Some(rtt_ms) = self.rtt_ms.filter(|_| settings.verbose) else { return String::new() };
        let loss = self.loss.map(|loss| format!(", {} lost", units::percent(loss))).unwrap_or_default();
        format!("  round trip {rtt_ms:.1} ms{loss}")
    }
}

#[derive(Serialize)]
struct Summary {
    r#type: &'static str,
    end: &'static str,
    verdict: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'static str>,
    mode: String,
    members: usize,
    /// How many members must have the message, and how many had it when the verdict was reached.
    need: usize,
    good: usize,
    /// The number of members that are known to have it at the end.
    have_it: usize,
}

pub(super) async fn run(settings: &Settings, args: &GroupArgs) -> Result<Exit, Failure> {
    match &args.command {
        GroupCommand::Send(args) => match &args.stream {
            Some(name) => group_stream::send(settings, args, name).await,
            None => send(settings, args).await,
        },
    }
}

async fn send(settings: &Settings, args: &GroupSendArgs) -> Result<Exit, Failure> {
    // The body is read before anything is begun, so that an interrupt ends the command.
    let body = body(settings, args)?;
    let node = node::toward_all(settings, &args.members, |_| ()).await?;
    let stop = stop(None)?;
    let mut stop = pin!(stop);
    let wrong = |error: GroupError| Failure::new("cannot send to the group").because(&error);
    let group = node.group(args.members.iter().map(|named| named.peer.clone())).build().map_err(wrong)?;
    let message = Message::new(body)
        .tag(args.tag.clone())
        .priority(args.priority.into())
        .confirm(args.confirm.into())
        .deadline(args.deadline);
    let mut receipt = group.send(args.mode, message).await.map_err(wrong)?;
    let interrupted = {
        let decided = async {
            receipt.decided().await;
            // The other members may take longer, and the command need not wait for them.
            drop(tokio::time::timeout(args.wait, receipt.ended()).await);
        };
        tokio::select! {
            () = pin!(decided) => false,
            _ = &mut stop => true,
        }
    };
    let (before, paths) = (receipt.verdict(), Path::all(&node, args));
    if interrupted {
        receipt.cancel();
    }
    node.close(GOODBYE).await;
    // Nothing is open any more, so this is the final state of each member.
    let lines = receipt.ended().await;
    let verdict = receipt.decided().await;
    let cut = interrupted && before.is_none();
    tell(settings, args, (&lines, &paths), verdict, cut, node.id())?;
    Ok(exit(&lines, verdict, cut))
}

fn exit(lines: &[MemberLine], verdict: Verdict, interrupted: bool) -> Exit {
    let ended = |outcome: Outcome| {
        lines.iter().any(|line| matches!(line.state, MemberState::Settled(s) if s.outcome == outcome))
    };
    match () {
        () if interrupted => Exit::Interrupted,
        () if verdict.is_reached() => Exit::Success,
        () if ended(Outcome::Unknown) => Exit::Unknown,
        () if ended(Outcome::Kept) => Exit::Kept,
        () => Exit::Undelivered,
    }
}

/// Reads the message from the argument or from standard input.
fn body(settings: &Settings, args: &GroupSendArgs) -> Result<Vec<u8>, Failure> {
    match &args.texts[..] {
        [] => {}
        [text] if text == "-" => {}
        // Several texts are wrong usage, which was reported before.
        [text, ..] => return Ok(text.clone().into_bytes()),
    }
    if std::io::stdin().is_terminal() {
        settings.note("type the message here; Ctrl-D ends it");
    }
    let mut body = Vec::new();
    let read = std::io::stdin().lock().take(LONGEST + 1).read_to_end(&mut body);
    read.map_err(|error| Failure::new("cannot read standard input").because(&error))?;
    if body.len() as u64 > LONGEST {
        return Err(Failure::new("standard input is longer than 16 MiB, the limit for a group")
            .hint("send a file to each member: exon cp FILE PEER"));
    }
    Ok(body)
}

/// Prints the table and the verdict.
fn tell(
    settings: &Settings,
    args: &GroupSendArgs,
    (lines, paths): (&[MemberLine], &BTreeMap<NodeId, Path>),
    verdict: Verdict,
    interrupted: bool,
    own: NodeId,
) -> Result<(), Failure> {
    let width = args.members.iter().map(|named| named.name.len()).max().unwrap_or_default();
    // Members are listed in the order of the command line.
    for Named { name, peer } in &args.members {
        let Some(line) = lines.iter().find(|line| line.id == peer.id) else { continue };
        let (state, id, more) = describe(&line.state, own);
        let reason = line.reason.as_deref().filter(|reason| !reason.is_empty());
        let more = more.or_else(|| reason.map(|reason| escape(reason.as_bytes())));
        let more = more.map(|more| format!("  {more}")).unwrap_or_default();
        let path = paths.get(&line.id).copied().unwrap_or_default();
        let way = path.describe(settings);
        settings.output.text(format!("{name:<width$}  {state:<9}{way}{more}").trim_end())?;
        settings.output.line(&Member {
            r#type: "member",
            peer: line.id.to_string(),
            name,
            state,
            has_it: line.state.has_it(),
            certainly_not: line.state.is_certainly_not(),
            id,
            reason,
            path,
        })?;
    }
    let have_it = lines.iter().filter(|line| line.state.has_it()).count();
    let (word, why, good, need) = match verdict {
        Verdict::Failed { good, need, why: Why::Deadline } => ("failed", Some("deadline"), good, need),
        Verdict::Failed { good, need, .. } => ("failed", Some("too_few"), good, need),
        Verdict::Reached { good } => ("reached", None, good, needed(args.mode, lines.len())),
        _ => ("failed", None, 0, 0),
    };
    let because = match why {
        Some("deadline") => ", when the deadline passed",
        Some(_) if !interrupted => ", and no more can",
        _ => "",
    };
    let later = if have_it > good { format!("; {have_it} have it in the end") } else { String::new() };
    settings.output.text(&format!("\n{word}: {good} of {need} needed{because}{later}"))?;
    settings.output.line(&Summary {
        r#type: "summary",
        end: if interrupted { "interrupted" } else { "done" },
        verdict: word,
        why,
        mode: mode_name(args.mode),
        members: lines.len(),
        need,
        good,
        have_it,
    })
}

/// The state in a word, the id of the message, and further details.
fn describe(state: &MemberState, own: NodeId) -> (&'static str, Option<String>, Option<String>) {
    match state {
        MemberState::Spare => ("spare", None, Some("was not sent it".to_owned())),
        MemberState::Skipped(error) => ("skipped", None, Some(error.to_string())),
        MemberState::Settled(settled) => {
            let more = match settled.outcome {
                Outcome::Refused(why) => Some(refusal(why, own)),
                Outcome::Unknown => Some("has it once, or not at all".to_owned()),
                _ => None,
            };
            (outcome_name(settled.outcome), settled.id.map(|id| id.to_string()), more)
        }
        // The library may add states; none of them is final.
        _ => ("unknown", None, None),
    }
}

/// Why a member refuses messages of the node `own`, and the remedy.
pub(super) fn refusal(why: Refusal, own: NodeId) -> String {
    format!("{why}: {}", remedy(why, own))
}

/// The number of members that must have the message.
fn needed(mode: Mode, members: usize) -> usize {
    match mode {
        Mode::Any => 1,
        Mode::Quorum { acks, .. } => acks,
        Mode::Balanced { k } => k,
        _ => members,
    }
}

/// The mode as it is written on the command line.
pub(super) fn mode_name(mode: Mode) -> String {
    match mode {
        Mode::Any => "any".to_owned(),
        Mode::Quorum { send, acks } => format!("quorum={acks}/{send}"),
        Mode::Balanced { k } => format!("balanced={k}"),
        _ => "all".to_owned(),
    }
}
