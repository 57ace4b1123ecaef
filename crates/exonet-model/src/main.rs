//! `exonet-model`: searches the half-connection. See `exonet-model help`.

mod trial;

use std::fmt::{Debug, Display};
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Instant;

use exonet_model::exhaust::Found;
use exonet_model::{
    Bound, Config, Explored, Limits, MUTANTS, Mutant, Space, configs, explore, find_config, find_mutant,
    json, moving, scene_json, search, sql, streaming, summary, trace, walk, with_mutant,
};

const HELP: &str = "\
exonet-model: everything that can happen to a half-connection

  list                    the configurations, and what is in them
  mutants                 the mutants, the rules they take away, and where they are found
  run CONFIG [OPTIONS]    search one configuration
  quick [OPTIONS]         search all, within a minute
  deep [OPTIONS]          search all with larger bounds, within minutes and 6 GB
  walk CONFIG [OPTIONS]   random walks through one configuration
  matrix [OPTIONS]        every mutant in every configuration
  sql                     from one database to another: every state, and each rule taken away once
  move                    an identity that moves: the same
  stream [SCENE]          ordered streams: the same, or one scene; with --deep, larger scenes too
  core [MUTANT...]        the rules around the half-connection, each taken away once: the tests that die of it

Options:
  --deep              the larger bounds, for run, walk and stream
  --messages N        from A to B             --crashes N    of each node that crashes at all
  --limit N           numbers of each node    --evictions N  at each node that evicts at all
  --mutant NAME       with this rule taken away
  --exact             step by step from the start: slower, and the trace is as short as can be
  --max-states N      stop there; about 500 bytes each, and 2 KB for each of the nodes [6,000,000]
  --steps N           of walks, in all [200,000]
  --seed N            of walks [1]
  --json              one object for each configuration or scene
  --share K/N         core: of all in turn each N-th, from the K-th on; K may be any number
  --search            core: by every test until one fails, instead of the one that the list names

Exit status: 0 if nothing was found, 1 if something was, 2 if the question was wrong.";

/// The largest limit of a search: above it, memory is not accounted for.
const MOST_STATES: usize = 40_000_000;

/// Seconds between two lines about the progress of a long search.
const TELL_EVERY: u64 = 10;

struct Args {
    command: String,
    config: Option<String>,
    bound: Bound,
    messages: Option<u8>,
    limit: Option<u64>,
    crashes: Option<u8>,
    evictions: Option<u8>,
    mutant: Option<&'static Mutant>,
    exact: bool,
    limits: Limits,
    steps: u64,
    seed: u64,
    json: bool,
    /// The rules around the half-connection to try.
    core: trial::Choice,
}

fn main() -> ExitCode {
    match parse(std::env::args().skip(1)).and_then(|args| run(&args)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(what) => {
            eprintln!("exonet-model: {what}");
            ExitCode::from(2)
        }
    }
}

fn parse(args: impl Iterator<Item = String>) -> Result<Args, String> {
    let mut parsed = Args {
        command: String::new(),
        config: None,
        bound: Bound::Quick,
        messages: None,
        limit: None,
        crashes: None,
        evictions: None,
        mutant: None,
        exact: false,
        limits: Limits { states: 6_000_000, ..Limits::default() },
        steps: 200_000,
        seed: 1,
        json: false,
        core: trial::Choice::default(),
    };
    let mut args = args;
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
        match arg.as_str() {
            "--deep" => parsed.bound = Bound::Deep,
            "--exact" => parsed.exact = true,
            "--json" => parsed.json = true,
            "--search" => parsed.core.search = true,
            "--share" => parsed.core.share = Some(value()?.parse()?),
            "--messages" => parsed.messages = Some(number(&value()?)?),
            "--limit" => parsed.limit = Some(number(&value()?)?),
            "--crashes" => parsed.crashes = Some(number(&value()?)?),
            "--evictions" => parsed.evictions = Some(number(&value()?)?),
            "--steps" => parsed.steps = number(&value()?)?,
            "--seed" => parsed.seed = number(&value()?)?,
            "--max-states" => parsed.limits.states = number(&value()?)?,
            "--mutant" => {
                let name = value()?;
                parsed.mutant = Some(find_mutant(&name).ok_or_else(|| format!("no mutant {name}"))?);
            }
            "--help" | "-h" => parsed.command = "help".into(),
            flag if flag.starts_with('-') => return Err(format!("no option {flag}")),
            _ if parsed.command.is_empty() => parsed.command = arg,
            _ if parsed.command == "core" => parsed.core.names.push(arg),
            _ if parsed.config.is_none() => parsed.config = Some(arg),
            _ => return Err(format!("what is {arg}?")),
        }
    }
    if parsed.limits.states > MOST_STATES {
        return Err(format!("at most {MOST_STATES} states"));
    }
    if parsed.limit.is_some_and(|limit| limit > 60) {
        return Err("at most 60 numbers".into());
    }
    Ok(parsed)
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{text} is no number, or too large"))
}

/// Prints a line. An error if standard output is closed.
fn say(line: impl Display) -> Result<(), String> {
    writeln!(io::stdout(), "{line}").map_err(|e| format!("cannot write to standard output: {e}"))
}

/// True if nothing was found.
fn run(args: &Args) -> Result<bool, String> {
    match args.command.as_str() {
        "" | "help" => say(HELP)?,
        "list" => {
            for Config { name, about, .. } in configs(args.bound) {
                say(format_args!("{name:<16}{about}"))?;
            }
        }
        "mutants" => {
            for Mutant { name, rule, found_in, kinds, equivalent, .. } in MUTANTS {
                let found = if equivalent.is_empty() {
                    format!("{kinds} in {found_in}")
                } else {
                    "equivalent".into()
                };
                say(format_args!("{name:<28}{rule}\n{:<28}{found}", ""))?;
            }
        }
        "sql" => return databases(args),
        "move" => return moves(args),
        "stream" => return streams(args),
        "run" => return with_mutant(args.mutant, || Ok(one(args, chosen(args)?)? != End::Found)),
        "quick" => return all(args, configs(Bound::Quick), 2),
        "deep" => return all(args, configs(Bound::Deep), 1),
        "walk" => return walks(args),
        "matrix" => matrix(args)?,
        "core" => return trial::trial(&args.core),
        other => return Err(format!("no command {other}; see exonet-model help")),
    }
    Ok(true)
}

fn chosen(args: &Args) -> Result<Config, String> {
    let name = args.config.as_deref().ok_or("which configuration? see exonet-model list")?;
    let mut config = find_config(name, args.bound).ok_or_else(|| format!("no configuration {name}"))?;
    config.messages[0][1] = args.messages.unwrap_or(config.messages[0][1]);
    config.limit = args.limit.unwrap_or(config.limit);
    for (to, wanted) in [(&mut config.crashes, args.crashes), (&mut config.evictions, args.evictions)] {
        let some = to.iter_mut().filter(|n| **n > 0);
        some.for_each(|n| *n = wanted.unwrap_or(*n));
    }
    Ok(config)
}

/// How a search ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// The whole space was searched, and no violation was found.
    Complete,
    /// No violation was found, and a part of the space was not searched.
    Cut,
    /// A violation was found.
    Found,
}

fn one(args: &Args, config: Config) -> Result<End, String> {
    let name = config.name;
    let mut space = Space::new(config, 1);
    let began = Instant::now();
    let mut told = 0;
    let progress = |depth, states| {
        let seconds = began.elapsed().as_secs();
        if seconds >= told + TELL_EVERY {
            told = seconds;
            eprintln!("{name}: {depth} deep, {states} states, {seconds} s");
        }
    };
    let find = if args.exact { explore } else { search };
    let seen: Explored = find(&mut space, args.limits, &mut { progress });
    let seconds = began.elapsed().as_secs_f64();
    let line = if args.json { json(name, &seen, seconds) } else { summary(name, &seen, seconds) };
    let found = seen.finding.as_ref().map(|finding| trace(&mut space, finding));
    match found.filter(|_| !args.json) {
        Some(trace) => say(format_args!("{line}\n{trace}"))?,
        None => say(line)?,
    }
    Ok(match (seen.finding, seen.complete) {
        (Some(_), _) => End::Found,
        (None, true) => End::Complete,
        (None, false) => End::Cut,
    })
}

/// Outbox and inbox in databases. True if the rules hold, and each of them is needed.
fn databases(args: &Args) -> Result<bool, String> {
    rules(args, &sql::SCENES.map(|scene| (scene.name, scene)), &sql::RULES, sql::search)
}

/// An identity that moves. True as above.
fn moves(args: &Args) -> Result<bool, String> {
    rules(args, &moving::SCENES.map(|scene| (scene.name, scene)), &moving::RULES, moving::search)
}

/// Ordered streams. True as above. Each rule is taken away in the scenes that its list names.
fn streams(args: &Args) -> Result<bool, String> {
    let deep: &[_] = if args.bound == Bound::Deep { &streaming::DEEP } else { &[] };
    let only = args.config.as_deref();
    let all = streaming::SCENES.iter().chain(if only.is_some() { &streaming::DEEP } else { deep });
    let scenes: Vec<_> = all.filter(|scene| only.is_none_or(|name| scene.name == name)).collect();
    if scenes.is_empty() {
        let known = streaming::SCENES.iter().chain(&streaming::DEEP).map(|scene| scene.name);
        let known: Vec<_> = known.collect();
        return Err(format!("no scene {}; there are: {}", only.unwrap_or_default(), known.join(", ")));
    }
    let named: Vec<_> = scenes.iter().map(|scene| (scene.name, **scene)).collect();
    let mut good = rules(args, &named, &[], streaming::search)?;
    for rule in streaming::rules().into_iter().filter(|_| only.is_none()) {
        let places: Vec<_> = named.iter().filter(|(name, _)| rule.is_found_in(name)).copied().collect();
        good &= rules_away(args, &places, rule, streaming::search)?;
    }
    Ok(good)
}

/// Searches each scene, and then searches without each of the rules until a scene shows that it is missing.
fn rules<S, R: Copy + Debug>(
    args: &Args,
    scenes: &[(&str, S)],
    rules: &[R],
    search: fn(&S, Option<R>) -> Found,
) -> Result<bool, String> {
    let mut good = true;
    for (name, scene) in scenes {
        let found = search(scene, None);
        good &= matches!(found, Found::Nothing { .. });
        if args.json {
            say(scene_json(name, None, &found))?;
            continue;
        }
        say(format_args!("{name:<20}{found}"))?;
        if let Found::Broken { steps, .. } | Found::Stuck { steps, .. } = found {
            steps.iter().try_for_each(|step| say(format_args!("  {step}")))?;
        }
    }
    for rule in rules {
        good &= rules_away(args, scenes, *rule, search)?;
    }
    Ok(good)
}

/// Searches the scenes without a rule until one shows that it is missing. True if one does.
fn rules_away<S, R: Copy + Debug>(
    args: &Args,
    scenes: &[(&str, S)],
    rule: R,
    search: fn(&S, Option<R>) -> Found,
) -> Result<bool, String> {
    let named = format!("{rule:?}");
    for (name, scene) in scenes {
        let found = search(scene, Some(rule));
        if args.json {
            say(scene_json(name, Some(&named), &found))?;
        } else if found.is_noticed() {
            say(format_args!("without {named:<36}{name:<20}{found}"))?;
        }
        if found.is_noticed() {
            return Ok(true);
        }
    }
    if !args.json {
        say(format_args!("without {named} nothing is found"))?;
    }
    Ok(false)
}

/// Searches several configurations, some at a time. True if nothing was found.
fn all(args: &Args, configs: Vec<Config>, at_once: usize) -> Result<bool, String> {
    let left = Mutex::new((configs.into_iter(), Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                loop {
                    let next = left.lock().ok().and_then(|mut left| left.0.next());
                    let Some(config) = next else { break };
                    let end = with_mutant(args.mutant, || one(args, config));
                    if let Ok(mut left) = left.lock() {
                        left.1.push(end);
                    }
                }
            });
        }
    });
    let (_, ends) = left.into_inner().map_err(|_| "a search broke down")?;
    let ends = ends.into_iter().collect::<Result<Vec<End>, String>>()?;
    let count = |end| ends.iter().filter(|other| **other == end).count();
    if !args.json {
        let (complete, cut, found) = (count(End::Complete), count(End::Cut), count(End::Found));
        say(format_args!("{complete} searched completely, {cut} cut, {found} with a violation"))?;
    }
    Ok(count(End::Found) == 0)
}

fn walks(args: &Args) -> Result<bool, String> {
    let mut space = Space::new(chosen(args)?, 0);
    let walked = with_mutant(args.mutant, || walk(&mut space, args.seed, args.steps));
    let (name, steps, walks) = (space.config.name, walked.steps, walked.walks);
    say(format_args!("{name}: {steps} steps in {walks} walks, seed {}", args.seed))?;
    let Some(finding) = &walked.finding else { return Ok(true) };
    say(with_mutant(args.mutant, || trace(&mut space, finding)).trim_end())?;
    Ok(false)
}

fn matrix(args: &Args) -> Result<(), String> {
    for mutant in MUTANTS.iter().filter(|mutant| args.mutant.is_none_or(|only| only.id == mutant.id)) {
        let found = configs(args.bound).into_iter().filter_map(|config| {
            let name = config.name;
            let began = Instant::now();
            let seen =
                with_mutant(Some(mutant), || search(&mut Space::new(config, 1), args.limits, &mut |_, _| {}));
            let took = began.elapsed().as_secs_f64();
            let finding = seen.finding.map(|finding| finding.violation.kind.to_string());
            let cut = (finding.is_none() && !seen.complete).then(|| "cut".to_string());
            finding.or(cut).map(|what| format!("{name}:{what}:{}:{took:.1}", seen.depth))
        });
        say(format_args!("{} {}", mutant.name, found.collect::<Vec<_>>().join(" ")))?;
    }
    Ok(())
}
