#!/usr/bin/env python3
"""Runs the commands of the pages, as a reader would, and compares what they print with what the page says.

    EXON=target/debug/exon docs/site/commands.py [--slow] [PAGE...]

Without a page: all pages of the repository. The script runs every block of `sh` of a page, in the order of the page, in one shell in an
empty directory. A comment before a block says how to treat the block:

    <!-- terminal: NAME -->   run it in a shell of its own. The page goes on when the shell has printed the next block, or an address
    <!-- beside: COMMAND -->  run COMMAND in a terminal that the reader does not see. It has to print its address
    <!-- first: COMMAND -->   run COMMAND, which the reader does not see: it makes files, names and the like
    <!-- for: TEXT = OTHER -->  from here on, run OTHER in place of TEXT
    <!-- end: NAME -->        send the signal of Ctrl-C to that shell. The next block is what it still prints
    <!-- kill: NAME -->       send the signal of `kill -9` to everything in that shell
    <!-- file: NAME -->       write the block, of any language, to this file
    <!-- exit: CODE -->       it must end with this exit code; without this comment, with 0
    <!-- slow -->             run it only with --slow
    <!-- needs: COMMAND -->   if COMMAND fails, print SKIPPED and leave out the rest of the page. With EXONET_NO_SKIPS, fail
    <!-- elsewhere: FILE -->  do not run it. FILE of the repository must have its lines, and a test runs them or what they run
    <!-- not run: REASON -->  do not run it. If REASON names a file of the repository, the file must exist
    <!-- tested: FILE -->     at the top of a page: the test FILE, which names the page, runs its blocks of `sh`

The script runs all other commands. A command in a block of another language than `sh` is a fault, unless such a comment excuses the block.

`ID@HOST:PORT` in a block is the address that the last terminal has printed. A command that listens without `--bind` gets a free port of the
loopback. The block of `text` after a command is the expected output. In it, a time, an id, the number of a process and a path below
`~/.local/state/exonet` stand for any other. `[..]` stands for any text within a line, and a line `...` for any lines. The script replaces
ports of 127.0.0.1 by free ones.
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
# The pages of the repository.
PAGES = ("*.md", "docs/*.md", "*/README.md")
# These comments stand alone. The others belong to the block that follows.
EVENTS = ("end", "kill", "needs", "beside", "first", "for", "tested")
COMMENT = re.compile(rf"^<!-- (terminal|file|exit|slow|elsewhere|not run|{'|'.join(EVENTS)})(?:: (.*?))? -->$")
PORT = re.compile(r"127\.0\.0\.1:(\d{4,5})")
ADDRESS = re.compile(r"\ba[a-z2-7]{55}@127\.0\.0\.1:\d+\b")
# A line that a reader would type, in a block that is not of `sh`.
TYPED = re.compile(r"^(?:\w*\$ +)?(?:exon|cargo|curl|ssh|python3|pip|make|sudo|packaging/\S+) |^\w*\$ ", re.MULTILINE)
SHELLS = ("bash", "console", "shell", "shell-session", "zsh")
NAMED_FILE = re.compile(r"[\w./-]+\.(?:rs|sh|py|md)\b")
# `exon`, but a command that listens without `--bind` gets a free port of the loopback.
LOOPBACK = """#!/bin/bash
case "$1 $2" in
    "names serve" | "proxy serve") at=2 ;;
    "listen "* | "serve "* | "share "* | "up "*) at=1 ;;
    *) at=0 ;;
esac
for argument in "$@"; do
    [[ $argument == --exec ]] && break
    [[ $argument == --bind* ]] && at=0
done
((at == 0)) || set -- "${@:1:at}" --bind 127.0.0.1:0 "${@:at+1}"
exec "$EXON_OF_PAGES" "$@"
"""
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
            if comment[1] in EVENTS:
                yield number, {}, comment[1], comment[2] or ""
            else:
                notes[comment[1]] = comment[2] or ""
    if block is not None:
        raise Fault(f"the block of line {block[0]} has no end")
    if notes:
        raise Fault(f"no block follows {notes}")


def tested(found):
    """The test that runs the blocks of a page, if there is one."""
    return next((body for _, _, language, body in found if language == "tested"), None)


def is_run(found, notes, language):
    """Whether this script runs a block. A slow block also needs --slow."""
    return language == "sh" and not tested(found) and not {"file", "elsewhere", "not run"} & notes.keys()


def check(page, found):
    """Fails if the page has a command that is neither run nor excused."""
    for line, notes, language, body in found:
        faults = []
        named = [body] if language == "tested" else [notes.get("elsewhere"), *NAMED_FILE.findall(notes.get("not run", ""))]
        faults += [f"there is no {file}" for file in named if file and not (ROOT / file).is_file()]
        if language == "tested" and not faults and f"{page.name}\")" not in (ROOT / body).read_text():
            faults.append(f"{body} does not name the page")
        if "elsewhere" in notes and not faults:
            there = (ROOT / notes["elsewhere"]).read_text()
            typed = [line.split(" # ")[0].strip() for line in body.split("\n")]
            faults += [f"{notes['elsewhere']} does not have {line!r}" for line in typed if line not in there]
        if "not run" in notes and not notes["not run"]:
            faults.append("say why it is not run")
        excused = {"file", "elsewhere", "not run"} & notes.keys()
        if language in SHELLS:
            faults.append("commands are a block of `sh`")
        if language in ("", "text") and not excused and (typed := TYPED.search(body)):
            faults.append(f"nothing runs {body[typed.start():].splitlines()[0]!r}: make it `sh`, or say why it is not run")
        if faults:
            raise Fault(f"{page.relative_to(ROOT)}:{line}: {'; '.join(faults)}")


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
        self.output, self.over, self.changed = "", False, threading.Condition()
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
            self.over = True
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
    def __init__(self, page, found, slow):
        self.page, self.found, self.slow, self.ran, self.lacks = page, found, slow, 0, None
        self.terminals, self.ports, self.words = {}, {}, {}
        self.home = tempfile.TemporaryDirectory()
        exon = pathlib.Path(os.environ.get("EXON", ROOT / "target/debug/exon")).resolve()
        if not exon.is_file():
            raise Fault(f"there is no {exon}: build it by `cargo build -p exonet-cli`, or let EXON name it")
        commands = pathlib.Path(self.home.name) / "bin"
        commands.mkdir()
        (commands / "exon").write_text(LOOPBACK)
        (commands / "exon").chmod(0o755)
        self.directory = pathlib.Path(self.home.name) / "work"
        self.directory.mkdir()
        # Where the tutorials expect a clone.
        (self.directory / "exonet").symlink_to(ROOT)
        self.environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith(("EXON", "RUST_"))},
            "PATH": f"{commands}:{os.environ['PATH']}",
            "EXONET_STATE": str(pathlib.Path(self.home.name) / "state"),
            "PYTHONUNBUFFERED": "1",
            "EXON_OF_PAGES": str(exon),
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

    def page_blocks(self):
        following = self.found[1:] + [None]
        for block, after in zip(self.found, following):
            if block[2] != "text" or block[1]:
                printed = after is not None and after[2] == "text" and not after[1]
                yield block, self.free(after[3]) if printed else None

    def run(self):
        for (line, notes, language, body), expected in self.page_blocks():
            if language == "needs":
                if subprocess.run(body, shell=True, cwd=self.directory, env=self.environment, capture_output=True).returncode:
                    self.lacks = body
                    return
                continue
            try:
                self.block(notes, language, body, expected)
            except Fault as fault:
                raise Fault(f"{self.page.relative_to(ROOT)}:{line}: {fault}") from None

    def block(self, notes, language, body, expected):
        word, _, other = body.partition(" = ") if language == "for" else ("", "", body)
        body = self.free(other)
        for known, replacement in self.words.items():
            body = body.replace(known, replacement)
        if language == "for":
            self.words[word] = body
        elif language == "first":
            self.execute(body, None, 0, HANG)
        elif language == "beside":
            self.begin(f"line {self.ran}: {body}", body, None)
        elif language in ("end", "kill"):
            self.end(language, body, expected)
        elif "file" in notes:
            path = self.directory / notes["file"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(body + "\n")
        elif is_run(self.found, notes, language):
            if "terminal" in notes:
                self.begin(notes["terminal"], body, expected)
            elif "slow" not in notes or self.slow:
                self.execute(body, expected, int(notes.get("exit", 0)), SLOW if "slow" in notes else HANG)

    def begin(self, name, body, expected):
        # It is what the shell becomes, so that a signal meets it.
        terminal = Terminal(["bash"], self.directory, self.environment)
        self.terminals[name] = terminal
        terminal.process.stdin.write(body + "\nexit\n")
        terminal.process.stdin.flush()
        if expected is None:
            terminal.wait_for(lambda printed: ADDRESS.search(printed) or terminal.over, "its address")
        printed = terminal.output if expected is None else self.expect(terminal, expected)
        address = ADDRESS.search(printed)
        if address:
            self.words["ID@HOST:PORT"] = address[0]
        elif expected is None:
            raise Fault(f"it ended without an address, and printed\n{printed}")
        self.ran += 1

    def expect(self, terminal, expected):
        wanted = pattern(expected)
        terminal.wait_for(lambda printed: wanted.match(printed) or terminal.over, f"\n{expected}")
        found = wanted.match(terminal.output)
        if not found:
            raise Fault(f"expected\n{expected}\nand it printed\n{terminal.output}")
        return terminal.take(found.end())

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
        shell.process.stdin.write(f"ended=0; trap 'ended=$?' ERR\n{{\n{body}\n}} < /dev/null\necho; echo \"<ended $ended>\"\n")
        shell.process.stdin.flush()
        end = re.compile(r"\n?^<ended (\d+)>\n", re.MULTILINE)
        shell.wait_for(lambda printed: end.search(printed) or shell.over, f"the end of\n{body}", most)
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
        # If the page failed, this ends processes that it left in the background.
        for socket_of in pathlib.Path(self.environment["EXONET_STATE"]).glob("*/control/socket"):
            name = socket_of.parents[1].name
            exon = [self.environment["EXON_OF_PAGES"], "down", "--as", name]
            subprocess.run(exon, env=self.environment, capture_output=True, timeout=HANG, check=False)
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
    pages = named or [page for kind in PAGES for page in sorted(ROOT.glob(kind))]
    for page in pages:
        began = time.monotonic()
        run = None
        try:
            found = list(blocks(page.read_text()))
            check(page, found)
            if not any(is_run(found, notes, language) for _, notes, language, _ in found):
                continue
            run = Run(page, found, slow)
            run.run()
            if run.lacks and os.environ.get("EXONET_NO_SKIPS"):
                raise Fault(f"{page.relative_to(ROOT)} needs `{run.lacks}`")
            if run.lacks:
                print(f"SKIPPED {page.relative_to(ROOT)} after {run.ran} blocks: it needs `{run.lacks}`")
                continue
            print(f"{page.relative_to(ROOT)}: {run.ran} blocks did as it says, {time.monotonic() - began:.1f} s")
        except Fault as fault:
            sys.exit(str(fault))
        finally:
            if run:
                run.close()


if __name__ == "__main__":
    main()
