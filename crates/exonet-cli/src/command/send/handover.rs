//! Messages for the background node of the identity.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::Path;
use std::pin::pin;
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncReadExt};

use super::SILENCE;
use super::input::{self, Taker, became_shorter};
use super::report::{Line, Numbers, Queued, Summary, is_asked_for, unheard};
use crate::args::{Confirmed, SendArgs, Urgency};
use crate::command::show;
use crate::command::stop::{Stop, stop};
use crate::control::figures::PeerState;
use crate::control::protocol::{Class, Ending, Head, LONGEST_BODY, Reply, Request, Room, Settled};
use crate::control::{Client, Giver, Heard, Hearer, too_long};
use crate::exit::{Exit, Tally};
use crate::failure::Failure;
use crate::settings::Settings;
use crate::top::Sample;
use crate::traceparent;
use crate::units::{self, Size, counted};

/// How long the background node may take to say whether the peer answers. The command does nothing else meanwhile.
const ASKING: Duration = Duration::from_secs(1);

/// The time limit for the background node to confirm the messages that it was given, when this command ends early.
const PARTING: Duration = Duration::from_secs(1);

/// Hands the messages over. Without `--durable`, it also waits for the outcomes.
pub(super) async fn run(settings: &Settings, args: &SendArgs, up: &Client) -> Result<Exit, Failure> {
    let options = settings.identity.options();
    let Some(peer) = &args.peer else {
        return Err(Failure::new(format!("{} continues with its messages by itself", who(up))).hint(format!(
            "to see them, or to try the peers at once: exon outbox ls{options}, exon outbox retry{options}"
        )));
    };
    if !up.takes {
        return Err(Failure::new(format!("identity {} is in use by {}", settings.identity, who(up)))
            .hint(format!("it takes no messages of other commands: end it and run exon up{options}, or use another identity: --as NAME")));
    }
    if args.trace {
        return Err(Failure::new(format!("{} sends the messages, not this command", who(up)))
            .hint(format!("exon trace{options} shows what happens to them")));
    }
    if args.go_on {
        return Err(Failure::new(format!("{} continues with its messages by itself", who(up))).hint(format!(
            "to try the peers at once: exon outbox retry{options}; to see the messages: exon outbox ls{options}"
        )));
    }
    if let Some(level) = settings.level().filter(|level| *level != up.durability) {
        return Err(Failure::new(format!(
            "{} keeps its journal at durability {}, not {level}",
            who(up),
            up.durability
        ))
        .hint(format!(
            "leave out --durability; or: exon down{options}; exon up{options} --durability {level}"
        )));
    }
    let outcomes = !args.durable;
    let head = Head {
        peer: peer.to_string(),
        tag: args.tag.clone(),
        priority: args.priority.into(),
        deadline_ms: args.deadline.map(|deadline| u64::try_from(deadline.as_millis()).unwrap_or(u64::MAX)),
        early: !args.no_early,
        outcomes,
        processed: args.confirm == Confirmed::Processed,
        traceparent: traceparent::given(args.traceparent).map(|parent| parent.to_string()),
    };
    let (mut giver, mut hearer) = up.give(Request::Send(head)).await?;
    let given = Cell::new(0);
    let mut handed = Handed::new(settings, up, outcomes);
    let ended = handed.keep(args, &mut giver, &mut hearer, &given).await?;
    handed.sum_up(args, ended, given.get())
}

fn who(up: &Client) -> String {
    format!("exon {} (process {})", up.command, up.pid)
}

impl From<Urgency> for Class {
    fn from(urgency: Urgency) -> Self {
        match urgency {
            Urgency::Urgent => Self::Urgent,
            Urgency::Normal => Self::Normal,
            Urgency::Low => Self::Low,
            Urgency::Bulk => Self::Bulk,
        }
    }
}

/// Gives messages to the background node.
struct Gives<'a> {
    giver: &'a mut Giver,
    given: &'a Cell<u64>,
}

impl Taker for Gives<'_> {
    async fn whole(&mut self, body: Vec<u8>) -> Result<(), Failure> {
        if self.giver.message(body).await? {
            self.given.set(self.given.get() + 1);
            return Ok(());
        }
        // The background node reports the reason, or has ended; the reader of the answer notices either.
        std::future::pending().await
    }

    async fn stream(
        &mut self,
        path: &Path,
        from: impl AsyncRead + Unpin,
        size: Option<u64>,
    ) -> Result<(), Failure> {
        let (mut body, longest) = (Vec::new(), u64::try_from(LONGEST_BODY).unwrap_or(u64::MAX));
        if size.is_some_and(|size| size > longest) {
            return Err(too_long());
        }
        let read = from.take(longest + 1).read_to_end(&mut body).await;
        read.map_err(|e| Failure::path("read", path, &e))?;
        if size.is_some_and(|size| u64::try_from(body.len()) != Ok(size)) {
            return Err(became_shorter(path));
        }
        self.whole(body).await
    }
}

/// How a handover ended.
enum Ended {
    /// Everything has been reported.
    Done,
    Stopped(Stop),
    /// Not all messages could be handed over.
    Failed(Failure),
    /// The background node has ended.
    Gone,
}

/// The state of the messages that were handed over.
struct Handed<'a> {
    settings: &'a Settings,
    up: &'a Client,
    outcomes: bool,
    started: Instant,
    /// The number of messages in the journal of the background node.
    accepted: u64,
    /// All messages have been given to the background node.
    all_given: bool,
    /// The background node has taken no message beyond these.
    refused_rest: bool,
    numbers: Option<Numbers>,
    /// The numbers of messages whose outcome is awaited, by their places in the handover.
    awaited: BTreeMap<u64, u64>,
    /// The numbers of messages that were not delivered.
    undelivered: Option<Numbers>,
    /// The user knows that the background node has no room.
    told_full: bool,
    tally: Tally,
    late: u64,
    early_unknown: bool,
    turned_away: Option<String>,
}

impl<'a> Handed<'a> {
    fn new(settings: &'a Settings, up: &'a Client, outcomes: bool) -> Self {
        Self {
            settings,
            up,
            outcomes,
            started: Instant::now(),
            accepted: 0,
            all_given: false,
            refused_rest: false,
            numbers: None,
            awaited: BTreeMap::new(),
            undelivered: None,
            told_full: false,
            tally: Tally::default(),
            late: 0,
            early_unknown: false,
            turned_away: None,
        }
    }

    async fn keep(
        &mut self,
        args: &SendArgs,
        giver: &mut Giver,
        hearer: &mut Hearer,
        given: &Cell<u64>,
    ) -> Result<Ended, Failure> {
        let mut stop = pin!(stop(args.timeout)?);
        let mut silence = pin!(tokio::time::sleep(SILENCE));
        let mut offer = pin!(async {
            input::give(args, &mut Gives { giver, given }).await?;
            // If this cannot be sent, the background node is gone, which the reader of the answer notices.
            giver.end().await;
            Ok(())
        });
        let (mut offered, mut told) = (false, false);
        let mut ended = loop {
            tokio::select! {
                heard = hearer.hear() => match heard {
                    Heard::Reply(reply) => if let Err(failure) = self.hear(reply) {
                        break Ended::Failed(failure);
                    },
                    Heard::Done => return Ok(Ended::Done),
                    Heard::Failed(failure) => return Ok(Ended::Failed(failure)),
                    Heard::Gone => return Ok(Ended::Gone),
                },
                result = &mut offer, if !offered => {
                    (offered, self.all_given) = (true, result.is_ok());
                    if let Err(failure) = result {
                        break Ended::Failed(failure);
                    }
                }
                stop = &mut stop => break Ended::Stopped(stop),
                () = &mut silence, if !told => {
                    told = true;
                    if self.outcomes && self.tally.ended() == 0 && self.accepted > 0 {
                        self.say_what_lacks(args).await;
                    }
                }
            }
        };
        // The messages that were handed over are on their way into the journal.
        let mut parting = pin!(tokio::time::sleep(PARTING));
        while self.accepted < given.get() {
            tokio::select! {
                heard = hearer.hear() => match heard {
                    Heard::Reply(reply) => if let Err(failure) = self.hear(reply) {
                        // The first failure is the one that is told.
                        if !matches!(ended, Ended::Failed(_)) {
                            ended = Ended::Failed(failure);
                        }
                    },
                    Heard::Done | Heard::Failed(_) | Heard::Gone => break,
                },
                () = &mut parting => break,
            }
        }
        Ok(ended)
    }

    /// Says why no message has its outcome yet: the peer has not answered, or its application is slow.
    async fn say_what_lacks(&self, args: &SendArgs) {
        let Some(peer) = args.peer.as_ref().map(|peer| peer.id) else { return };
        let (id, short, who) = (peer.to_string(), peer.short(), who(self.up));
        let sample = tokio::time::timeout(ASKING, Sample::take(self.up)).await;
        let answers = sample.is_ok_and(|sample| {
            sample.is_ok_and(|sample| {
                sample.peers.iter().any(|peer| peer.id == id && peer.state == PeerState::Up)
            })
        });
        let (what, goes_on) = if answers {
            let done = if args.confirm == Confirmed::Processed { "processed" } else { "taken" };
            (format!("{short} answers, and its application has not {done} it yet"), "waiting")
        } else {
            (format!("no answer from {short} yet"), "trying")
        };
        self.settings.note(format!("{what}; still {goes_on}, Ctrl-C leaves the messages to {who}"));
    }

    /// Counts what is reported, and prints it. The error means that it could not be printed.
    fn hear(&mut self, reply: Reply) -> Result<(), Failure> {
        match reply {
            Reply::Accepted { n, numbers, full, last } => {
                (self.accepted, self.refused_rest) = (n, last);
                let printed = self.number(&numbers);
                if let Some(room) = full.filter(|_| !std::mem::replace(&mut self.told_full, true)) {
                    self.say_full(room);
                }
                printed
            }
            Reply::Settled(settled) => self.settle(settled),
            _ => Ok(()),
        }
    }

    /// Reports the numbers of messages in the journal.
    fn number(&mut self, numbers: &[(u64, u64)]) -> Result<(), Failure> {
        let mut printed = Ok(());
        for &(n, number) in numbers {
            if self.outcomes {
                self.awaited.insert(n, number);
            }
            self.numbers = Some(Numbers::and(self.numbers, number));
            printed = printed.and(self.settings.output.line(&Queued { r#type: "queued", n, number }));
        }
        printed
    }

    fn say_full(&self, room: Room) {
        let (who, messages, bytes) = (who(self.up), counted(room.messages, "message"), Size(room.bytes));
        let options = self.settings.identity.options();
        self.settings.note(format!(
            "{who} has no room: it keeps {messages} and {bytes} for this peer. This command waits until the peer has taken some"
        ));
        self.settings.note(format!(
            "to see what is open: exon outbox ls{options}; for more room, start exon up with --queue N and --queue-bytes SIZE; Ctrl-C leaves the messages before to {who}"
        ));
    }

    fn settle(&mut self, settled: Settled) -> Result<(), Failure> {
        let Settled { n, outcome, reason, remedy, id, late, early, receiver_durability, judged } = settled;
        let number = self.awaited.remove(&n);
        if let Some(number) = number.filter(|_| is_asked_for(outcome)) {
            self.undelivered = Some(Numbers::and(self.undelivered, number));
        }
        self.tally.count(outcome);
        self.late += u64::from(late);
        self.early_unknown |= outcome == Ending::Unknown && early;
        if remedy.is_some() && self.turned_away != reason {
            self.settings.error(format!("refused: {}", reason.as_deref().unwrap_or_default()));
            self.settings.error(format!("  {}", remedy.unwrap_or_default()));
            self.turned_away.clone_from(&reason);
        } else if outcome == Ending::Rejected {
            show::say_rejected(self.settings, n, judged, reason.as_deref());
        } else if let Some(reason) = reason.as_ref().filter(|_| self.turned_away != reason) {
            self.settings.note(format!("message {n} was refused: {reason}"));
        }
        if self.settings.verbose {
            let late = if late { ", late" } else { "" };
            let at = show::receiver(receiver_durability.as_deref());
            let id = id.as_deref().unwrap_or("never left");
            self.settings.output.text(&format!("{n:>6}  {}{late}{at}  {id}", outcome.name()))?;
        }
        self.settings.output.line(&Line {
            r#type: "message",
            n,
            number,
            outcome: outcome.name(),
            reason,
            judged,
            id,
            late,
            receiver_durability,
            recovered: false,
        })
    }

    fn sum_up(mut self, args: &SendArgs, ended: Ended, given: u64) -> Result<Exit, Failure> {
        let settled = self.tally.ended();
        let accepted = self.accepted.max(settled).min(given);
        let queued = (!self.outcomes).then_some(accepted);
        // The journal has none of the messages that the background node has refused. Otherwise it is unknown whether it
        // has the last messages that were handed over.
        let not_taken = given - accepted;
        let lost = if self.refused_rest { 0 } else { not_taken };
        self.tally.unknown += lost;
        self.tally.cancelled += not_taken - lost;
        if self.outcomes {
            self.tally.kept += accepted - settled;
        }
        let named = u64::try_from(args.texts.len() + args.files.len()).unwrap_or(u64::MAX);
        self.tally.cancelled += named.saturating_sub(given);
        let (end, exit) = match ended {
            Ended::Done if !self.outcomes => ("queued durably", Ok(self.tally.exit())),
            Ended::Done => ("done", Ok(self.tally.exit())),
            Ended::Stopped(Stop::TimedOut) => ("timed out", Ok(self.unfinished())),
            Ended::Stopped(Stop::Interrupted) => ("interrupted", Ok(self.unfinished())),
            Ended::Failed(failure) => ("error", Err(failure)),
            Ended::Gone => ("background node ended", Err(self.gone(accepted, settled, lost))),
        };
        if queued != Some(0) || exit.is_ok() {
            self.say(queued, end);
        }
        let printed = self.settings.output.line(&Summary {
            r#type: "summary",
            end,
            sent: given,
            recovered: 0,
            tally: self.tally,
            late: self.late,
            queued,
            seconds: self.started.elapsed().as_secs_f64(),
        });
        let exit = exit.and_then(|exit| printed.map(|()| exit));
        unheard(self.settings, exit, self.tally.exit(), self.all_given || !args.reads_input())
    }

    /// Messages that the background node has are no error.
    fn unfinished(&self) -> Exit {
        match self.tally.exit() {
            Exit::Success => Exit::Kept,
            exit => exit,
        }
    }

    fn say(&self, queued: Option<u64>, end: &str) {
        let (settings, took) = (self.settings, units::span(self.started.elapsed()));
        let options = settings.identity.options();
        match queued {
            Some(queued) => {
                let (numbers, look) = match self.numbers {
                    None => (String::new(), format!("exon outbox ls{options}")),
                    Some(numbers) => {
                        let one = numbers.status(settings);
                        let look = if numbers.is_one() {
                            one
                        } else {
                            format!("exon outbox ls{options}; one of them: {one}")
                        };
                        (format!(", {}", numbers.words()), look)
                    }
                };
                let (these, count) = (if queued == 1 { "it" } else { "them" }, counted(queued, "message"));
                settings.note(format!(
                    "queued durably: {count} in {took}{numbers}; {} sends {these}",
                    who(self.up)
                ));
                settings.note(format!("to see {these}: {look}"));
            }
            None => settings.note(format!("{} in {took}", self.tally.describe())),
        }
        if let Some(numbers) = self.undelivered {
            numbers.say(settings);
        }
        if self.tally.kept > 0 && end != "background node ended" {
            let kept = counted(self.tally.kept, "message");
            settings.note(format!(
                "kept: {kept}; {} continues with them. To see them: exon outbox ls{options}",
                who(self.up)
            ));
        }
        if self.early_unknown && end == "done" {
            show::say_clocks(settings, "send");
        }
    }

    /// The error that the background node ended before it reported everything.
    fn gone(&self, accepted: u64, settled: u64, lost: u64) -> Failure {
        let options = self.settings.identity.options();
        let safe = if self.outcomes { accepted - settled } else { accepted };
        let safe = format!("{} of this run are safe in its journal", counted(safe, "message"));
        let doubt = match lost {
            0 => "all others have an outcome, or were not handed over".to_owned(),
            lost => format!("it is not known of the last {} whether they are", counted(lost, "message")),
        };
        Failure::new(format!("{} has ended: {safe}, and {doubt}", who(self.up)))
            .hint(format!("to see what is open: exon outbox ls{options}; to continue: exon up{options}"))
    }
}
