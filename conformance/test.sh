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

export EXON=${EXON:-../target/debug/exon}
exec "$python" -m unittest discover --start-directory tests --top-level-directory . "$@"
