#!/usr/bin/env bash
# Builds the package for Python as a wheel, installs it into a fresh environment, and runs its tests against that.
#
# Arguments are given to pytest. `CARGO_TARGET_DIR` says where Rust builds, `PYTHON` which Python is used. The tests need PostgreSQL and
# the example of `cargo build -p exonet-sql --example transfer` in `target`; no test is skipped.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

# Rust rebuilds what depends on Python when its path changes, so this is not the one of the environment.
python=$(command -v "${PYTHON:-python3}")
work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT

export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
"$python" -m venv "$work/venv"
# shellcheck disable=SC1091
. "$work/venv/bin/activate"
pip install --quiet 'maturin>=1.7,<2' 'pytest>=8' 'mypy>=1.10' 'typing_extensions>=4.2' \
    'psycopg[binary,pool]>=3.2' 'SQLAlchemy[asyncio]>=2' 'aiosqlite>=0.19'

cargo fmt --check
# The profile that compiles fast, which is that of the other tests.
maturin build --quiet --locked --profile dev --interpreter "$python" --out "$work/wheels"
pip install --quiet --no-deps "$work"/wheels/exonet-*.whl

# Elsewhere than the sources of the package, so that the wheel is what is tested.
cp -r tests "$work/tests"
cd "$work/tests"
pages=$OLDPWD/..
EXONET_PAGES=$pages pytest -q -p no:cacheprovider "$@"
EXONET_NO_SKIPS=1 "$pages/docs/site/commands.py" "$pages/docs/tutorial-python.md"
