//! Mutation schemata: a copy of the half-connection in which each mutant is a branch, chosen when it runs.
//!
//! The list is text. A mutant is a run of lines `key: value`, begun by `mutant: NAME`:
//!
//! * `rule`: the rule that it removes, in one line; `from`: where that rule is written.
//! * `found in`: the configurations whose quick search finds it; `as`: the kinds of violation that it shows there.
//! * or `equivalent`: why no search can find it.
//! * `edit: ITEM`, then the original between `<<<` and `===`, and its replacement up to `>>>`. There may be several edits.
//!   Without an edit, the site is in the model's own `world`, which calls the half-connection as a node does.
//!
//! An item is a function, a constant or a type: `Type::function`, or its name if it belongs to no type. It may be in any
//! file. The original is compared token by token, without comments, so the list stays valid when code moves or is
//! formatted anew. If a part of the original is in « », only that part is replaced. The original has to occur exactly
//! once in the item, so a list that no longer fits the code does not build.
//!
//! The list of the rules around the half-connection has the same form. There `found in` is a binary of tests, and `as`
//! is the function that fails, in any module.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::source::Source;

/// The files of the half-connection, the one that declares the others first.
pub const FILES: &[&str] = &[
    "mod.rs",
    "clock.rs",
    "early.rs",
    "interval.rs",
    "order.rs",
    "receiver.rs",
    "sender.rs",
    "stamps.rs",
    "tokens.rs",
    "voids.rs",
];

/// What a node holds of calls, relative to the core's `pattern`.
pub const CALLS: &[&str] = &["call/caller.rs", "call/server.rs"];

/// The files of the core but its tests, by path.
#[allow(dead_code)] // in the build script
pub fn core_sources(folder: &Path) -> Result<Vec<(PathBuf, String)>, String> {
    let wrong = |e: std::io::Error| format!("{}: {e}", folder.display());
    let mut paths: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(folder).map_err(wrong)? {
        paths.push(entry.map_err(wrong)?.path());
    }
    paths.sort();
    let mut files = Vec::new();
    for path in paths.into_iter().filter(|path| path.file_stem().is_none_or(|name| name != "tests")) {
        if path.is_dir() {
            files.extend(core_sources(&path)?);
        } else if path.extension().is_some_and(|kind| kind == "rs") {
            let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
            files.push((path, text));
        }
    }
    Ok(files)
}

/// One replacement of one mutant.
#[derive(Clone, Debug)]
pub struct Edit {
    /// The item that it is in.
    pub item: String,
    /// The code as it is.
    pub original: String,
    /// The code of the mutant.
    pub replacement: String,
}

/// One entry of the list.
#[derive(Clone, Debug, Default)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// The rule that it takes away.
    pub rule: String,
    /// Where the rule is written.
    pub from: String,
    /// The configurations that find it.
    pub found_in: String,
    /// The kinds of violation.
    pub kinds: String,
    /// Why nothing can find it; empty if something does.
    pub equivalent: String,
    /// Its sites in the half-connection; none if the site is in the model's caller.
    pub edits: Vec<Edit>,
}

/// Reads the list.
pub fn parse(list: &str) -> Result<Vec<Entry>, String> {
    let mut entries: Vec<Entry> = Vec::new();
    let mut lines = list.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let at = |what: &str| format!("line {}: {what}", number + 1);
        let (key, value) = line.split_once(": ").ok_or_else(|| at("no key"))?;
        let value = value.trim().to_string();
        if key == "mutant" {
            entries.push(Entry { name: value, ..Entry::default() });
            continue;
        }
        let entry = entries.last_mut().ok_or_else(|| at("no mutant yet"))?;
        match key {
            "rule" => entry.rule = value,
            "from" => entry.from = value,
            "found in" => entry.found_in = value,
            "as" => entry.kinds = value,
            "equivalent" => entry.equivalent = value,
            "edit" => {
                let mut block = |end: &str| -> Result<String, String> {
                    let mut text = Vec::new();
                    loop {
                        let (_, line) = lines.next().ok_or_else(|| at("the edit does not end"))?;
                        if line == end {
                            return Ok(text.join("\n"));
                        }
                        text.push(line);
                    }
                };
                block("<<<")?;
                entry.edits.push(Edit { item: value, original: block("===")?, replacement: block(">>>")? });
            }
            _ => return Err(at("unknown key")),
        }
    }
    entries.iter().try_for_each(complete)?;
    Ok(entries)
}

fn complete(entry: &Entry) -> Result<(), String> {
    let found = !entry.found_in.is_empty() && !entry.kinds.is_empty();
    if entry.rule.is_empty() || entry.from.is_empty() || found != entry.equivalent.is_empty() {
        return Err(format!("{}: a rule, its source, and either where it is found or why not", entry.name));
    }
    Ok(())
}

/// The copy of [`FILES`], planted, as one file: a module `half` with all its parts. Tests are left out.
pub fn half(planted: &[(&str, String)]) -> Result<String, String> {
    let (_, whole) = planted.first().ok_or("no files")?;
    let mut whole = whole.clone();
    for (name, text) in planted.get(1..).unwrap_or_default() {
        let module = name.trim_end_matches(".rs");
        let declared = format!("\nmod {module};\n");
        if whole.matches(&declared).count() != 1 {
            return Err(format!("mod.rs does not declare {module}"));
        }
        whole = whole.replacen(&declared, &format!("\nmod {module} {{\n{text}}}\n"), 1);
    }
    // Of the tests nothing is needed here; `any()` of nothing is false.
    Ok(format!("pub mod half {{\n{}}}\n", whole.replace("#[cfg(test)]", "#[cfg(any())]")))
}

/// Makes one file of the planted copy of [`CALLS`]. Items that are private to a node become visible to the whole model;
/// nothing else changes.
pub fn calls(planted: &[(&str, String)]) -> String {
    let mut whole = String::from("pub mod calls {\nuse core::time::Duration;\n");
    for backoff in ["MAX_BACKOFF", "COMPUTING_BACKOFF"] {
        whole.push_str(&format!("const {backoff}: Duration = Duration::from_secs(1);\n"));
    }
    for (path, text) in planted {
        let module = path.trim_start_matches("call/").trim_end_matches(".rs");
        let text = text.replace("#[cfg(test)]", "#[cfg(any())]");
        let text = text.replace("pub(super)", "pub(crate)");
        whole.push_str(&format!("pub mod {module} {{\n{text}}}\n"));
    }
    format!("{whole}}}\n")
}

/// Where a text is, and what mutants have in its place.
type Site<'a> = (Range<usize>, Vec<(usize, &'a str)>);

/// These files, by name and text, in which the site of mutant `n` (from 1 on) reads `if crate::mutant::active(n) {
/// replacement } else { original }`. Edits of several mutants may replace the very same text, but not overlap otherwise.
pub fn plant<N: Clone>(files: &[(N, String)], mutants: &[Entry]) -> Result<Vec<(N, String)>, String> {
    let sources: Vec<Source<'_>> = files.iter().map(|(_, text)| Source::new(text)).collect();
    let mut sites: Vec<Vec<Site<'_>>> = files.iter().map(|_| Vec::new()).collect();
    // All that do not fit, for a change that moves much.
    let mut misfits = Vec::new();
    for (id, mutant) in (1..).zip(mutants) {
        for edit in &mutant.edits {
            let within = |(file, source): (usize, &Source<'_>)| {
                source.find(&edit.item, &edit.original).into_iter().map(move |at| (file, at))
            };
            let found: Vec<_> = sources.iter().enumerate().flat_map(within).collect();
            let [(file, at)] = found.as_slice() else {
                let (name, times) = (&mutant.name, found.len());
                misfits.push(format!("{name}: {times} times in {}, not once: {}", edit.item, edit.original));
                continue;
            };
            if files.get(*file).is_some_and(|(_, text)| is_const(text, &edit.item, at.start)) {
                misfits.push(format!("{}: {} is a const fn, which cannot ask", mutant.name, edit.item));
                continue;
            }
            let Some(sites) = sites.get_mut(*file) else { continue };
            match sites.iter_mut().find(|(place, _)| place == at) {
                Some((_, branches)) => branches.push((id, &edit.replacement)),
                None => sites.push((at.clone(), vec![(id, &edit.replacement)])),
            }
        }
    }
    if !misfits.is_empty() {
        return Err(misfits.join("\n"));
    }
    let planted =
        files.iter().zip(&mut sites).map(|((name, text), sites)| Ok((name.clone(), branch(text, sites)?)));
    planted.collect()
}

/// Whether the item around a site is a function that is evaluated when it is compiled: no branch of it can be chosen later.
fn is_const(text: &str, item: &str, site: usize) -> bool {
    let name = item.rsplit("::").next().unwrap_or(item);
    let before = text.get(..site).unwrap_or_default();
    before
        .rfind(&format!("fn {name}"))
        .and_then(|at| before.get(..at))
        .is_some_and(|it| it.ends_with("const "))
}

/// A text with its sites.
fn branch(text: &str, sites: &mut [Site<'_>]) -> Result<String, String> {
    sites.sort_by_key(|(at, _)| at.start);
    let (mut planted, mut done) = (String::new(), 0);
    for (at, branches) in sites.iter() {
        let parts = text.get(done..at.start).zip(text.get(at.clone()));
        let (before, original) = parts.ok_or_else(|| format!("edits overlap: {:?}", text.get(at.clone())))?;
        planted.push_str(before);
        planted.push_str(&site(original, branches));
        done = at.end;
    }
    planted.push_str(text.get(done..).unwrap_or_default());
    Ok(planted)
}

/// A statement stays a statement, an expression an expression.
fn site(original: &str, branches: &[(usize, &str)]) -> String {
    let mut text = String::new();
    for (id, replacement) in branches {
        text.push_str(&format!("if crate::mutant::active({id}) {{ {replacement} }} else "));
    }
    text.push_str(&format!("{{ {original} }}"));
    if original.trim_end().ends_with([';', '}']) { text } else { format!("({text})") }
}

/// The tables of the mutants, where those of streams begin with the one at `streams`, and a name for each site that the model's caller has.
pub fn table(mutants: &[Entry], streams: usize) -> String {
    let mut list =
        String::from("/// The mutants, in the order of their list.\npub const LIST: &[Mutant] = &[\n");
    let of_streams = "/// Those of streams.\npub const STREAMS: &[Mutant] = &[\n";
    let mut sites = String::from("/// The mutants of the caller.\npub(crate) mod site {\n");
    for (id, mutant) in (1_u16..).zip(mutants) {
        let Entry { name, rule, from, found_in, kinds, equivalent, edits } = mutant;
        if usize::from(id) == streams + 1 {
            list.push_str("];\n\n");
            list.push_str(of_streams);
        }
        list.push_str(&format!(
            "    Mutant {{ id: {id}, name: {name:?}, rule: {rule:?}, from: {from:?}, found_in: {found_in:?}, \
             kinds: {kinds:?}, equivalent: {equivalent:?} }},\n"
        ));
        if edits.is_empty() {
            let name = name.to_uppercase().replace('-', "_");
            sites.push_str(&format!("    pub(crate) const {name}: u16 = {id};\n"));
        }
    }
    format!("{list}];\n\n{sites}}}\n")
}
