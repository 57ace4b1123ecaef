#!/usr/bin/env bash
# The tests of the node in Python: vectors, worlds on a virtual clock, and `exon` both ways if it is built.
#
# Takes the interpreter of PYTHON (python3), and makes a virtual environment in conformance/.venv if it lacks `cryptography`.
# The command is that of EXON, or target/debug/exon. Without one, its tests say SKIPPED; with EXONET_NO_SKIPS set they fail.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

python=${PYTHON:-python3}
if ! "$python" -c 'import cryptography' 2>/dev/null; then
    if ! .venv/bin/python -c 'import cryptography' 2>/dev/null; then
        "$python" -m venv .venv
        .venv/bin/pip install --quiet --requirement requirements.txt
    fi
    python=.venv/bin/python
fi

# It is to be read in an evening: this keeps it from growing. Blank lines and what only explains do not count, nor do the
# subject and the command.
"$python" - <<'COUNT'
import ast, pathlib
count = 0
for path in sorted(pathlib.Path("exonode").glob("*.py")):
    text, said = path.read_text(), set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node) is not None:
            said.update(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    if path.name not in ("__main__.py", "subject.py"):
        lines = enumerate(text.splitlines(), 1)
        count += sum(n not in said and line.strip() != "" and not line.strip().startswith("#") for n, line in lines)
print(f"the node has {count} lines of code")
assert count < 1400, "the node is to stay below 1,400 lines of code"
COUNT

export EXON=${EXON:-../target/debug/exon}
exec "$python" -m unittest discover --start-directory tests --top-level-directory . "$@"
