//! A sender, a receiver, and a network that never forgets: what the rules of PROTOCOL.md do together.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

use super::language::{Head, Kind, Program, Rule, Statement};
use super::run::{Choices, Effect, Frame, Run, Value, single};

pub const MESSAGES: i8 = 3;

/// What a search looks at.
#[derive(Clone, Copy)]
pub struct Scope {
    /// How often an event may happen, at its node: `sender start`.
    pub limits: &'static [(&'static str, u8)],
    /// What parameters and choices range over, where it is not 0 and 1.
    pub domains: &'static [(&'static str, &'static [i8])],
    pub constants: &'static [(&'static str, i8)],
}

/// The rules of a page, and what is common to all worlds of a search.
pub struct Rules {
    scope: Scope,
    roles: [Program; 2],
    frames: RefCell<(Vec<Frame>, HashMap<Frame, usize>)>,
    pub ran: RefCell<Vec<bool>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Fate {
    #[default]
    None,
    Delivered,
    NotDelivered,
    Unknown,
    /// Its sender has crashed.
    Forgotten,
}

#[derive(Clone, PartialEq, Eq, Hash)]
pub struct World {
    /// The variables of sender and receiver.
    nodes: [Vec<Value>; 2],
    fates: [Fate; MESSAGES as usize],
    taken: [u8; MESSAGES as usize],
    /// How often each event of the scope's list has happened, at both nodes.
    spent: Vec<u8>,
    /// Every frame that was ever sent: bits, by the number of the frame.
    network: Vec<u64>,
}

/// A step that a world may take.
#[derive(Clone)]
struct Candidate<'r> {
    role: usize,
    rule: &'r Rule,
    args: Vec<Value>,
}

/// What the page need not say: the application sends one message after the others.
const APPLICATION: &str = "
```exo sender
state later = 1
event submit when later > 0:
  add (3 - later) to queue
  later = later - 1
```
";

const ROLES: [&str; 2] = ["sender", "receiver"];

impl Rules {
    pub fn read(page: &str, scope: Scope) -> Result<Self, String> {
        let page = &format!("{page}{APPLICATION}");
        let [sender, receiver] = ROLES.map(|role| Program::read(page, role, scope.constants));
        let ran = RefCell::new(vec![false; page.lines().count() + 1]);
        Ok(Self { scope, roles: [sender?, receiver?], frames: RefCell::default(), ran })
    }

    /// The lines of all statements.
    pub fn statements(&self) -> Vec<usize> {
        self.roles.iter().flat_map(|program| &program.rules).flat_map(|rule| lines(&rule.body)).collect()
    }

    fn domain(&self, name: &str) -> &'static [i8] {
        self.scope.domains.iter().find(|(known, _)| *known == name).map_or(&[0, 1], |(_, domain)| domain)
    }

    fn limit(&self, role: usize, rule: &str) -> Option<usize> {
        let named = |known: &str| known.split_once(' ') == Some((ROLES[role], rule));
        self.scope.limits.iter().position(|(known, _)| named(known))
    }

    fn start(&self) -> World {
        let mut world = World {
            nodes: [Vec::new(), Vec::new()],
            fates: Default::default(),
            taken: Default::default(),
            spent: vec![0; self.scope.limits.len()],
            network: Vec::new(),
        };
        for (node, program) in world.nodes.iter_mut().zip(&self.roles) {
            let first = program.state.iter().map(|(_, value)| match value {
                Some(super::language::Expr::Number(x)) => Value::Int(*x),
                Some(super::language::Expr::Empty) => Value::Set(Vec::new()),
                _ => Value::None,
            });
            node.extend(first);
        }
        let queue = self.roles[0].place("queue");
        world.nodes[0][queue] = Value::Set((0..MESSAGES - 1).map(single).collect());
        world
    }

    fn number(&self, frame: Frame) -> usize {
        let (frames, numbers) = &mut *self.frames.borrow_mut();
        *numbers.entry(frame.clone()).or_insert_with(|| {
            frames.push(frame);
            frames.len() - 1
        })
    }

    /// Runs a rule in a world, with these choices. None: its guard does not hold.
    fn run(&self, world: &World, candidate: &Candidate<'_>, choices: &mut Choices) -> Option<World> {
        let (before, mut world, mut effects) = (world, world.clone(), Vec::new());
        let program = &self.roles[candidate.role];
        let domain = |name: &str| self.domain(name);
        let mut run = Run {
            rules: &program.rules,
            values: &mut world.nodes[candidate.role],
            kept: program.state.len(),
            choices,
            domain: &domain,
            effects: &mut effects,
            ran: &mut self.ran.borrow_mut(),
        };
        if !run.rule(candidate.rule, program.names, &candidate.args) {
            return None;
        }
        let name = &*candidate.rule.name;
        if let Some(at) = self.limit(candidate.role, name) {
            world.spent[at] += 1;
        }
        let crashed = (candidate.role, name) == (0, "start");
        if crashed {
            world.forget(self.roles[0].place("queue"), self.roles[0].place("later"));
        }
        let excused = matches!(name, "abandon" | "STAMP_REJECTED");
        let early: Vec<_> = before.nodes[0][self.roles[0].place("S.early")].as_set().to_vec();
        for effect in effects {
            match effect {
                Effect::Send(frame) => world.put(self.number(frame)),
                Effect::Deliver(m) => world.taken[m as usize] += 1,
                Effect::Report(m, outcome) => {
                    let early = early.iter().any(|tuple| tuple[1] == m);
                    let forgotten = if early { self.has_lost(&world) } else { self.is_excused(&world) };
                    world.report(m as usize, &outcome, excused || forgotten);
                }
            }
        }
        Some(world)
    }

    /// Whether something was forgotten, so that outcomes may be Unknown.
    fn is_excused(&self, world: &World) -> bool {
        let lost = ["receiver evict", "receiver start", "receiver restart"];
        self.has_happened(world, &lost)
    }

    /// Whether something was forgotten that was taken early, so that outcomes of early messages may be Unknown. Where everything
    /// is, that something was taken at all is not asked.
    fn has_lost(&self, world: &World) -> bool {
        let took = world.taken.iter().any(|taken| *taken > 0);
        took && self.is_excused(world) || self.has_happened(world, &["receiver start", "receiver full"])
    }

    fn has_happened(&self, world: &World, events: &[&str]) -> bool {
        let mut named = self.scope.limits.iter().zip(&world.spent);
        named.any(|((name, _), spent)| events.contains(name) && *spent > 0)
    }

    /// All that may be repeated leaves at once: it need not arrive.
    fn repeat(&self, mut world: World) -> World {
        for (role, program) in self.roles.iter().enumerate() {
            for rule in program.rules.iter().filter(|rule| rule.head == Head::Repeat) {
                let candidate = Candidate { role, rule, args: Vec::new() };
                let mut choices = Choices::default();
                while let Some(next) = self.run(&world, &candidate, &mut choices) {
                    world = next;
                    if !choices.advance() {
                        break;
                    }
                }
            }
        }
        world
    }

    /// The steps that a world may take: of either node, or the arrival of any frame that was ever sent.
    fn candidates(&self, world: &World) -> Vec<Candidate<'_>> {
        let mut candidates = Vec::new();
        for (role, program) in self.roles.iter().enumerate() {
            for rule in program.rules.iter().filter(|rule| rule.head == Head::Event) {
                let at = self.limit(role, &rule.name);
                if at.is_some_and(|at| world.spent[at] >= self.scope.limits[at].1) {
                    continue;
                }
                let mut all = vec![Vec::new()];
                for name in &rule.param_names {
                    let domain = self.domain(name);
                    let longer = |args: Vec<Value>| {
                        domain.iter().map(move |x| [&args[..], &[Value::Int(*x)]].concat())
                    };
                    all = all.into_iter().flat_map(longer).collect();
                }
                candidates.extend(all.into_iter().map(|args| Candidate { role, rule, args }));
            }
        }
        let frames = self.frames.borrow();
        let sent: Vec<_> = world.in_network().map(|number| &frames.0[number]).collect();
        for (role, program) in self.roles.iter().enumerate() {
            for rule in program.rules.iter().filter(|rule| rule.head == Head::On) {
                let arrive = sent.iter().filter(|frame| frame.name == rule.name);
                candidates.extend(arrive.map(|frame| Candidate { role, rule, args: frame.args.clone() }));
            }
        }
        candidates
    }

    /// The worlds that one candidate leads to.
    fn step(&self, world: &World, candidate: &Candidate<'_>) -> Vec<World> {
        let (mut choices, mut reached) = (Choices::default(), Vec::new());
        while let Some(next) = self.run(world, candidate, &mut choices) {
            if next != *world {
                let next = self.repeat(next);
                if next != *world {
                    reached.push(next);
                }
            }
            if !choices.advance() {
                break;
            }
        }
        reached
    }

    /// Searches breadth first, through at most `most` worlds.
    pub fn search(&self, most: usize) -> Result<usize, String> {
        let (mut seen, mut queue) = (HashSet::new(), VecDeque::from([self.start()]));
        while let Some(world) = queue.pop_front() {
            for candidate in self.candidates(&world) {
                for reached in self.step(&world, &candidate) {
                    self.broken(&reached).map_or(Ok(()), Err)?;
                    if seen.len() < most && seen.insert(fingerprint(&reached)) {
                        queue.push_back(reached);
                    }
                }
            }
        }
        Ok(seen.len())
    }

    /// Walks at random, `walks` times from the start, as deep as no complete search comes. Says how many walks ended with all
    /// messages delivered, and with both records gone.
    pub fn walk(&self, walks: u64, depth: usize) -> Result<usize, String> {
        let mut quiet = 0;
        for seed in 1..=walks {
            let (mut world, mut random) = (self.start(), seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let mut draw = |of: usize| {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                usize::try_from(random % of.max(1) as u64).unwrap()
            };
            let mut trace = Vec::new();
            for _ in 0..depth {
                // One of the rules, then one of its ways: else the frames, of which there are ever more, would be all.
                let candidates = self.candidates(&world);
                let of_rules: Vec<_> =
                    candidates.chunk_by(|one, next| std::ptr::eq(one.rule, next.rule)).collect();
                let Some(of_rule) = of_rules.get(draw(of_rules.len())) else { break };
                let candidate = &of_rule[draw(of_rule.len())];
                let mut reached = self.step(&world, candidate);
                if reached.is_empty() {
                    continue;
                }
                trace.push(format!("{} {} {:?}", ROLES[candidate.role], candidate.rule.name, candidate.args));
                world = reached.swap_remove(draw(reached.len()));
                self.broken(&world)
                    .map_or(Ok(()), |broken| Err(format!("walk {seed}: {broken}\n{}", trace.join("\n"))))?;
            }
            quiet += usize::from(self.is_quiet(&world));
        }
        Ok(quiet)
    }

    fn is_quiet(&self, world: &World) -> bool {
        let [sender, receiver] = [(0, "S"), (1, "R")]
            .map(|(role, record)| world.nodes[role][self.roles[role].place(record)] == Value::None);
        sender && receiver && world.fates.iter().all(|fate| *fate == Fate::Delivered)
    }

    /// What is promised, if it is broken.
    fn broken(&self, world: &World) -> Option<String> {
        let sender = |name: &str| world.nodes[0][self.roles[0].place(name)].as_set();
        let (queue, tokens, early) = (sender("queue"), sender("S.tokens"), sender("S.early"));
        let Value::Int(later) = world.nodes[0][self.roles[0].place("later")] else { return None };
        for m in 0..MESSAGES - later {
            let places = [
                queue.iter().filter(|tuple| tuple[0] == m).count(),
                early.iter().filter(|tuple| tuple[1] == m).count(),
            ];
            let places = places.iter().sum::<usize>() + tokens.iter().filter(|tuple| tuple[2] == m).count();
            let (fate, taken) = (world.fates[m as usize], world.taken[m as usize]);
            match (fate, taken) {
                (_, 2..) => return Some(format!("message {m} was delivered twice")),
                (Fate::NotDelivered, 1..) => {
                    return Some(format!("message {m} was delivered, and is not called so"));
                }
                (Fate::Delivered, 0) => return Some(format!("message {m} is called Delivered and was not")),
                _ if taken > 0 && queue.contains(&single(m)) => {
                    return Some(format!("message {m} was delivered, and is given back"));
                }
                _ if places > 1 => return Some(format!("message {m} is in {places} places")),
                (Fate::None, _) if places == 0 => return Some(format!("message {m} is lost")),
                _ => {}
            }
        }
        let mut slots: Vec<_> = tokens.iter().chain(early).map(|tuple| tuple[0]).collect();
        slots.sort_unstable();
        let both = slots.windows(2).find(|pair| pair[0] == pair[1])?;
        Some(format!("slot {} names two messages", both[0]))
    }
}

impl World {
    fn put(&mut self, number: usize) {
        if self.network.len() <= number / 64 {
            self.network.resize(number / 64 + 1, 0);
        }
        self.network[number / 64] |= 1 << (number % 64);
    }

    fn in_network(&self) -> impl Iterator<Item = usize> {
        let words = self.network.iter().enumerate();
        words.flat_map(|(at, word)| {
            (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| 64 * at + bit)
        })
    }

    fn report(&mut self, m: usize, outcome: &str, excused: bool) {
        let reported = match outcome {
            "Delivered" => Fate::Delivered,
            "NotDelivered" => Fate::NotDelivered,
            "Unknown" if excused => Fate::Unknown,
            // Broken in any world.
            _ => return self.taken[m] = 2,
        };
        self.fates[m] = if self.fates[m] == Fate::None { reported } else { return self.taken[m] = 2 };
    }

    /// What a sender that crashes knew.
    fn forget(&mut self, queue: usize, later: usize) {
        let Value::Int(later) = self.nodes[0][later] else { return };
        let sent = 0..MESSAGES - later;
        for m in sent {
            if self.fates[m as usize] == Fate::None && !self.nodes[0][queue].as_set().contains(&single(m)) {
                self.fates[m as usize] = Fate::Forgotten;
            }
        }
    }
}

fn lines(statements: &[Statement]) -> Vec<usize> {
    let within = |statement: &Statement| match &statement.kind {
        Kind::If(_, then, other) => [lines(then), lines(other)].concat(),
        Kind::For(_, _, body) => lines(body),
        _ => Vec::new(),
    };
    statements.iter().flat_map(|statement| [vec![statement.line], within(statement)].concat()).collect()
}

fn fingerprint(world: &World) -> (u64, u64) {
    let half = |salt: u64| {
        let mut hasher = DefaultHasher::new();
        (salt, world).hash(&mut hasher);
        hasher.finish()
    };
    (half(1), half(2))
}
