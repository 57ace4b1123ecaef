//! Which flow's turn it is: chosen by the queue, or within bounds by the application's own scheduler.

use core::time::Duration;

use super::Outbound;
use crate::message::lane::LaneKey;
use crate::message::scheduler::{Kind, Scheduler, Waiting};
use crate::message::{Flow, Letter, MessageKey, Store};
use crate::time::Mono;
use crate::wire::Role;

/// The most lanes of one priority that a scheduler can choose from at once. With eight other flows they are
/// [`MOST_WAITING`](crate::message::scheduler::MOST_WAITING).
const MOST_LANES: usize = 62;

/// The interval at which the queue chooses, whatever the scheduler would choose: so nothing waits for ever.
const OWN_EVERY: Duration = Duration::from_millis(100);

/// The application's own scheduler for the messages to one peer.
#[derive(Debug)]
pub(crate) struct Scheduling {
    scheduler: Box<dyn Scheduler>,
    /// The messages that could leave now. The vector is kept for its memory.
    waiting: Vec<Waiting>,
    /// The message that was chosen and has not left.
    chosen: Option<usize>,
    /// When it was chosen.
    now: Mono,
    /// When the queue chooses next.
    own_at: Mono,
}

/// The turn that a scheduler has chosen.
enum Turn {
    /// The turn of the message at the front of this flow.
    Of(Flow),
    /// The queue chooses.
    Queue,
    /// The chosen message waits for room, and no other message can leave.
    Nobody,
}

impl Outbound {
    /// Lets `scheduler` choose from now on.
    pub(crate) fn set_scheduler(&mut self, now: Mono, scheduler: Box<dyn Scheduler>) {
        let own_at = now + OWN_EVERY;
        self.scheduling =
            Some(Box::new(Scheduling { scheduler, waiting: Vec::new(), chosen: None, now, own_at }));
    }

    /// The flow whose turn it is, with the message to send at its front. `envelopes`: there are envelopes, and they may be used.
    pub(super) fn whose_turn(&mut self, now: Mono, store: &Store, envelopes: bool) -> Option<Flow> {
        match self.scheduled(now, store, envelopes) {
            Turn::Of(flow) => return Some(flow),
            Turn::Nobody => return None,
            Turn::Queue => {}
        }
        if self.queue.has_lanes() {
            self.choose_lanes(now, store);
        }
        self.turn(store, envelopes)
    }

    /// The scheduler's choice, if there is a scheduler.
    #[inline]
    fn scheduled(&mut self, now: Mono, store: &Store, envelopes: bool) -> Turn {
        // The scheduler is taken out meanwhile, since the queue that it is asked about belongs to the same value.
        let Some(mut scheduling) = self.scheduling.take() else { return Turn::Queue };
        scheduling.chosen = None;
        let sole = self.queue.is_sole();
        if sole {
            // No message waits for another.
            scheduling.own_at = now + OWN_EVERY;
        }
        let turn = if sole || !envelopes { Turn::Queue } else { self.choose(&mut scheduling, now, store) };
        self.scheduling = Some(scheduling);
        turn
    }

    fn choose(&mut self, scheduling: &mut Scheduling, now: Mono, store: &Store) -> Turn {
        scheduling.now = now;
        if now >= scheduling.own_at {
            scheduling.own_at = now + OWN_EVERY;
            self.queue.pass_lanes();
            return Turn::Queue;
        }
        let mut plain = true;
        // Each round has one lane less to choose from, or no plain message.
        loop {
            self.list(store, plain, &mut scheduling.waiting);
            let waiting = scheduling.waiting.as_slice();
            let at = if waiting.len() > 1 { scheduling.scheduler.next(now, waiting) } else { Some(0) };
            let Some((at, &Waiting { flow, lane, .. })) = at.and_then(|at| Some((at, waiting.get(at)?)))
            else {
                return if plain || !waiting.is_empty() { Turn::Queue } else { Turn::Nobody };
            };
            self.queue.bring(flow, lane);
            let front = self.queue.front(flow).and_then(|key| store.get(key));
            let Some(letter) = front else { return Turn::Queue };
            let (needs, len) = (letter.bound.is_none() && !letter.is_large(), letter.wire_len());
            if needs && self.has_own_window(letter) {
                if !self.lanes.may_open(now, lane, len) {
                    self.queue.next_lane(flow, true);
                    continue;
                }
            } else if needs && len > self.window_left() {
                // The message waits for room, and no other message takes that room from it.
                plain = false;
                continue;
            }
            scheduling.chosen = Some(at);
            return Turn::Of(flow);
        }
    }

    /// Lists the messages that could leave now, apart from windows. `plain`: includes messages that take room from the window of
    /// plain messages.
    fn list(&self, store: &Store, plain: bool, waiting: &mut Vec<Waiting>) {
        waiting.clear();
        let one = |flow: Flow, key: MessageKey| {
            let letter = store.get(key)?;
            let free = letter.bound.is_some() || letter.is_large() || self.has_own_window(letter);
            (plain || free).then(|| waiting_of(flow, letter))
        };
        for (flow, key) in self.queue.fronts() {
            waiting.extend(one(flow, key));
            let others = self.queue.other_lanes(flow).take(MOST_LANES - 1);
            waiting.extend(others.filter_map(|key| one(flow, key)));
        }
    }

    /// Whether there may be another message to choose, so that the scheduler has to be asked first.
    pub(super) fn must_ask(&self) -> bool {
        self.scheduling.is_some() && !self.queue.is_sole()
    }

    /// Bytes of a message leave. The scheduler is told if it chose that message.
    #[inline]
    pub(super) fn note_sent(&mut self, flow: Flow, lane: LaneKey, bytes: u64) {
        if let Some(scheduling) = self.scheduling.as_mut() {
            let Scheduling { scheduler, waiting, chosen, now, .. } = &mut **scheduling;
            let chosen = chosen.take().and_then(|at| waiting.get(at));
            if let Some(chosen) = chosen.filter(|chosen| (chosen.flow, chosen.lane) == (flow, lane)) {
                scheduler.on_sent(*now, chosen, bytes);
            }
        }
    }
}

fn waiting_of(flow: Flow, letter: &Letter) -> Waiting {
    let kind = match letter.role {
        Role::Plain => Kind::Message,
        Role::Call => Kind::Call,
        Role::Reply { .. } => Kind::Reply,
        Role::Stream(_) => Kind::Stream,
    };
    Waiting {
        priority: letter.priority,
        kind,
        name: letter.tag.clone(),
        large: letter.is_large(),
        bytes: letter.wire_len(),
        deadline: letter.deadline,
        order: letter.order,
        flow,
        lane: letter.lane,
    }
}
