//! Wordings that break a promise.

/// What the wrong wording says, and each piece of the page that it replaces, with what stands there instead.
pub type Wording = (&'static str, &'static [(&'static str, &'static str)]);

pub const WRONG: &[Wording] = &[
    (
        "the page's own, once: envelopes fall back below early messages",
        &[("    if S.r != r:\n      S.e = max(S.e, S.sck)", "    if S.r != r:\n      S.e = S.sck")],
    ),
    (
        "the page's own, once: a grant passes early messages",
        &[("h = min(hi, S.hi, least(S.early))", "h = min(hi, S.hi)")],
    ),
    (
        "the page's own, once: a stray that latest passes with the same ASK has no bound",
        &[("      latest = ts\n      do caught_up\n", "      latest = ts\n")],
    ),
    ("a closed record takes tokens", &[("R.r == r and not R.closed and", "R.r == r and")]),
    ("a closed record takes early messages", &[("R.ets == ts and not R.closed and", "R.ets == ts and")]),
    (
        "a final STATE gives back what was taken",
        &[
            (
                "if s in claim and s not in free:\n        remove (s, r1, m)",
                "if s in claim and s not in free and not final:\n        remove (s, r1, m)",
            ),
            ("if s in claim and s in free and final:", "if s in claim and final:"),
        ],
    ),
    (
        "a STATE that is not final gives back",
        &[("if s in claim and s in free and final:", "if s in claim and s in free:")],
    ),
    ("what was accepted is refused", &[("if ts > bound and ts <= latest:", "if ts <= latest:")]),
    ("what is refused is not durable", &[("if ts > bound and ts <= latest:", "if ts > bound:")]),
    ("what was refused is new again", &[("    T = ts\n    send REFUSED(ts)", "    send REFUSED(ts)")]),
    (
        "a token needs no incarnation",
        &[("if R.r == r and not R.closed", "if R is not none and not R.closed")],
    ),
    (
        "an early message needs no stamp",
        &[("if R.ets == ts and not R.closed", "if R is not none and not R.closed")],
    ),
    ("any stamp is new", &[("new = ts > bound", "new = ts > 0")]),
    ("a stray has no bound", &[("      T = ts\n      stray", "      stray")]),
    ("a stamp need not be durable", &[("      latest = ts\n      do", "      do")]),
    ("a stamp raises no bound", &[("    if stray is none:\n      T = max(bound, ts)\n", "")]),
    (
        "nothing known is no bound",
        &[("  bound = T\n  if T is none:\n    bound = upper\n  new", "  bound = max(T, 0)\n  new")],
    ),
    (
        "a record that a stamp names is dropped",
        &[("size(R.free) == 0 and R.ets == 0:", "size(R.free) == 0:")],
    ),
    (
        "a record with free slots is dropped",
        &[("event drop when size(R.free) == 0 and", "event drop when R is not none and")],
    ),
    ("a record's number comes again", &[("    ck = ck + 1\n", "")]),
    ("an eviction does not raise b", &[("  b = max(b, R.r + 1)\n", "")]),
    ("an eviction does not raise tb", &[("    tb = max(tb, t)\n", "")]),
    ("an eviction does not raise upper", &[("    upper = max(upper, t)\n", "")]),
    ("a bound is forgotten without a trace", &[("  upper = max(upper, T)\n  T = none\n", "  T = none\n")]),
    ("a start does not raise b", &[("  ck = D\n  b = D\n", "  ck = D\n")]),
    ("a start does not raise upper", &[("  upper = latest\n", "")]),
    ("a start does not raise tb", &[("  tb = latest\n", "")]),
    ("a sender starts below D", &[("  ck = D\n  S = none\n", "  S = none\n")]),
    ("a sender asks above D", &[("S.e + size(queue) + N, D)", "S.e + size(queue) + N)")]),
    ("a sender that closes forgets its numbers", &[("  ck = max(ck, S.hi)\n", "")]),
    ("l passes open tokens", &[("min(S.e, S.sck, least(S.tokens))", "min(S.e, S.sck)")]),
    ("a claim ends at hi, not at up", &[("claim = lo .. min(hi, up)", "claim = lo .. hi")]),
    ("a claim begins at 0", &[("claim = lo .. min(hi, up)", "claim = 0 .. min(hi, up)")]),
    ("a claim concerns every incarnation", &[("if live and r1 == r:", "if live:")]),
    (
        "what is below b was delivered",
        &[
            ("if r1 >= b and r1 < r:", "if r1 < r:"),
            ("      if r1 < b:\n        remove (s, r1, m) from S.tokens\n        report m Unknown\n", ""),
        ],
    ),
    (
        "an older incarnation was delivered though it is this one",
        &[("if r1 >= b and r1 < r:", "if r1 >= b and r1 <= r:")],
    ),
    (
        "silence about tb makes a token",
        &[("if tb < S.ts and s in claim:", "if (tb is none or tb < S.ts) and s in claim:")],
    ),
    (
        "what tb covers is a token",
        &[(
            "      if tb >= S.ts:\n        remove (s, m) from S.early\n        report m Unknown\n      if tb < S.ts and s in claim:",
            "      if tb is not none and s in claim:",
        )],
    ),
    (
        "a free slot means that an early message was delivered",
        &[(
            "  for (s, m) in S.early:\n    if s in claim and s not in free:",
            "  for (s, m) in S.early:\n    if s in claim:",
        )],
    ),
    (
        "a closed record goes too early",
        &[(
            "    if R.l >= R.hi:\n      R.ets = 0\n      if R.closed:\n        R = none\n",
            "    if R.l >= R.hi:\n      R.ets = 0\n    if R.closed:\n      R = none\n",
        )],
    ),
];
