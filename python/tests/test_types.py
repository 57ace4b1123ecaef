"""The stubs say what there is, and the package is typed."""

import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).parent


def run(*arguments):
    done = subprocess.run([sys.executable, "-m", *arguments], capture_output=True, text=True, cwd=HERE)
    assert done.returncode == 0, done.stdout + done.stderr


def test_stubs_agree_with_what_there_is():
    run("mypy.stubtest", "exonet", "--allowlist", "stubtest.txt", "--ignore-unused-allowlist")


def test_the_package_and_a_program_are_well_typed():
    run("mypy", "--strict", "--python-version", "3.10", "-p", "exonet")
    run("mypy", "--strict", "--python-version", "3.10", "typed.py")
