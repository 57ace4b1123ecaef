"""A node on a UDP socket.

    python3 -m exonode subject [--bind 127.0.0.1:0] [--state FILE] [--cookies]
    python3 -m exonode send ID@HOST:PORT TEXT... [--tag TAG] [--stream] [--confirm] [--copies N]
    python3 -m exonode call ID@HOST:PORT METHOD BODY
"""

import argparse
import json
import os
import select
import signal
import socket
import sys
import time

from .crypto import id_from_text, id_text
from .message import Place
from .subject import Subject


def endpoint(text):
    host, port = text.rsplit(":", 1)
    return host.strip("[]"), int(port)


def peer(text):
    key, address = text.split("@", 1)
    return id_from_text(key), endpoint(address)


def stored(path):
    """What a file keeps of a node, and how it goes there."""
    kept = {"secret": os.urandom(32).hex(), "D": 0, "latest": 0}
    if os.path.exists(path):
        with open(path, encoding="ascii") as file:
            kept = json.load(file)

    def save(D, latest):
        """Durable when it returns."""
        handle = os.open(path + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(handle, "w", encoding="ascii") as file:
            json.dump({"secret": kept["secret"], "D": D, "latest": latest}, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(path + ".new", path)
        folder = os.open(os.path.dirname(os.path.abspath(path)), os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)

    return {**kept, "secret": bytes.fromhex(kept["secret"]), "save": save}


def run(node, udp, until):
    """Runs the node until `until()`. A tick of 10 ms does for a clock; a node in earnest computes its next alarm."""
    while not until():
        select.select([udp], [], [], 0.01)
        for _ in range(500):
            try:
                data, address = udp.recvfrom(65536)
            except (BlockingIOError, ConnectionError):
                break
            node.receive(data, address[:2], time.monotonic())
        for data, address in node.poll(time.monotonic()):
            try:
                udp.sendto(data, address)
            except OSError:
                pass                                        # as good as lost


def main():
    parser = argparse.ArgumentParser(prog="exonode", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("subject", "send", "call"):
        command = commands.add_parser(name)
        command.add_argument("--bind", default="127.0.0.1:0", type=endpoint, metavar="HOST:PORT")
        command.add_argument("--state", metavar="FILE", help="keep the key and D in FILE")
        command.add_argument("--cookies", action="store_true", help="answer openings by RETRY first")
        command.add_argument("--suite", type=int, choices=(1, 2), default=1)
        if name != "subject":
            command.add_argument("peer", type=peer, metavar="ID@HOST:PORT")
            command.add_argument("--timeout", type=float, default=30.0, metavar="SECONDS")
        if name == "send":
            command.add_argument("text", nargs="+")
            command.add_argument("--tag", default="")
            command.add_argument("--copies", type=int, default=1, help="send each TEXT so many times, numbered")
            command.add_argument("--stream", action="store_true", help="as a stream named by --tag")
            command.add_argument("--confirm", action="store_true")
        if name == "call":
            command.add_argument("method")
            command.add_argument("body")
    args = parser.parse_args()

    udp = socket.socket(socket.AF_INET6 if ":" in args.bind[0] else socket.AF_INET, socket.SOCK_DGRAM)
    udp.bind(args.bind)
    udp.setblocking(False)
    node = Subject(**(stored(args.state) if args.state else {}), suite=args.suite, cookies=args.cookies)
    stop, letters = [], []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.append(True))
    if args.command == "subject":
        host, port = udp.getsockname()[:2]
        print(f"{id_text(node.id)}@{f'[{host}]' if ':' in host else host}:{port}", flush=True)
        run(node, udp, lambda: stop)
    else:
        ends = time.monotonic() + args.timeout
        if args.command == "call":
            letters = [node.send(*args.peer, args.body.encode(), args.method.encode(), call=True)]
        else:
            texts = [text if args.copies == 1 else f"{text} {i}" for text in args.text for i in range(args.copies)]
            letters = [node.send(*args.peer, text.encode(), args.tag.encode(),
                                 Place(0, 0, 0, i + 1 == len(texts)) if args.stream else None, args.confirm)
                       for i, text in enumerate(texts)]
        run(node, udp, lambda: stop or time.monotonic() > ends or all(letter.outcome for letter in letters))
    node.end()
    ends = time.monotonic() + 2
    run(node, udp, lambda: node.ended() or time.monotonic() > ends)
    for letter in letters:
        if letter.reply:
            print(letter.reply[0], letter.reply[1].decode(errors="replace"))
        else:
            print(letter.outcome or "unknown")
    good = {"delivered", "replied"}
    return 0 if all(x.outcome in good or x.outcome == ("processed", 5) for x in letters) else 1


if __name__ == "__main__":
    sys.exit(main())
