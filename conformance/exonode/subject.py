"""What `exon conformance` asks of an implementation: docs/conformance.md, "The subject"."""

from .node import Node


class Subject(Node):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.later = []                                     # (when, what to do)

    def on_message(self, peer, head, body, between):
        if head.tag == b"echo":
            self.send(peer.id, None, body, b"echo" if head.place else b"echoed", head.place)
        if head.tag == b"reject":
            return 2, 7, "as asked"
        return (1, 5, "") if head.tag == b"process" else (1, 0, "") if head.confirm else None

    def on_call(self, peer, method, body, s):
        if method == b"echo":
            peer.answer(s, 0, body)
        elif method == b"fail":
            peer.answer(s, 42, body)
        elif method == b"slow":
            self.later.append((self.now + 2.0, lambda: peer.answer(s, 0, body)))
        elif method == b"back":
            letter = self.send(peer.id, None, body, b"echo", call=True)
            self.later.append((self.now, lambda: self.returned(peer, s, letter)))
        else:
            super().on_call(peer, method, body, s)

    def returned(self, peer, s, letter):
        if letter.outcome is None:
            self.later.append((self.now + 0.01, lambda: self.returned(peer, s, letter)))
        elif letter.reply:
            peer.answer(s, *letter.reply)
        else:
            peer.answer(s, 1, str(letter.outcome).encode())

    def poll(self, now):
        due = [do for when, do in self.later if when <= now]
        self.later = [x for x in self.later if x[0] > now]
        for do in due:
            do()
        return super().poll(now)
