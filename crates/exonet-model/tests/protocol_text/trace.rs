//! The traces of PROTOCOL.md: its rules, played in the order of the page.

use super::language::{Expr, Program};
use super::run::{Choices, Effect, Run, Value, single};

/// Numbers that a trace does not come to the end of.
const CONSTANTS: &[(&str, i8)] = &[("block", 10), ("last", 100), ("N", 0)];

/// The lines of the block `exo trace NAME`, without their comments, and what they should be: each `role rule(arguments), choice =
/// value -> effects`. The application has sent the messages 0 and 1.
pub fn play(page: &str, name: &str) -> (Vec<String>, Vec<String>) {
    let (_, block) = page.split_once(&format!("```exo trace {name}\n")).unwrap();
    let (block, _) = block.split_once("```").unwrap();
    let lines: Vec<_> = block.lines().map(|line| line.split('#').next().unwrap().trim().to_owned()).collect();
    let roles = ["sender", "receiver"].map(|role| Program::read(page, role, CONSTANTS).unwrap());
    let mut nodes = [0, 1].map(|role| first(&roles[role]));
    nodes[0][roles[0].place("queue")] = Value::Set(vec![single(0), single(1)]);
    let played = lines.iter().map(|line| step(line, &roles, &mut nodes)).collect();
    (lines, played)
}

fn first(program: &Program) -> Vec<Value> {
    let of = |value: &Option<Expr>| match value {
        Some(Expr::Number(x)) => Value::Int(*x),
        Some(Expr::Empty) => Value::Set(Vec::new()),
        _ => Value::None,
    };
    program.state.iter().map(|(_, value)| of(value)).collect()
}

/// Runs the rule of a line, and writes the line with what it has done.
fn step(line: &str, roles: &[Program; 2], nodes: &mut [Vec<Value>; 2]) -> String {
    let act = line.split(" -> ").next().unwrap();
    let (role, call) = act.split_once(' ').unwrap();
    let role = usize::from(role == "receiver");
    let name = call.split(['(', ',']).next().unwrap();
    let (args, choices) = match call.split_once('(') {
        Some((_, rest)) => rest.rsplit_once(')').unwrap(),
        None => ("", &call[name.len()..]),
    };
    let choices: Vec<_> = choices
        .split(',')
        .filter_map(|choice| choice.split_once(" = "))
        .map(|(name, value)| (name.trim(), [value.trim().parse().unwrap()]))
        .collect();
    let program = &roles[role];
    let rule =
        program.rules.iter().find(|rule| rule.name == name).unwrap_or_else(|| panic!("no rule: {line}"));
    let domain = |name: &str| {
        let chosen = choices.iter().find(|(known, _)| *known == name);
        chosen.map_or(&[0][..], |(_, value)| &value[..])
    };
    let mut effects = Vec::new();
    let mut run = Run {
        rules: &program.rules,
        values: &mut nodes[role],
        kept: program.state.len(),
        choices: &mut Choices::default(),
        domain: &domain,
        effects: &mut effects,
        ran: &mut vec![false; 10_000],
    };
    assert!(run.rule(rule, program.names, &values(args)), "its guard does not hold: {line}");
    let effects: Vec<_> = effects.iter().map(say).collect();
    if effects.is_empty() { act.to_owned() } else { format!("{act} -> {}", effects.join("; ")) }
}

/// Arguments: numbers, `none`, and sets of numbers.
fn values(text: &str) -> Vec<Value> {
    let (mut values, mut set) = (Vec::new(), None::<Vec<_>>);
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let bare = part.trim_matches(['{', '}']);
        if part.starts_with('{') {
            set = Some(Vec::new());
        }
        match (&mut set, bare) {
            (Some(set), bare) => set.extend(bare.parse().ok().map(single)),
            (None, "none") => values.push(Value::None),
            (None, bare) => values.push(Value::Int(bare.parse().unwrap())),
        }
        if part.ends_with('}') {
            values.extend(set.take().map(Value::Set));
        }
    }
    values
}

fn say(effect: &Effect) -> String {
    let value = |value: &Value| match value {
        Value::None => "none".to_owned(),
        Value::Int(x) => x.to_string(),
        Value::Set(set) => {
            let numbers: Vec<_> = set.iter().map(|tuple| tuple[0].to_string()).collect();
            format!("{{{}}}", numbers.join(", "))
        }
    };
    match effect {
        Effect::Send(frame) => {
            let args: Vec<_> = frame.args.iter().map(value).collect();
            format!("{}({})", frame.name, args.join(", "))
        }
        Effect::Deliver(m) => format!("deliver {m}"),
        Effect::Report(m, outcome) => format!("report {m} {outcome}"),
    }
}
