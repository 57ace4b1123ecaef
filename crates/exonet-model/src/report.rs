//! Findings and figures as text.

use std::fmt::Write;

use crate::exhaust::Found;
use crate::explore::{Explored, Finding};
use crate::space::Space;

/// The way to a violation: one line for each step, with the node that it changes as it is afterwards.
///
/// Datagrams that a timer could send are in the network without a step of their own.
pub fn trace(space: &mut Space, finding: &Finding) -> String {
    let mut text = String::new();
    let mut state = space.initial();
    for (number, step) in (1..).zip(&finding.steps) {
        let _ = writeln!(text, "{number:>3}. {}", space.describe(*step));
        let reached = state.and_then(|state| {
            let mut steps = Vec::new();
            space.steps(&state, &mut steps);
            let taken = steps.into_iter().find(|(other, _)| other == step);
            taken.map_or(Ok(state), |(_, reached)| reached)
        });
        if let Ok(reached) = &reached {
            let place = space.place(*step);
            let node = &space.world(reached).nodes[place];
            let _ = writeln!(text, "     {}: {node}", crate::datagram::name(place));
        }
        state = reached.and_then(|reached| space.settle(reached));
    }
    let _ = writeln!(text, "  => {}", finding.violation);
    text
}

/// One line of a table.
pub fn summary(name: &str, seen: &Explored, seconds: f64) -> String {
    let end = match &seen.finding {
        Some(finding) => format!("VIOLATION {}", finding.violation),
        None if seen.complete => "complete".into(),
        None => "cut".into(),
    };
    let Explored { states, nodes, transitions, depth, datagrams, .. } = seen;
    format!(
        "{name:<15}{states:>10} states {nodes:>9} of nodes {transitions:>11} steps {depth:>3} deep \
         {datagrams:>4} datagrams {seconds:>6.1} s  {end}"
    )
}

/// The same as JSON.
pub fn json(name: &str, seen: &Explored, seconds: f64) -> String {
    let Explored { states, nodes, rests, transitions, depth, datagrams, complete, finding } = seen;
    let violation = finding.as_ref().map_or("null".into(), |finding| quote(&finding.violation.to_string()));
    format!(
        "{{\"config\":{},\"states\":{states},\"nodes\":{nodes},\"rests\":{rests},\"transitions\":{transitions},\
         \"depth\":{depth},\"datagrams\":{datagrams},\"complete\":{complete},\"seconds\":{seconds:.1},\
         \"violation\":{violation}}}",
        quote(name)
    )
}

/// The end of a search of one scene as JSON, without one of the rules if that is named.
pub fn scene_json(scene: &str, without: Option<&str>, found: &Found) -> String {
    let (end, states, what, steps) = match found {
        Found::Nothing { states } => ("nothing", Some(*states), None, &[][..]),
        Found::Broken { what, steps } => ("broken", None, Some(*what), &steps[..]),
        Found::Stuck { states, steps } => ("stuck", Some(*states), None, &steps[..]),
        Found::Cut => ("cut", None, None, &[][..]),
    };
    let text = |text: Option<&str>| text.map_or("null".into(), quote);
    let states = states.map_or("null".into(), |states| states.to_string());
    let steps: Vec<_> = steps.iter().map(|step| quote(step)).collect();
    format!(
        "{{\"scene\":{},\"without\":{},\"end\":{},\"states\":{states},\"violation\":{},\"steps\":[{}]}}",
        quote(scene),
        text(without),
        quote(end),
        text(what),
        steps.join(",")
    )
}

fn quote(text: &str) -> String {
    let mut quoted = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => quoted.push(' '),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_search_is_one_object() {
        let broken = Found::Broken { what: "out of \"order\"", steps: vec!["send".into(), "lose".into()] };
        assert_eq!(
            scene_json("ends", Some("Late"), &broken),
            r#"{"scene":"ends","without":"Late","end":"broken","states":null,"violation":"out of \"order\"","steps":["send","lose"]}"#
        );
        assert_eq!(
            scene_json("ends", None, &Found::Nothing { states: 7 }),
            r#"{"scene":"ends","without":null,"end":"nothing","states":7,"violation":null,"steps":[]}"#
        );
    }
}
