#!/usr/bin/env python3
"""Shows the page of `exon up --ui` in a headless Chromium, with real traffic, and takes pictures of it.

    apt-get install chromium
    cargo build -p exonet-cli
    python3 docs/observing/screens.py target/debug/exon FOLDER

It fails if the page says something else than the node, if something on it is wider than the screen, or if the page has an error.
"""

import base64
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--remote-debugging-pipe",
]
SCREENS = [("wide", 1200, 900), ("phone", 390, 844)]
PATIENCE = 60


class Chromium:
    """A browser that is told what to do over a pipe."""

    def __init__(self, place):
        down, self.down = os.pipe()
        self.up, up = os.pipe()
        command = ["chromium", *FLAGS, f"--user-data-dir={place}/chromium", "about:blank"]
        log = open(place / "chromium.log", "w")

        def pipes():
            os.dup2(down, 60), os.dup2(up, 61)
            os.dup2(60, 3), os.dup2(61, 4)

        self.process = subprocess.Popen(command, stdout=log, stderr=log, preexec_fn=pipes, close_fds=False)
        os.close(down), os.close(up)
        self.number, self.rest, self.errors = 0, b"", []
        target = self.do("Target.createTarget", url="about:blank")["targetId"]
        self.session = None
        self.session = self.do("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.do("Page.enable"), self.do("Runtime.enable"), self.do("Log.enable")

    def do(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if getattr(self, "session", None):
            message["sessionId"] = self.session
        os.write(self.down, json.dumps(message).encode() + b"\0")
        while True:
            told = self.read()
            if told.get("id") == self.number:
                assert "error" not in told, told
                return told["result"]
            if told.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded"):
                self.errors.append(json.dumps(told["params"])[:400])

    def read(self):
        while b"\0" not in self.rest:
            more = os.read(self.up, 1 << 16)
            assert more, "the browser has ended"
            self.rest += more
        message, _, self.rest = self.rest.partition(b"\0")
        return json.loads(message)

    def value(self, code):
        return self.do("Runtime.evaluate", expression=code, returnByValue=True)["result"].get("value")

    def until(self, what, code):
        end = time.monotonic() + PATIENCE
        while not self.value(code):
            assert time.monotonic() < end, f"never: {what}\n{self.errors}\n{self.value('document.body.innerText')}"
            time.sleep(0.2)

    def shoot(self, path):
        picture = self.do("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(picture["data"]))

    def end(self):
        self.process.terminate()
        self.process.wait(30)


class World:
    def __init__(self, exon, place):
        self.exon, self.running = exon, []
        self.env = {**os.environ, "EXONET_STATE": str(place / "state")}

    def start(self, *args):
        command = [self.exon, *args, "--json", "--bind", "127.0.0.1:0"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=self.env)
        self.running.append(process)
        first = json.loads(process.stdout.readline())
        threading.Thread(target=process.stdout.read, daemon=True).start()
        return first, process

    def send(self, shop, to, text, **more):
        body = json.dumps({"to": to, "text": text, "wait_ms": 0, **more}).encode()
        token = pathlib.Path(shop["http_token"]).read_text().strip()
        head = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        request = urllib.request.Request(shop["http"] + "/v1/messages", body, head)
        urllib.request.urlopen(request, timeout=30).read()

    def end(self):
        for process in reversed(self.running):
            process.terminate()
        for process in self.running:
            process.wait(30)


def main():
    exon, folder = str(pathlib.Path(sys.argv[1]).resolve()), pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        place = pathlib.Path(place)
        world = World(exon, place)
        browser = Chromium(place)
        try:
            check(world, browser, folder)
        finally:
            browser.end()
            world.end()


def check(world, browser, folder):
    shop, _ = world.start("up", "--as", "shop", "--ui", "--anyone", "--http", "127.0.0.1:0")
    till, _ = world.start("listen", "--as", "till")
    # Its client never acknowledges, so what is sent there stays in doubt.
    slow, _ = world.start("up", "--as", "slow", "--anyone", "--http", "127.0.0.1:0")
    gone, process = world.start("listen", "--as", "gone")
    world.send(shop, gone["peer"], "hello")
    process.kill()
    stop = threading.Event()

    def traffic():
        n = 0
        while not stop.is_set():
            for _ in range(5):
                world.send(shop, till["peer"], f"order {n}", tag="order")
                n += 1
            stop.wait(0.05)

    flow = threading.Thread(target=traffic)
    flow.start()
    try:
        for n in range(3):
            world.send(shop, slow["peer"], "x" * 700 * (n + 1), tag="invoice")
            world.send(shop, gone["peer"], "where are you", tag="reminder")
        token = pathlib.Path(shop["http_token"]).read_text().strip()
        ask(browser, shop, token)
        for name, width, height in SCREENS:
            size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": name == "phone"}
            browser.do("Emulation.setDeviceMetricsOverride", **size)
            for colours in ("light", "dark"):
                scheme = [{"name": "prefers-color-scheme", "value": colours}]
                browser.do("Emulation.setEmulatedMedia", features=scheme)
                look(browser, shop)
                browser.shoot(folder / f"{name}-{colours}.png")
        numbers = browser.value("document.getElementById('figures').innerText").split("\n")
        print("the page says", dict(zip(numbers[1::2], numbers[0::2])))
    finally:
        stop.set()
        flow.join()
    assert not browser.errors, browser.errors


def ask(browser, shop, token):
    """Without a token it asks for one, and a wrong one is not taken."""
    browser.do("Page.navigate", url=shop["http"] + "/")
    browser.until("it asks for the token", "!!document.querySelector('#ask:not([hidden])')")
    give = "document.getElementById('token').value = %s; document.querySelector('#ask button').click()"
    browser.value(give % json.dumps("wrong-wrong-wrong-wrong"))
    browser.until("it refuses a wrong one", "document.getElementById('state').innerText.includes('is wrong')")
    # The browser tells of an answer that is no success.
    browser.errors.clear()
    browser.value(give % json.dumps(token))
    browser.until("it is live", "document.getElementById('state').innerText == 'live'")


def look(browser, shop):
    browser.until("there is a map of three peers", "document.querySelectorAll('#map g g').length >= 3")
    browser.until("messages flow", "parseFloat(document.getElementById('outnow').innerText) > 0")
    browser.until("doubts have reasons", "document.getElementById('open').innerText.includes('has not taken it yet')")
    browser.until("a peer is away", "document.getElementById('open').innerText.includes('does not answer')")
    time.sleep(8)
    width = browser.value("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert width <= 0, f"{width} pixels wider than the screen"


if __name__ == "__main__":
    main()
