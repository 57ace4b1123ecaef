"""Runs every block of Python in `docs/python.md` and in the README, as a program of its own."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(os.environ.get("EXONET_PAGES") or pathlib.Path(__file__).parents[2])


def blocks():
    for page in (ROOT / "docs" / "python.md", ROOT / "python" / "README.md"):
        text = page.read_text()
        for found in re.finditer(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
            line = text[: found.start()].count("\n") + 2
            yield pytest.param("\n" * (line - 1) + found[1], id=f"{page.name}:{line}")


def test_there_are_blocks():
    assert len(list(blocks())) > 7


@pytest.mark.parametrize("program", list(blocks()))
def test_a_block_runs(program):
    done = subprocess.run([sys.executable, "-W", "error", "-"], input=program, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
