#!/usr/bin/env python3
"""Runs the commands of pages, as a reader would, and compares what they print with what the page says.

    EXON=target/debug/exon docs/site/commands.py [--slow] [PAGE...]

Without a page: all of `docs` that have a line `<!-- commands: run -->`. Of such a page every block of `sh` is run, in the order of
the page, in one shell in an empty directory. A comment before a block says what is special about it:

    <!-- terminal: NAME -->   it runs in a shell of its own, and goes on; the page goes on when it has printed what follows
    <!-- end: NAME -->        that shell gets what Ctrl-C gives; what follows is what it then still prints
    <!-- kill: NAME -->       as `kill -9` of all that runs there
    <!-- file: NAME -->       the block, of any language, is this file
    <!-- exit: CODE -->       it ends with this exit code; without it with 0
    <!-- slow -->             it is run only with --slow
    <!-- needs: COMMAND -->   the page is left out, and SKIPPED is said, where this fails; with EXONET_NO_SKIPS that is a failure
    <!-- elsewhere: FILE -->  it is not run here; FILE of the repository has its lines, and a test runs them or what they run

The block of `text` that follows is what has been printed. There, a time, an id, the number of a process and a path below
`~/.local/state/exonet` stand for any other; `[..]` is anything within a line, a line `...` any lines. Ports of 127.0.0.1 are replaced by
free ones.
"""

import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
MARK = "<!-- commands: run -->"
COMMENT = re.compile(r"^<!-- (terminal|end|kill|file|exit|slow|elsewhere|needs):? ?(.*?) -->$")
PORT = re.compile(r"127\.0\.0\.1:(\d{4,5})")
# Longer than anything here takes: a page that hangs fails then.
HANG = 120
# What compiles, on a machine with other work.
SLOW = 1_800


class Fault(Exception):
    pass


def blocks(text):
    """(line, comments before, language, body) of each block of code."""
    notes, block = {}, None
    for number, line in enumerate(text.split("\n"), 1):
        comment = COMMENT.match(line)
        if block is not None:
            if line.startswith("```"):
                yield block[0], notes, block[1], "\n".join(block[2])
                notes, block = {}, None
            else:
                block[2].append(line)
        elif line.startswith("```"):
            block = (number, line[3:].strip(), [])
        elif comment:
            if comment[1] in ("end", "kill", "needs"):
                yield number, {}, comment[1], comment[2]
            else:
                notes[comment[1]] = comment[2]
    if notes:
        raise Fault(f"no block follows {notes}")


# What is another one each time.
VARIES = re.compile(
    r"(?P<any>\[\.\.\])|(?P<path>~/\.local/state/exonet)|(?P<time>\b\d+(?:\.\d+)? (?:ns|us|ms|s|min)\b)"
    r"|(?P<id>\ba[a-z2-7]{55}\b)|(?P<short>\ba[a-z2-7]{7}\b)|(?P<process>(?<=process )\d+)|(?P<size>(?<=ms, )\d+ B\b)"
)
STANDS_FOR = {
    "any": ".*?", "path": r"[^\s]*/state", "time": r"\d+(?:\.\d+)? (?:ns|us|ms|s|min)", "id": "a[a-z2-7]{55}",
    "short": "a[a-z2-7]{7}", "process": r"\d+", "size": r"\d+ B",
}


def line_pattern(line):
    parts, end = [], 0
    for found in VARIES.finditer(line):
        parts += [re.escape(line[end : found.start()]), STANDS_FOR[found.lastgroup]]
        end = found.end()
    # Columns are as wide as what stands in them.
    return re.sub(r"(?:\\ ){2,}", " +", "".join(parts) + re.escape(line[end:]))


def pattern(expected):
    """What was expected, as an expression for a whole output."""
    parts = []
    for line in expected.rstrip("\n").split("\n"):
        if line == "...":
            parts.append(r"(?:[^\n]*\n)*?")
        else:
            parts.append(line_pattern(line.rstrip()) + r"[ \t]*\n")
    return re.compile("".join(parts))


def is_free(port):
    """Whether no socket of either kind is at this port of the loopback."""
    for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
        with socket.socket(socket.AF_INET, kind) as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                return False
    return True


class Terminal:
    """A shell, and what it prints."""

    def __init__(self, command, directory, environment):
        self.output, self.changed = "", threading.Condition()
        self.process = subprocess.Popen(
            command, cwd=directory, env=environment, start_new_session=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, bufsize=1,
        )
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            with self.changed:
                self.output += line
                self.changed.notify_all()
        with self.changed:
            self.changed.notify_all()

    def wait_for(self, done, what, most=HANG):
        with self.changed:
            if not self.changed.wait_for(lambda: done(self.output), most):
                raise Fault(f"waited {most} s for {what}; printed so far:\n{self.output}")

    def take(self, through):
        with self.changed:
            taken, self.output = self.output[:through], self.output[through:]
        return taken

    def signal(self, number):
        try:
            os.killpg(self.process.pid, number)
        except ProcessLookupError:
            pass


class Run:
    def __init__(self, page, slow):
        self.page, self.slow, self.ran, self.lacks = page, slow, 0, None
        self.terminals, self.ports = {}, {}
        self.home = tempfile.TemporaryDirectory()
        exon = pathlib.Path(os.environ.get("EXON", ROOT / "target/debug/exon")).resolve()
        if not exon.is_file() and re.search(r"^exon ", page.read_text(), re.MULTILINE):
            raise Fault(f"there is no {exon}: build it by `cargo build -p exonet-cli`, or let EXON name it")
        commands = pathlib.Path(self.home.name) / "bin"
        commands.mkdir()
        (commands / "exon").symlink_to(exon)
        self.directory = pathlib.Path(self.home.name) / "work"
        self.directory.mkdir()
        # Where the tutorials expect a clone.
        (self.directory / "exonet").symlink_to(ROOT)
        self.environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith(("EXON", "RUST_"))},
            "PATH": f"{commands}:{os.environ['PATH']}",
            "EXONET_STATE": str(pathlib.Path(self.home.name) / "state"),
            "PYTHONUNBUFFERED": "1",
        }
        self.shell = Terminal(["bash"], self.directory, self.environment)
        # Below those that the system gives to sockets without one.
        self.candidates = iter(random.sample(range(12_000, 32_000), 1_000))

    def free(self, text):
        """The text with ports that are free here."""

        def port(found):
            if found[1] not in self.ports:
                self.ports[found[1]] = str(next(filter(is_free, self.candidates)))
            return f"127.0.0.1:{self.ports[found[1]]}"

        return PORT.sub(port, text)

    def page_blocks(self, found):
        following = found[1:] + [None]
        for block, after in zip(found, following):
            if block[2] != "text":
                yield block, self.free(after[3]) if after and after[2] == "text" else None

    def run(self):
        found = list(blocks(self.page.read_text()))
        for (line, notes, language, body), expected in self.page_blocks(found):
            if language == "needs":
                if subprocess.run(body, shell=True, cwd=self.directory, env=self.environment, capture_output=True).returncode:
                    self.lacks = body
                    return
                continue
            try:
                self.block(notes, language, self.free(body), expected)
            except Fault as fault:
                raise Fault(f"{self.page.relative_to(ROOT)}:{line}: {fault}") from None

    def block(self, notes, language, body, expected):
        if "elsewhere" in notes:
            there = (ROOT / notes["elsewhere"]).read_text()
            missing = [line for line in body.split("\n") if line and line.strip() not in there]
            if missing:
                raise Fault(f"{notes['elsewhere']} does not have {missing}")
        elif "file" in notes:
            path = self.directory / notes["file"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(body + "\n")
        elif language in ("end", "kill"):
            self.end(language, body, expected)
        elif language == "sh" and "terminal" in notes:
            self.begin(notes["terminal"], body, expected)
        elif language == "sh" and ("slow" not in notes or self.slow):
            self.execute(body, expected, int(notes.get("exit", 0)), SLOW if "slow" in notes else HANG)

    def begin(self, name, body, expected):
        if expected is None:
            raise Fault("say by a block of text what is printed once it runs")
        # It is what the shell becomes, so that a signal meets it.
        terminal = Terminal(["bash"], self.directory, self.environment)
        terminal.process.stdin.write(body + "\nexit\n")
        terminal.process.stdin.flush()
        self.terminals[name] = terminal
        self.expect(terminal, expected)
        self.ran += 1

    def expect(self, terminal, expected):
        wanted = pattern(expected)
        terminal.wait_for(lambda printed: wanted.match(printed) or terminal.process.poll() is not None, f"\n{expected}")
        found = wanted.match(terminal.output)
        if not found:
            raise Fault(f"expected\n{expected}\nand it printed\n{terminal.output}")
        terminal.take(found.end())

    def end(self, how, name, expected):
        terminal = self.terminals.pop(name)
        # The shell is left alone by Ctrl-C until its command has ended, as in a terminal.
        terminal.signal(signal.SIGINT if how == "end" else signal.SIGKILL)
        try:
            terminal.process.wait(HANG)
        except subprocess.TimeoutExpired:
            raise Fault(f"{name} does not end; it printed\n{terminal.output}") from None
        if expected is not None:
            self.expect(terminal, expected)

    def execute(self, body, expected, code, most):
        shell = self.shell
        # The code of the last command that failed, wherever in the block.
        shell.process.stdin.write(f"ended=0; trap 'ended=$?' ERR\n{body}\necho; echo \"<ended $ended>\"\n")
        shell.process.stdin.flush()
        end = re.compile(r"\n?^<ended (\d+)>\n", re.MULTILINE)
        shell.wait_for(lambda printed: end.search(printed) or shell.process.poll() is not None, f"the end of\n{body}", most)
        found = end.search(shell.output)
        if not found:
            raise Fault(f"the shell has ended; it printed\n{shell.output}")
        printed = shell.take(found.end())[: found.start()]
        printed = printed.rstrip("\n") + "\n" if printed.strip() else ""
        if int(found[1]) != code:
            raise Fault(f"ended with {found[1]}, not {code}:\n{body}\n{printed}")
        if expected is not None and not pattern(expected).fullmatch(printed):
            raise Fault(f"expected\n{expected}\nand it printed\n{printed}")
        self.ran += 1

    def close(self):
        for terminal in [*self.terminals.values(), self.shell]:
            terminal.signal(signal.SIGKILL)
            terminal.process.wait()
        self.home.cleanup()


def main():
    arguments = sys.argv[1:]
    if "--help" in arguments:
        print(__doc__)
        return
    slow = "--slow" in arguments
    named = [pathlib.Path(argument).resolve() for argument in arguments if argument != "--slow"]
    pages = named or [page for page in sorted((ROOT / "docs").glob("*.md")) if MARK in page.read_text()]
    for page in pages:
        began = time.monotonic()
        run = None
        try:
            run = Run(page, slow)
            run.run()
            if run.lacks and os.environ.get("EXONET_NO_SKIPS"):
                raise Fault(f"{page.relative_to(ROOT)} needs `{run.lacks}`")
            if run.lacks:
                print(f"SKIPPED {page.relative_to(ROOT)}: it needs `{run.lacks}`")
                continue
            print(f"{page.relative_to(ROOT)}: {run.ran} blocks did as it says, {time.monotonic() - began:.1f} s")
        except Fault as fault:
            sys.exit(str(fault))
        finally:
            if run:
                run.close()


if __name__ == "__main__":
    main()
