//! What runs the rules of PROTOCOL.md.

use super::language::{Expr, Function, Kind, Op, Rule, Statement};

/// What a set holds: up to three numbers, `PAD` behind them.
pub type Tuple = [i8; 3];

/// No number of a world is so small.
const PAD: i8 = i8::MIN;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Value {
    None,
    Int(i8),
    /// In rising order.
    Set(Vec<Tuple>),
}

pub const fn single(x: i8) -> Tuple {
    [x, PAD, PAD]
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Frame {
    pub name: String,
    pub args: Vec<Value>,
}

/// What a step does beyond its node.
#[derive(Clone, Debug)]
pub enum Effect {
    Send(Frame),
    Deliver(i8),
    Report(i8, String),
}

/// What the node decides in a step: every combination comes once.
#[derive(Debug, Default)]
pub struct Choices {
    /// Which of how many.
    taken: Vec<(usize, usize)>,
    next: usize,
}

impl Choices {
    fn choose(&mut self, of: &[i8]) -> i8 {
        if self.next == self.taken.len() {
            self.taken.push((0, of.len()));
        }
        self.next += 1;
        of[self.taken[self.next - 1].0]
    }

    /// Whether there is a further combination.
    pub fn advance(&mut self) -> bool {
        self.next = 0;
        while let Some((which, of)) = self.taken.pop() {
            if which + 1 < of {
                self.taken.push((which + 1, of));
                return true;
            }
        }
        false
    }
}

/// A run of one rule.
pub struct Run<'a> {
    pub rules: &'a [Rule],
    /// The variables of the node, then those of the rule.
    pub values: &'a mut Vec<Value>,
    /// How many are the node's.
    pub kept: usize,
    pub choices: &'a mut Choices,
    /// What a choice ranges over.
    pub domain: &'a dyn Fn(&str) -> &'a [i8],
    pub effects: &'a mut Vec<Effect>,
    /// The lines that ever ran.
    pub ran: &'a mut Vec<bool>,
}

impl Run<'_> {
    /// Whether the rule's guard holds; then it has run.
    pub fn rule(&mut self, rule: &Rule, names: usize, args: &[Value]) -> bool {
        self.values.truncate(self.kept);
        self.values.resize(names, Value::None);
        for (place, value) in rule.params.iter().zip(args) {
            self.values[*place] = value.clone();
        }
        let holds = rule.guard.as_ref().is_none_or(|guard| self.eval(guard).is_true());
        if holds {
            self.block(&rule.body);
        }
        self.values.truncate(self.kept);
        holds
    }

    /// False once the rule has stopped.
    fn block(&mut self, statements: &[Statement]) -> bool {
        statements.iter().all(|statement| {
            self.ran[statement.line] = true;
            self.statement(&statement.kind)
        })
    }

    fn statement(&mut self, kind: &Kind) -> bool {
        match kind {
            Kind::Assign(place, value) => self.values[*place] = self.eval(value),
            Kind::New(record, fields) => self.record(Value::Int(1), *record, fields),
            Kind::Forget(record, fields) => self.record(Value::None, *record, fields),
            Kind::If(condition, then, other) => {
                return if self.eval(condition).is_true() { self.block(then) } else { self.block(other) };
            }
            Kind::For(pattern, set, body) => {
                for tuple in self.eval(set).into_set() {
                    for (place, part) in pattern.iter().zip(tuple) {
                        self.values[*place] = Value::Int(part);
                    }
                    if !self.block(body) {
                        return false;
                    }
                }
            }
            Kind::Choose(place, name) => {
                self.values[*place] = Value::Int(self.choices.choose((self.domain)(name)));
            }
            Kind::Add(tuple, set) => {
                let tuple = self.tuple(tuple);
                let set = self.values[*set].as_set_mut();
                if let Err(at) = set.binary_search(&tuple) {
                    set.insert(at, tuple);
                }
            }
            Kind::Remove(tuple, set) => {
                let tuple = self.tuple(tuple);
                self.values[*set].as_set_mut().retain(|other| *other != tuple);
            }
            Kind::Send(name, args) => {
                let args = args.iter().map(|arg| self.eval(arg)).collect();
                self.effects.push(Effect::Send(Frame { name: name.clone(), args }));
            }
            Kind::Deliver(message) => {
                let message = self.eval(message).int();
                self.effects.push(Effect::Deliver(message));
            }
            Kind::Report(message, outcome) => {
                let message = self.eval(message).int();
                self.effects.push(Effect::Report(message, outcome.clone()));
            }
            Kind::Do(name) => self.inner(name),
            Kind::Owe => {}
            Kind::Stop => return false,
        }
        true
    }

    /// An event within a rule, which has no names of its own.
    fn inner(&mut self, name: &str) {
        let rule = self.rules.iter().find(|rule| rule.name == name).unwrap();
        if rule.guard.as_ref().is_none_or(|guard| self.eval(guard).is_true()) {
            self.block(&rule.body);
        }
    }

    fn record(&mut self, value: Value, record: usize, fields: &[usize]) {
        self.values[record] = value;
        fields.iter().for_each(|field| self.values[*field] = Value::None);
    }

    fn tuple(&self, parts: &[Expr]) -> Tuple {
        let mut tuple = single(PAD);
        tuple.iter_mut().zip(parts).for_each(|(to, part)| *to = self.eval(part).int());
        tuple
    }

    fn eval(&self, expr: &Expr) -> Value {
        match expr {
            Expr::None => Value::None,
            Expr::Empty => Value::Set(Vec::new()),
            Expr::Number(number) => Value::Int(*number),
            Expr::Name(place) => self.values[*place].clone(),
            Expr::Not(inner) => truth(!self.eval(inner).is_true()),
            Expr::Binary(Op::And, left, right) => {
                truth(self.eval(left).is_true() && self.eval(right).is_true())
            }
            Expr::Binary(Op::Or, left, right) => {
                truth(self.eval(left).is_true() || self.eval(right).is_true())
            }
            Expr::Binary(op, left, right) => binary(*op, self.eval(left), self.eval(right)),
            Expr::Call(function, args) => call(*function, args.iter().map(|arg| self.eval(arg))),
        }
    }
}

impl Value {
    fn is_true(&self) -> bool {
        matches!(self, Self::Int(1..))
    }

    /// A tuple of numbers must not hold `none`: `PAD` shows it.
    fn int(&self) -> i8 {
        if let Self::Int(x) = self { *x } else { PAD }
    }

    pub fn into_set(self) -> Vec<Tuple> {
        if let Self::Set(set) = self { set } else { Vec::new() }
    }

    pub fn as_set(&self) -> &[Tuple] {
        if let Self::Set(set) = self { set } else { &[] }
    }

    fn as_set_mut(&mut self) -> &mut Vec<Tuple> {
        if !matches!(self, Self::Set(_)) {
            *self = Self::Set(Vec::new());
        }
        let Self::Set(set) = self else { unreachable!() };
        set
    }
}

fn truth(holds: bool) -> Value {
    Value::Int(i8::from(holds))
}

fn binary(op: Op, left: Value, right: Value) -> Value {
    use Value::{Int, Set};
    match (op, left, right) {
        (Op::Equal, left, right) => truth(left == right),
        (Op::Differs, left, right) => truth(left != right),
        (Op::Less, Int(x), Int(y)) => truth(x < y),
        (Op::AtMost, Int(x), Int(y)) => truth(x <= y),
        (Op::In, Int(x), Set(set)) => truth(set.binary_search(&single(x)).is_ok()),
        (Op::Plus, Int(x), Int(y)) => Int(x.saturating_add(y)),
        (Op::Minus, Int(x), Int(y)) => Int(x.saturating_sub(y)),
        (Op::Range, Int(x), Int(y)) => Set((x..y).map(single).collect()),
        (Op::Plus, Set(mut left), Set(right)) => {
            left.extend(right);
            left.sort_unstable();
            left.dedup();
            Set(left)
        }
        (Op::Minus, Set(left), Set(right)) => Set(left.into_iter().filter(|x| !right.contains(x)).collect()),
        // A comparison with `none` is false; nothing can be added to it.
        (Op::Less | Op::AtMost | Op::In, ..) => truth(false),
        _ => Value::None,
    }
}

fn call(function: Function, mut args: impl Iterator<Item = Value>) -> Value {
    let of_all = |pick: fn(i8, i8) -> i8, args: &mut dyn Iterator<Item = Value>| {
        let numbers = args.filter_map(|arg| if let Value::Int(x) = arg { Some(x) } else { None });
        numbers.reduce(pick).map_or(Value::None, Value::Int)
    };
    match function {
        Function::Min => of_all(i8::min, &mut args),
        Function::Max => of_all(i8::max, &mut args),
        Function::Size => Value::Int(args.map(|set| set.as_set().len() as i8).sum()),
        Function::Least => {
            let least = args.next().and_then(|set| set.as_set().first().map(|tuple| tuple[0]));
            least.map_or(Value::None, Value::Int)
        }
    }
}
