#!/usr/bin/env python3
"""Drives the demo of a built site in headless Chromium: `docs/build.sh && docs/demo/browser.py [--pictures DIR]`.

Needs `chromium` (Debian: apt-get install chromium), or what CHROMIUM names. With --pictures, the home page, a tutorial and the demo are
stored as they look: light, dark, and as wide as a telephone.
"""

import functools
import html
import http.server
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading

SITE = pathlib.Path(__file__).resolve().parents[2] / "target/site"
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--hide-scrollbars", "--disable-dev-shm-usage",
]
WIDE, NARROW = "1280,2000", "500,3000"


class Quiet(http.server.SimpleHTTPRequestHandler):
    extensions_map = {**http.server.SimpleHTTPRequestHandler.extensions_map, ".wasm": "application/wasm"}

    def log_message(self, *_):
        pass


def chromium(*arguments):
    with tempfile.TemporaryDirectory() as profile:
        command = [os.environ.get("CHROMIUM", "chromium"), *FLAGS, f"--user-data-dir={profile}", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=180)
    if done.returncode:
        sys.exit(f"chromium ended with {done.returncode}: {done.stderr[-2000:]}")
    return done.stdout


def autorun(address, name):
    page = chromium("--virtual-time-budget=30000", "--dump-dom", f"{address}?autorun={name}")
    found = re.search(r'<pre id="demo-result"[^>]*>(.*?)</pre>', page, re.DOTALL)
    if not found or not found[1].startswith("{"):
        sys.exit(f"{address}?autorun={name} says {found and found[1]!r}")
    return json.loads(html.unescape(found[1]))


def check(what, truth, seen):
    print(f"{what}: {'yes' if truth else 'NO'}")
    if not truth:
        sys.exit(json.dumps(seen))


def drive(where, address):
    seen = autorun(address, "1")
    shown = seen["shown"]
    delivered = [shown[name] for name in ("c-sent", "c-delivered", "c-taken", "c-duplicates", "c-queued", "c-doubt")]
    check(f"{where}: of 1,000 messages at 20 % loss all are delivered, none twice", delivered == ["1,000", "1,000", "1,000", "0", "0", "0"], seen)
    seen = autorun(address, "kill")
    counts = seen["counts"]
    check(f"{where}: after a kill without a journal some are unknown", counts["unknown"] > 0 and seen["shown"]["c-unknown"] != "0", seen)
    check(f"{where}: all have an outcome, none is taken twice", counts["delivered"] + counts["unknown"] == 1000 and counts["duplicates"] == 0, seen)


def pictures(directory, home):
    directory.mkdir(parents=True, exist_ok=True)
    pages = {"home": "index.html", "tutorial": "tutorial-shell.html", "demo": "demo.html?autorun=flight", "dead": "demo.html?autorun=dead",
             "comparison": "comparison.html", "glossary": "glossary.html"}
    for name, page in pages.items():
        for look, extra in {"light": [f"--window-size={WIDE}"], "phone": [f"--window-size={NARROW}"],
                            "dark": [f"--window-size={WIDE}", "--blink-settings=preferredColorScheme=0"]}.items():
            path = directory / f"{name}-{look}.png"
            chromium("--virtual-time-budget=8000", *extra, f"--screenshot={path}", f"{home}/{page}")
            print(path)


def main():
    if "--help" in sys.argv:
        print(__doc__)
        return
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=SITE))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    home = f"http://127.0.0.1:{server.server_port}"
    if "--pictures" in sys.argv:
        pictures(pathlib.Path(sys.argv[sys.argv.index("--pictures") + 1]).resolve(), home)
        return
    drive("from a server", f"{home}/demo.html")
    drive("from a disk", f"file://{SITE}/demo.html")


if __name__ == "__main__":
    main()
