//! Rust source as tokens and items, as far as a list of mutants needs it. An edit names an item and some tokens in it, so
//! the list stays valid when code moves to another file or is formatted anew.

use std::ops::Range;

/// A source, its tokens and its items.
pub(crate) struct Source<'a> {
    text: &'a str,
    tokens: Vec<Range<usize>>,
    items: Vec<Item>,
}

impl<'a> Source<'a> {
    /// Reads a source.
    pub(crate) fn new(text: &'a str) -> Self {
        let tokens = tokens(text);
        let items = items(text, &tokens);
        Self { text, tokens, items }
    }

    /// The places of a pattern in the items of this name. If a part of the pattern is in « », the places of that part.
    pub(crate) fn find(&self, item: &str, pattern: &str) -> Vec<Range<usize>> {
        let mut words: Vec<&str> =
            tokens(pattern).into_iter().filter_map(|range| pattern.get(range)).collect();
        let mark = |words: &mut Vec<&str>, mark| {
            let at = words.iter().position(|word| *word == mark)?;
            words.remove(at);
            Some(at)
        };
        let (begin, end) = (mark(&mut words, "«").unwrap_or(0), mark(&mut words, "»").unwrap_or(words.len()));
        let mut found = Vec::new();
        for item in self.items.iter().filter(|other| other.name == item) {
            let own = self.tokens.get(item.tokens.clone()).unwrap_or_default();
            for window in own.windows(words.len().max(1)) {
                let same = window
                    .iter()
                    .map(|range| self.text.get(range.clone()))
                    .eq(words.iter().map(|word| Some(*word)));
                let part = window.get(begin..end).filter(|_| same);
                if let Some([first, rest @ ..]) = part {
                    found.push(first.start..rest.last().unwrap_or(first).end);
                }
            }
        }
        found
    }
}

/// The tokens of a source, without comments. A comma before a closing bracket is left out: whether there is one is
/// the formatter's choice. Text that is not Rust gives single characters.
pub(crate) fn tokens(source: &str) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    let mut at = 0;
    while let Some(next) = source.get(at..).and_then(|rest| rest.chars().next()) {
        let rest = source.get(at..).unwrap_or_default();
        let length = length(rest).unwrap_or(next.len_utf8());
        let text = rest.get(..length).unwrap_or_default();
        if !next.is_whitespace() && !text.starts_with("//") && !text.starts_with("/*") {
            let comma = found.last().filter(|last| source.get((*last).clone()) == Some(","));
            if comma.is_some() && matches!(text, ")" | "]" | "}") {
                found.pop();
            }
            found.push(at..at + length);
        }
        at += length;
    }
    found
}

/// The length of the token or comment that `rest` begins with, if it has more than one character.
fn length(rest: &str) -> Option<usize> {
    let word = |text: &str| text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    if rest.starts_with("//") {
        return Some(rest.find('\n').unwrap_or(rest.len()));
    }
    if rest.starts_with("/*") {
        return Some(comment(rest));
    }
    for prefix in ["r", "br", "cr"] {
        let marks = rest.strip_prefix(prefix).map(|rest| rest.len() - rest.trim_start_matches('#').len());
        if let Some(marks) = marks
            && rest.get(prefix.len() + marks..).is_some_and(|rest| rest.starts_with('"'))
        {
            let end = format!("\"{}", "#".repeat(marks));
            let from = prefix.len() + marks + 1;
            return Some(from + rest.get(from..)?.find(&end)? + end.len());
        }
    }
    if let Some(text) = ["\"", "b\"", "c\""].iter().find(|open| rest.starts_with(**open)) {
        return Some(text.len() + quoted(rest.get(text.len()..)?, '"')?);
    }
    if let Some(text) = ["'", "b'"].iter().find(|open| rest.starts_with(**open)) {
        let inner = rest.get(text.len()..)?;
        let mut chars = inner.chars();
        // A lifetime has no quote behind its first character.
        return match (chars.next()?, chars.next()) {
            ('\\', _) | (_, Some('\'')) => Some(text.len() + quoted(inner, '\'')?),
            _ => Some(1 + word(rest.get(1..)?)),
        };
    }
    Some(word(rest)).filter(|length| *length > 0)
}

/// The length of a quoted text up to its end, the quote behind it included.
fn quoted(inner: &str, quote: char) -> Option<usize> {
    let mut escaped = false;
    let end = inner.char_indices().find(|(_, c)| {
        let ends = *c == quote && !escaped;
        escaped = *c == '\\' && !escaped;
        ends
    });
    end.map(|(at, _)| at + quote.len_utf8())
}

/// The length of a comment, those within it included.
fn comment(rest: &str) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while let Some(here) = rest.get(at..).filter(|here| !here.is_empty()) {
        if here.starts_with("/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if here.starts_with("*/") {
            (depth, at) = (depth - 1, at + 2);
            if depth == 0 {
                return at;
            }
        } else {
            at += here.chars().next().map_or(1, char::len_utf8);
        }
    }
    rest.len()
}

/// An item of a source, and its tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    /// `Type::function`, or its name if it belongs to no type.
    pub(crate) name: String,
    /// Of [`tokens`].
    pub(crate) tokens: Range<usize>,
}

/// The items of a source: functions, constants, types. What stands in a function belongs to the function; modules named
/// `tests` are left out.
pub(crate) fn items(source: &str, tokens: &[Range<usize>]) -> Vec<Item> {
    let text: Vec<&str> = tokens.iter().map(|range| source.get(range.clone()).unwrap_or_default()).collect();
    let mut found = Vec::new();
    within(&text, 0..text.len(), None, &mut found);
    found
}

fn within(text: &[&str], range: Range<usize>, owner: Option<&str>, found: &mut Vec<Item>) {
    let named = |name: &str| owner.map_or(name.to_string(), |owner| format!("{owner}::{name}"));
    let mut at = range.start;
    while at < range.end {
        let next = text.get(at + 1).copied().unwrap_or_default();
        let is_name = next.starts_with(|c: char| c.is_alphabetic() || c == '_');
        let begin = at;
        match text.get(at).copied().unwrap_or_default() {
            "impl" => {
                let open = until(text, at, &["{"]);
                let end = closing(text, open);
                let owner = implemented(text.get(at + 1..open).unwrap_or_default());
                within(text, open + 1..end, Some(owner), found);
                at = end;
            }
            word @ ("trait" | "mod") if is_name => {
                let open = until(text, at, &["{", ";"]);
                let end = closing(text, open);
                let owner = Some(next).filter(|_| word == "trait");
                if next != "tests" {
                    within(text, open + 1..end, owner, found);
                }
                at = end;
            }
            "fn" | "struct" | "enum" | "union" if is_name => {
                at = closing(text, until(text, at, &["{", ";"]));
                found.push(Item { name: named(next), tokens: begin..at + 1 });
            }
            "const" | "static" | "type" if is_name && !matches!(next, "fn" | "unsafe" | "extern") => {
                at = until(text, at, &[";"]);
                found.push(Item { name: named(next), tokens: begin..at + 1 });
            }
            "use" => at = until(text, at, &[";"]),
            "macro_rules" => at = closing(text, until(text, at, &["{"])),
            "{" | "(" | "[" => at = closing(text, at),
            _ => {}
        }
        at += 1;
    }
}

/// The first of these tokens from `at` on that is in no brackets.
fn until(text: &[&str], mut at: usize, ends: &[&str]) -> usize {
    while let Some(token) = text.get(at) {
        if ends.contains(token) {
            return at;
        }
        at = if matches!(*token, "(" | "[" | "{") { closing(text, at) } else { at } + 1;
    }
    text.len()
}

/// The bracket that closes the one at `open`, or `open` if there is none.
fn closing(text: &[&str], open: usize) -> usize {
    let mut depth = 0_usize;
    for (at, token) in text.iter().enumerate().skip(open) {
        match *token {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return at;
        }
    }
    text.len()
}

/// The name of the type that an `impl` is of, from what stands between `impl` and its brace.
fn implemented<'a>(header: &[&'a str]) -> &'a str {
    let (mut depth, mut name) = (0_usize, "");
    for (at, token) in header.iter().enumerate() {
        let arrow = at.checked_sub(1).and_then(|at| header.get(at)).is_some_and(|last| *last == "-");
        match *token {
            "<" | "(" | "[" => depth += 1,
            ">" if arrow => {}
            ">" | ")" | "]" => depth = depth.saturating_sub(1),
            _ if depth > 0 => {}
            "where" => break,
            "for" => name = "",
            word if word.starts_with(char::is_alphabetic) && !matches!(word, "mut" | "dyn") => name = word,
            _ => {}
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::{items, tokens};

    fn words(source: &str) -> Vec<&str> {
        tokens(source).into_iter().map(|range| &source[range]).collect()
    }

    #[test]
    fn layout_and_comments_are_not_tokens() {
        assert_eq!(words("f(a, /* b /* c */ */ d) // e"), words("f(\n    a,\n    d,\n)"));
        assert_eq!(words("g(a_1 . b)"), ["g", "(", "a_1", ".", "b", ")"]);
        assert_ne!(words("(a,)"), words("(a, b)"));
    }

    #[test]
    fn brackets_in_texts_are_not_brackets() {
        assert_eq!(words(r##"m("}\"{", r#"a"}"#, b'{', '\'', 'x', &'a T)"##).len(), 16);
        let source = "fn f() { '{' } fn g() {}";
        assert_eq!(items(source, &tokens(source)).len(), 2);
    }

    #[test]
    fn items_are_named_by_their_type() {
        let source = "
            use a::{b, c};
            const K: [u8; 2] = [1; 2];
            pub struct S(u8);
            impl<T: Fn(u8) -> u8> fmt::Display for super::S<T> where T: Copy {
                const M: u8 = { 1 };
                fn fmt(&self) -> R { fn inner() {} }
            }
            pub const fn free(f: fn(u8)) {}
            mod deep { trait Q { fn q(); } }
            #[cfg(test)] mod tests { fn t() {} }";
        let names: Vec<_> = items(source, &tokens(source)).into_iter().map(|item| item.name).collect();
        assert_eq!(names, ["K", "S", "S::M", "S::fmt", "free", "Q::q"]);
    }
}
