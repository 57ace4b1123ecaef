//! The language of the rules in PROTOCOL.md, "How to read the rules": what reads them.

use std::collections::BTreeMap;

/// A rule, whose names are resolved: a variable of the node, or a local one, by its place.
#[derive(Clone, Debug)]
pub struct Rule {
    pub head: Head,
    pub name: String,
    pub params: Vec<usize>,
    pub param_names: Vec<String>,
    pub guard: Option<Expr>,
    pub body: Vec<Statement>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Head {
    Event,
    Repeat,
    On,
}

#[derive(Clone, Debug)]
pub struct Statement {
    /// Its line in the page.
    pub line: usize,
    pub kind: Kind,
}

#[derive(Clone, Debug)]
pub enum Kind {
    Assign(usize, Expr),
    /// A record is made or forgotten: its fields.
    New(usize, Vec<usize>),
    Forget(usize, Vec<usize>),
    If(Expr, Vec<Statement>, Vec<Statement>),
    For(Vec<usize>, Expr, Vec<Statement>),
    Choose(usize, String),
    Add(Vec<Expr>, usize),
    Remove(Vec<Expr>, usize),
    Send(String, Vec<Expr>),
    Deliver(Expr),
    Report(Expr, String),
    Do(String),
    Owe,
    Stop,
}

#[derive(Clone, Debug)]
pub enum Expr {
    None,
    Empty,
    Number(i8),
    Name(usize),
    Not(Box<Self>),
    Binary(Op, Box<Self>, Box<Self>),
    Call(Function, Vec<Self>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    Or,
    And,
    Equal,
    Differs,
    Less,
    AtMost,
    In,
    Plus,
    Minus,
    Range,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    Min,
    Max,
    Size,
    Least,
}

/// The rules of one role, and what its node keeps: the names of its variables, records' fields behind, and their first values.
#[derive(Clone, Debug, Default)]
pub struct Program {
    pub rules: Vec<Rule>,
    pub state: Vec<(String, Option<Expr>)>,
    /// Most variables that a rule uses, those of the node included.
    pub names: usize,
}

impl Program {
    /// Reads the blocks of `page` that are fenced as `exo ROLE`. `constants` have their values from outside.
    pub fn read(page: &str, role: &str, constants: &[(&'static str, i8)]) -> Result<Self, String> {
        let lines = block_lines(page, role);
        let mut reader = Reader { constants: constants.to_vec(), ..Reader::default() };
        reader.fields(&lines);
        // The places of local names lie behind all that is kept.
        for (line, _, text) in &lines {
            if let Some(rest) = text.strip_prefix("state ") {
                reader.state(rest).map_err(|error| format!("line {line}: {error}"))?;
            }
        }
        let mut at = 0;
        while let Some((line, indent, text)) = lines.get(at) {
            if *indent != 0 {
                return Err(format!("line {line}: indented"));
            }
            at += 1;
            if text.starts_with("state ") {
                continue;
            }
            let body_end = lines[at..].iter().position(|line| line.1 == 0).map_or(lines.len(), |n| at + n);
            reader.rule(text, &lines[at..body_end]).map_err(|error| format!("line {line}: {error}"))?;
            at = body_end;
        }
        Ok(reader.program)
    }

    pub fn place(&self, name: &str) -> usize {
        self.state.iter().position(|(known, _)| known == name).unwrap()
    }
}

type Line = (usize, usize, String);

/// Number in the page, indentation and text of each line that says something.
fn block_lines(page: &str, role: &str) -> Vec<Line> {
    let (fence, mut within, mut lines) = (format!("```exo {role}"), false, Vec::new());
    for (number, line) in page.lines().enumerate() {
        if line.starts_with("```") {
            within = line == fence;
            continue;
        }
        let text = line.split('#').next().unwrap_or_default().trim_end();
        if within && !text.is_empty() {
            let indent = text.len() - text.trim_start().len();
            lines.push((number + 1, indent, text.trim_start().to_owned()));
        }
    }
    lines
}

#[derive(Default)]
struct Reader {
    program: Program,
    constants: Vec<(&'static str, i8)>,
    locals: BTreeMap<String, usize>,
}

impl Reader {
    /// All fields of records that are named anywhere come behind the variables.
    fn fields(&mut self, lines: &[Line]) {
        for (_, _, text) in lines {
            for token in tokens(text).unwrap_or_default() {
                if token.contains('.')
                    && token != ".."
                    && !self.program.state.iter().any(|(name, _)| *name == token)
                {
                    self.program.state.push((token, None));
                }
            }
        }
    }

    fn state(&mut self, text: &str) -> Result<(), String> {
        for part in text.split(',') {
            let (name, value) = part.split_once('=').ok_or("no value")?;
            let value = self.expr(value)?;
            self.program.state.push((name.trim().to_owned(), Some(value)));
        }
        Ok(())
    }

    fn rule(&mut self, text: &str, body: &[Line]) -> Result<(), String> {
        self.locals.clear();
        let text = text.strip_suffix(':').ok_or("no colon")?;
        let (head, text) = text.split_once(' ').ok_or("no name")?;
        let head = match head {
            "event" => Head::Event,
            "repeat" => Head::Repeat,
            "on" => Head::On,
            _ => return Err(format!("no rule begins with {head}")),
        };
        let (text, guard) = match text.split_once(" when ") {
            Some((text, guard)) => (text, Some(guard)),
            None => (text.split(" if ").next().unwrap_or(text), None),
        };
        let (name, names) = text.split_once('(').unwrap_or((text, ")"));
        let names = names.trim().strip_suffix(')').ok_or("no parenthesis")?;
        let param_names: Vec<_> =
            names.split(',').map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect();
        let params = param_names.iter().map(|name| self.local(name)).collect();
        let guard = guard.map(|guard| self.expr(guard)).transpose()?;
        let body = self.block(body)?;
        self.program.names = self.program.names.max(self.program.state.len() + self.locals.len());
        self.program.rules.push(Rule {
            head,
            name: name.trim().to_owned(),
            params,
            param_names,
            guard,
            body,
        });
        Ok(())
    }

    fn block(&mut self, lines: &[Line]) -> Result<Vec<Statement>, String> {
        let (mut statements, mut at) = (Vec::<Statement>::new(), 0);
        while let Some((line, indent, text)) = lines.get(at) {
            at += 1;
            let inner_end =
                lines[at..].iter().position(|inner| inner.1 <= *indent).map_or(lines.len(), |n| at + n);
            let inner = &lines[at..inner_end];
            at = inner_end;
            let in_line = |error: String| format!("line {line}: {error}");
            if text == "else:" {
                let inner = self.block(inner)?;
                let Some(Statement { kind: Kind::If(_, _, other), .. }) = statements.last_mut() else {
                    return Err(in_line("else without if".into()));
                };
                *other = inner;
                continue;
            }
            let kind = self.statement(text, inner).map_err(in_line)?;
            statements.push(Statement { line: *line, kind });
        }
        Ok(statements)
    }

    fn statement(&mut self, text: &str, inner: &[Line]) -> Result<Kind, String> {
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        let ends = |rest: &str| rest.strip_suffix(':').map(str::to_owned).ok_or("no colon".to_owned());
        let simple = matches!(word, "if" | "for") || inner.is_empty();
        if !simple {
            return Err("a block behind a statement that has none".into());
        }
        Ok(match word {
            "if" => Kind::If(self.expr(&ends(rest)?)?, self.block(inner)?, Vec::new()),
            "for" => {
                let rest = ends(rest)?;
                let (pattern, set) = rest.split_once(" in ").ok_or("for without in")?;
                let set = self.expr(set)?;
                let pattern =
                    pattern.trim_matches(['(', ')']).split(',').map(|name| self.local(name.trim())).collect();
                Kind::For(pattern, set, self.block(inner)?)
            }
            "choose" => Kind::Choose(self.local(rest), rest.to_owned()),
            "add" => {
                let (tuple, set) = rest.rsplit_once(" to ").ok_or("add without to")?;
                Kind::Add(self.tuple(tuple)?, self.known(set)?)
            }
            "remove" => {
                let (tuple, set) = rest.rsplit_once(" from ").ok_or("remove without from")?;
                Kind::Remove(self.tuple(tuple)?, self.known(set)?)
            }
            "send" => {
                let (name, args) = rest.split_once('(').ok_or("send without arguments")?;
                Kind::Send(name.to_owned(), self.tuple(&format!("({args}"))?)
            }
            "deliver" => Kind::Deliver(self.expr(rest)?),
            "report" => {
                let (message, outcome) = rest.rsplit_once(' ').ok_or("report without outcome")?;
                Kind::Report(self.expr(message)?, outcome.to_owned())
            }
            "do" => Kind::Do(rest.to_owned()),
            "owe" if rest == "STATE" => Kind::Owe,
            "stop" if rest.is_empty() => Kind::Stop,
            name => {
                let value = rest.strip_prefix("= ").ok_or_else(|| format!("no statement: {text}"))?;
                match value {
                    "new" => Kind::New(self.known(name)?, self.fields_of(name)),
                    "none" if !self.fields_of(name).is_empty() => {
                        Kind::Forget(self.known(name)?, self.fields_of(name))
                    }
                    value => {
                        let value = self.expr(value)?;
                        Kind::Assign(self.local(name), value)
                    }
                }
            }
        })
    }

    fn fields_of(&self, record: &str) -> Vec<usize> {
        let of = format!("{record}.");
        let state = self.program.state.iter().enumerate();
        state.filter(|(_, (name, _))| name.starts_with(&of)).map(|(place, _)| place).collect()
    }

    /// A tuple in parentheses, as the expressions that it consists of.
    fn tuple(&mut self, text: &str) -> Result<Vec<Expr>, String> {
        let inner =
            text.trim().strip_prefix('(').and_then(|text| text.strip_suffix(')')).ok_or("no tuple")?;
        let mut parser = Parser { reader: self, tokens: tokens(inner)?, at: 0 };
        let mut parts = vec![parser.binary(0)?];
        while parser.take(",") {
            parts.push(parser.binary(0)?);
        }
        parser.end().map(|()| parts)
    }

    fn expr(&mut self, text: &str) -> Result<Expr, String> {
        let mut parser = Parser { reader: self, tokens: tokens(text)?, at: 0 };
        let expr = parser.binary(0)?;
        parser.end().map(|()| expr)
    }

    fn known(&self, name: &str) -> Result<usize, String> {
        let state = &self.program.state;
        let place = state.iter().position(|(known, _)| known == name);
        place.or_else(|| self.locals.get(name).copied()).ok_or_else(|| format!("what is {name}?"))
    }

    /// The place of a name that may be new.
    fn local(&mut self, name: &str) -> usize {
        self.known(name).unwrap_or_else(|_| {
            let place = self.program.state.len() + self.locals.len();
            self.locals.insert(name.to_owned(), place);
            place
        })
    }
}

/// Names, numbers and signs.
fn tokens(text: &str) -> Result<Vec<String>, String> {
    let (mut tokens, mut rest) = (Vec::new(), text.trim_start());
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    while let Some(first) = rest.chars().next() {
        let len = if is_name(first) {
            let end = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
            // A field: `S.sck`, and not `lo..up`.
            let field = rest[end..].strip_prefix('.').filter(|more| more.starts_with(is_name));
            field.map_or(end, |more| end + 1 + more.find(|c| !is_name(c)).unwrap_or(more.len()))
        } else {
            let two = ["==", "!=", "<=", ">=", "..", "{}"].iter().any(|sign| rest.starts_with(sign));
            if !two && !"<>+-(),:".contains(first) {
                return Err(format!("what is {first}?"));
            }
            if two { 2 } else { 1 }
        };
        tokens.push(rest[..len].to_owned());
        rest = rest[len..].trim_start();
    }
    Ok(tokens)
}

struct Parser<'r> {
    reader: &'r Reader,
    tokens: Vec<String>,
    at: usize,
}

/// What binds less stands before what binds more.
const LEVELS: [&[(&str, Op)]; 5] = [
    &[("or", Op::Or)],
    &[("and", Op::And)],
    &[
        ("==", Op::Equal),
        ("!=", Op::Differs),
        ("<", Op::Less),
        ("<=", Op::AtMost),
        ("in", Op::In),
        ("is", Op::Equal),
    ],
    &[("..", Op::Range)],
    &[("+", Op::Plus), ("-", Op::Minus)],
];

impl Parser<'_> {
    fn take(&mut self, token: &str) -> bool {
        let found = self.tokens.get(self.at).is_some_and(|next| next == token);
        self.at += usize::from(found);
        found
    }

    fn end(&self) -> Result<(), String> {
        self.tokens.get(self.at).map_or(Ok(()), |token| Err(format!("unexpected {token}")))
    }

    fn binary(&mut self, level: usize) -> Result<Expr, String> {
        let Some(ops) = LEVELS.get(level) else { return self.operand() };
        let mut left = self.binary(level + 1)?;
        loop {
            // `x not in y`, `x is not y`, `x > y`, `x >= y`.
            let negated = level == 2 && self.take("not");
            let swapped = level == 2 && !negated && (self.take(">") || self.take(">="));
            if swapped {
                let op = if self.tokens[self.at - 1] == ">" { Op::Less } else { Op::AtMost };
                left = Expr::Binary(op, Box::new(self.binary(level + 1)?), Box::new(left));
                continue;
            }
            let Some((token, op)) = ops.iter().find(|(token, _)| self.take(token)) else {
                return if negated { Err("not".into()) } else { Ok(left) };
            };
            let negated = negated || *token == "is" && self.take("not");
            left = Expr::Binary(*op, Box::new(left), Box::new(self.binary(level + 1)?));
            left = if negated { Expr::Not(Box::new(left)) } else { left };
        }
    }

    fn operand(&mut self) -> Result<Expr, String> {
        let token = self.tokens.get(self.at).cloned().ok_or("an expression ends too soon")?;
        self.at += 1;
        let function = match &*token {
            "not" => return Ok(Expr::Not(Box::new(self.operand()?))),
            "none" => return Ok(Expr::None),
            "{}" => return Ok(Expr::Empty),
            "(" => {
                let inner = self.binary(0)?;
                return if self.take(")") { Ok(inner) } else { Err("no closing parenthesis".into()) };
            }
            "min" => Function::Min,
            "max" => Function::Max,
            "size" => Function::Size,
            "least" => Function::Least,
            name => {
                if let Ok(number) = name.parse() {
                    return Ok(Expr::Number(number));
                }
                if let Some((_, value)) = self.reader.constants.iter().find(|(known, _)| *known == name) {
                    return Ok(Expr::Number(*value));
                }
                return self.reader.known(name).map(Expr::Name);
            }
        };
        if !self.take("(") {
            return Err(format!("{token} of what?"));
        }
        let mut args = vec![self.binary(0)?];
        while self.take(",") {
            args.push(self.binary(0)?);
        }
        if self.take(")") { Ok(Expr::Call(function, args)) } else { Err("no closing parenthesis".into()) }
    }
}
