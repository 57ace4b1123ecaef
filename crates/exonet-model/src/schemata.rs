//! Mutation schemata: a copy of the half-connection in which each mutant is a branch, chosen when it runs.
//!
//! The list is text. A mutant is a run of lines `key: value`, begun by `mutant: NAME`:
//!
//! * `rule`: what it takes away, in one line; `from`: where that rule is written.
//! * `found in`: the configurations whose quick search finds it; `as`: the kinds of violation it shows there.
//! * or `equivalent`: why no search can find it.
//! * `edit: FILE`, then the original between `<<<` and `===`, and what replaces it, up to `>>>`; any number of them.
//!   Without an edit, the site is in the model's own `world`, which calls the half-connection as a node does.
//!
//! Of an original with a part in « », only that part is replaced, and the rest says where. The original has to occur
//! exactly once, so a list that no longer fits the code does not build.
//!
//! The list of the rules around the half-connection has the same form. There `found in` is a binary of tests, and `as`
//! the test that fails.

/// The files of the half-connection, the one that declares the others first.
pub const FILES: &[&str] =
    &["mod.rs", "clock.rs", "early.rs", "interval.rs", "receiver.rs", "sender.rs", "stamps.rs", "tokens.rs"];

/// What a node holds of calls, relative to the core's `node`.
pub const CALLS: &[&str] = &["calls/caller.rs", "calls/server.rs"];

/// One replacement of one mutant.
#[derive(Clone, Debug)]
pub struct Edit {
    /// The file, of [`FILES`] or [`CALLS`].
    pub file: String,
    /// What is there.
    pub original: String,
    /// What the mutant has instead.
    pub replacement: String,
}

impl Edit {
    /// What stands before the part that is replaced, that part, and the whole original.
    fn place(&self) -> (&str, &str, String) {
        let marked = self.original.split_once('«');
        let parts = marked.and_then(|(before, rest)| Some((before, rest.split_once('»')?)));
        match parts {
            Some((before, (part, after))) => (before, part, format!("{before}{part}{after}")),
            None => ("", &self.original, self.original.clone()),
        }
    }
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
                entry.edits.push(Edit { file: value, original: block("===")?, replacement: block(">>>")? });
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

/// The copy, as one file: a module `half` with all its parts, in which the site of mutant `n` (from 1 on) reads `if
/// crate::mutant::active(n) { replacement } else { original }`. Tests are left out.
pub fn plant(files: &[(&str, String)], mutants: &[Entry]) -> Result<String, String> {
    let mut parts = Vec::new();
    for (name, source) in files {
        parts.push((*name, plant_file(name, source, mutants)?));
    }
    let (_, mut whole) = parts.remove(0);
    for (name, text) in &parts {
        let module = name.trim_end_matches(".rs");
        let declared = format!("\nmod {module};\n");
        if whole.matches(&declared).count() != 1 {
            return Err(format!("mod.rs does not declare {module}"));
        }
        whole = whole.replacen(&declared, &format!("\nmod {module} {{\n{text}}}\n"), 1);
    }
    let unknown =
        |edit: &&Edit| !files.iter().map(|(name, _)| name).chain(CALLS).any(|name| *name == edit.file);
    if let Some(orphan) = mutants.iter().flat_map(|mutant| &mutant.edits).find(unknown) {
        return Err(format!("no file {}", orphan.file));
    }
    // Of the tests nothing is needed here; `any()` of nothing is false.
    Ok(format!("pub mod half {{\n{}}}\n", whole.replace("#[cfg(test)]", "#[cfg(any())]")))
}

/// The copy of [`CALLS`], as one file. What is private to a node is seen by the whole model, and nothing else is changed.
pub fn plant_calls(files: &[(&str, String)], mutants: &[Entry]) -> Result<String, String> {
    let mut whole = String::from("pub mod calls {\nuse core::time::Duration;\n");
    for backoff in ["MAX_BACKOFF", "COMPUTING_BACKOFF"] {
        whole.push_str(&format!("const {backoff}: Duration = Duration::from_secs(1);\n"));
    }
    for (path, source) in files {
        let module = path.trim_start_matches("calls/").trim_end_matches(".rs");
        let text = plant_file(path, source, mutants)?.replace("#[cfg(test)]", "#[cfg(any())]");
        let text = text.replace("pub(in crate::node)", "pub(crate)").replace("pub(super)", "pub(crate)");
        whole.push_str(&format!("pub mod {module} {{\n{text}}}\n"));
    }
    Ok(format!("{whole}}}\n"))
}

/// Where a text begins, that text, and what mutants have in its place.
type Site<'a> = (usize, &'a str, Vec<(usize, &'a str)>);

/// One file, with its mutants. Edits of several mutants may replace the very same text, but not overlap otherwise.
pub fn plant_file(name: &str, source: &str, mutants: &[Entry]) -> Result<String, String> {
    let mut sites: Vec<Site<'_>> = Vec::new();
    for (id, mutant) in (1..).zip(mutants) {
        for edit in mutant.edits.iter().filter(|edit| edit.file == name) {
            let (before, part, whole) = edit.place();
            let mut hits = source.match_indices(&whole);
            let (Some((at, _)), None) = (hits.next(), hits.next()) else {
                return Err(format!("{}: not exactly once in {name}: {whole}", mutant.name));
            };
            let at = at + before.len();
            match sites.iter_mut().find(|(from, text, _)| *from == at && *text == part) {
                Some((_, _, branches)) => branches.push((id, &edit.replacement)),
                None => sites.push((at, part, vec![(id, &edit.replacement)])),
            }
        }
    }
    sites.sort_by_key(|(at, ..)| *at);
    let (mut text, mut done) = (String::new(), 0);
    for (at, original, branches) in &sites {
        let before = source.get(done..*at).ok_or_else(|| format!("edits overlap in {name}: {original}"))?;
        text.push_str(before);
        text.push_str(&site(original, branches));
        done = at + original.len();
    }
    text.push_str(source.get(done..).unwrap_or_default());
    Ok(text)
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

/// The table of the mutants, and a name for each site that the model's caller has.
pub fn table(mutants: &[Entry]) -> String {
    let mut list =
        String::from("/// The mutants, in the order of their list.\npub const LIST: &[Mutant] = &[\n");
    let mut sites = String::from("/// The mutants of the caller.\npub(crate) mod site {\n");
    for (id, mutant) in (1_u16..).zip(mutants) {
        let Entry { name, rule, from, found_in, kinds, equivalent, edits } = mutant;
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
