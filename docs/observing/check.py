#!/usr/bin/env python3
"""Shows that every query of the dashboard has data: a real Prometheus, and real nodes under traffic.

    apt-get install prometheus
    cargo build -p exonet-cli
    python3 docs/observing/check.py target/debug/exon

Nothing is left behind: all is in a folder of its own, on free ports of 127.0.0.1.
"""

import json
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

HERE = pathlib.Path(__file__).parent
# What stands for what Grafana puts in.
VALUES = {"$node": ".+", "$peer": ".+", "$__rate_interval": "5s"}
PATIENCE = 120


def free_port():
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        return door.getsockname()[1]


class World:
    def __init__(self, exon, place):
        self.exon, self.place, self.running = exon, place, []

    def start(self, *args):
        log = open(self.place / f"log{len(self.running)}", "w")
        command = [self.exon, *args, "--json", "--bind", "127.0.0.1:0"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=self.env())
        self.running.append(process)
        first = json.loads(process.stdout.readline())
        # What it says further is read by nobody, and must not stop it.
        subprocess.Popen(["cat"], stdin=process.stdout, stdout=subprocess.DEVNULL)
        return first

    def env(self):
        import os

        return {**os.environ, "EXONET_STATE": str(self.place / "state")}

    def run(self, *args, text=None):
        return subprocess.run([self.exon, *args], input=text, text=True, capture_output=True, env=self.env())

    def prometheus(self, targets):
        port = free_port()
        config = self.place / "prometheus.yml"
        jobs = {"job_name": "exonet", "scrape_interval": "1s", "static_configs": [{"targets": targets}]}
        config.write_text(json.dumps({"scrape_configs": [jobs]}))
        command = ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={self.place}/tsdb"]
        command += [f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn"]
        log = open(self.place / "prometheus.log", "w")
        self.running.append(subprocess.Popen(command, stdout=log, stderr=log))
        return f"http://127.0.0.1:{port}"

    def end(self):
        for process in reversed(self.running):
            process.terminate()
        for process in self.running:
            process.wait(30)


def ask(prometheus, query):
    """What a query gives; that it is no query is an error, and that nothing answers yet is none."""
    address = f"{prometheus}/api/v1/query?{urllib.parse.urlencode({'query': query})}"
    try:
        with urllib.request.urlopen(address, timeout=10) as answer:
            return json.load(answer)["data"]["result"]
    except urllib.error.HTTPError as refused:
        if refused.code == 400:
            sys.exit(f"not valid: {query}: {json.load(refused)['error']}")
        return []
    except OSError:
        return []


def queries():
    dashboard = json.loads((HERE / "dashboard.json").read_text())
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            query = target["expr"]
            for name, value in VALUES.items():
                query = query.replace(name, value)
            assert "$" not in query, query
            yield panel["title"], query


def real(results):
    """Numbers, of which a quotient of nothing is none."""
    return [found for found in results if found["value"][1] != "NaN"]


def main():
    if shutil.which("prometheus") is None:
        print("SKIPPED: prometheus is not here")
        return
    exon = str(pathlib.Path(sys.argv[1]).resolve())
    with tempfile.TemporaryDirectory() as place:
        world = World(exon, pathlib.Path(place))
        try:
            check(world)
        finally:
            world.end()


def check(world):
    ports = [free_port() for _ in range(3)]
    targets = [f"127.0.0.1:{port}" for port in ports]
    till = world.start("listen", "--as", "till", "--metrics", targets[0])["peer"]
    sorter = world.start("serve", "--as", "sorter", "--metrics", targets[1], "--echo")["peer"]
    shop = world.start("up", "--as", "shop", "--metrics", targets[2], "--http", "127.0.0.1:0", "--anyone")
    prometheus = world.prometheus(targets)
    token = pathlib.Path(shop["http_token"]).read_text().strip()

    def call():
        body = json.dumps({"to": sorter, "method": "echo", "text": "x"}).encode()
        head = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        urllib.request.urlopen(urllib.request.Request(shop["http"] + "/v1/calls", body, head), timeout=30).read()

    missing, until = list(queries()), time.monotonic() + PATIENCE
    total = len(missing)
    while missing and time.monotonic() < until:
        sent = world.run("send", "--as", "shop", "--durable", till, text="one\ntwo\nthree\n")
        assert sent.returncode == 0, sent.stderr
        call()
        missing = [(title, query) for title, query in missing if not real(ask(prometheus, query))]
        time.sleep(0.5)
    for title, query in missing:
        print(f"no data: {title}: {query}")
    up = {found["metric"]["instance"]: found["value"][1] for found in ask(prometheus, "up")}
    print(f"{total - len(missing)} of {total} queries have data; targets {up}")
    names = {found["metric"]["__name__"] for found in ask(prometheus, '{__name__=~"exonet_.+"}')}
    unknown = set(re.findall(r"exonet_\w+", (HERE / "dashboard.json").read_text())) - names - {"exonet"}
    assert not unknown, unknown
    sys.exit(1 if missing or set(up.values()) != {"1"} else 0)


if __name__ == "__main__":
    main()
