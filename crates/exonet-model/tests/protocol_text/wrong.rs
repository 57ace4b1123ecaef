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
        "a closed record takes tokens",
        &[("R.r == r and not R.closed and s in R.free and s not", "R.r == r and s in R.free and s not")],
    ),
    (
        "what was withdrawn is taken",
        &[(
            "R.r == r and not R.closed and s in R.free and s not in R.withdrawn:",
            "R.r == r and not R.closed and s in R.free:",
        )],
    ),
    (
        "what was withdrawn early is taken",
        &[(
            "R.ets == ts and not R.closed and s in R.free and s not in R.withdrawn:",
            "R.ets == ts and not R.closed and s in R.free:",
        )],
    ),
    (
        "what was taken is withdrawn",
        &[("s in R.free:\n    add (s) to R.withdrawn", "s < R.hi:\n    add (s) to R.withdrawn")],
    ),
    (
        "a withdrawn slot is used up",
        &[("    add (s) to R.withdrawn ", "    add (s) to R.withdrawn\n    remove (s) from R.free")],
    ),
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
    (
        "what was accepted is refused",
        &[("if ts > bound and ts <= latest and not far:", "if ts <= latest and not far:")],
    ),
    (
        "what is refused is not durable",
        &[("if ts > bound and ts <= latest and not far:", "if ts > bound and not far:")],
    ),
    ("what was refused is new again", &[("    T = ts\n    send REFUSED(ts)", "    send REFUSED(ts)")]),
    (
        "a token needs no incarnation",
        &[(
            "if R.r == r and not R.closed and s in R.free and",
            "if R is not none and not R.closed and s in R.free and",
        )],
    ),
    (
        "an early message needs no stamp",
        &[("if R.ets == ts and not R.closed", "if R is not none and not R.closed")],
    ),
    ("any stamp is new", &[("new = ts > bound and not far", "new = ts > 0 and not far")]),
    ("a stamp that was far ahead is new later", &[("new = ts > bound and not far", "new = ts > bound")]),
    ("a stamp need not be durable", &[("      latest = ts\n", "      R = R\n")]),
    ("a stamp raises no bound", &[("    if not far:\n      T = max(bound, ts)\n", "")]),
    (
        "nothing known is no bound",
        &[(
            "  bound = T\n  if T is none:\n    bound = upper\n  far = xlo <= ts and ts <= xhi\n  new",
            "  bound = max(T, 0)\n  far = xlo <= ts and ts <= xhi\n  new",
        )],
    ),
    (
        "a record is dropped though what it took early is open",
        &[("size(R.free) == 0 and R.keep == 0:", "size(R.free) == 0:")],
    ),
    (
        "a record with free slots is dropped",
        &[("event drop when size(R.free) == 0 and", "event drop when R is not none and")],
    ),
    ("a record's number comes again", &[("    ck = ck + 1\n", "")]),
    ("an eviction does not raise b", &[("  b = max(b, R.r + 1)\n", "")]),
    (
        "an eviction leaves no trace of what was taken early",
        &[("  b = max(b, R.r + 1)\n  if R.keep > aend:\n", "  b = max(b, R.r + 1)\n  if R.keep > last:\n")],
    ),
    (
        "a restart leaves no trace of what was taken early",
        &[("  T = none\n  if R.keep > aend:\n", "  T = none\n  if R.keep > last:\n")],
    ),
    ("what was taken early is not noted", &[("      R.keep = s + 1\n", "")]),
    (
        "the peer passes what was taken early too soon",
        &[("    if R.keep <= l:\n", "    if R.keep <= l + 1:\n")],
    ),
    ("the peer passes what a lost record took too soon", &[("  if aend <= l:\n", "  if aend <= l + 1:\n")]),
    (
        "what has no room is forgotten without a trace",
        &[("  upto = max(upto, ats)\n  aend", "  upto = above\n  aend")],
    ),
    (
        "what is refused counts as forgotten",
        &[("      if above < ts and ts <= upto:\n", "      if ts <= bound:\n")],
    ),
    ("a bound is forgotten without a trace", &[("  upper = max(upper, T)\n  T = none\n", "  T = none\n")]),
    (
        "a restart does not raise b",
        &[(
            "  b = D\n  upper = latest\n  T = none\n  if R.keep > aend",
            "  upper = latest\n  T = none\n  if R.keep > aend",
        )],
    ),
    (
        "a restart does not raise upper",
        &[("  upper = latest\n  T = none\n  if R.keep > aend", "  T = none\n  if R.keep > aend")],
    ),
    ("a start does not raise upper", &[("  upper = latest\n  T = none\n  above", "  T = none\n  above")]),
    ("a start keeps the hull as it was", &[("  above = 0\n  upto = latest\n", "")]),
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
        "silence about the stamp makes a token",
        &[(
            "      if ts == S.ts:\n        if s < end",
            "      if ts is none or ts == S.ts:\n        if s < end",
        )],
    ),
    (
        "what is said of another stamp counts",
        &[("      if ts == S.ts:\n        if s < end", "      if ts is not none:\n        if s < end")],
    ),
    ("what is forgotten is a token", &[("        if s < end:\n", "        if s < 0:\n")]),
    ("one slot more is forgotten than was taken", &[("        if s < end:\n", "        if s < end + 1:\n")]),
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
