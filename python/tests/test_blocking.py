"""The same on threads."""

import os
import signal
import sys
import threading
import time
import warnings

import exonet
import pytest
from exonet import blocking


def node(**options):
    return blocking.Node(allow="anyone", bind="127.0.0.1:0", **options)


def test_messages_calls_and_batches():
    with node() as bob, node() as alice:
        receipt = alice.send(bob.address, b"hello", tag="t")
        with bob.recv(timeout=10) as delivery:
            assert (delivery.body, delivery.sender) == (b"hello", alice.id)
        assert receipt.wait(10).outcome is exonet.Outcome.DELIVERED
        sent = alice.send_many(bob.address, [b"x"] * 1_000)
        unguarded, got = bob.at_most_once(), 0
        while got < 1_000:
            got += len(unguarded.recv_many(timeout=10))
        assert sent.wait(10).delivered == 1_000
        assert alice.ping(bob.address) > 0

        @bob.method("price")
        def price(request):
            if request.body == b"tea":
                return b"3"
            raise exonet.Failure(404)

        assert alice.call(bob.address, "price", b"tea").body == b"3"
        with pytest.raises(exonet.CallFailed):
            alice.call(bob.address, "price", b"milk", timeout=10)


def test_patterns():
    with node() as bob, node() as alice:
        orders = alice.stream(bob.address, "orders")
        for n in range(10):
            orders.send(str(n).encode())
        orders.close()
        got = []
        for delivery in bob.accept_stream(timeout=10):
            got.append(int(delivery.body))
            delivery.ack()
        assert got == list(range(10))
        chat = alice.session(bob.address, "chat")
        chat.send(b"hello")
        served = bob.accept_session(timeout=10)
        served.recv(timeout=10).ack()
        rest = []
        reader = threading.Thread(target=lambda: rest.extend(served))
        reader.start()
        chat.close()
        reader.join(10)
        assert not reader.is_alive() and rest == []
        receipt = alice.group([bob.address]).send(b"x", mode="all")
        bob.recv(timeout=10).ack()
        assert receipt.wait(10).reached
        prices = alice.group([bob.address]).stream("prices")
        prices.send(b"3", mode="all", timeout=10)
        lines = bob.accept_stream(timeout=10)
        lines.recv(timeout=10).ack()
        lines.send(b"thanks")
        lines.close()
        answers = prices.answers(bob.id)
        assert [(line.body, line.ack()) for line in answers] == [(b"thanks", None)]
        end = prices.close(timeout=10)
        assert lines.recv(timeout=10) is None
        assert end.wait(10).reached
        assert prices.departed(timeout=10) is None


def test_a_wait_ends_at_its_timeout_and_loses_nothing():
    with node() as bob, node() as alice:
        with pytest.raises(TimeoutError, match="did not end within"):
            bob.recv(timeout=0.01)
        for wrong in (-1, float("nan"), 1e300):
            with warnings.catch_warnings(), pytest.raises(exonet.UsageError, match="timeout must be"):
                warnings.simplefilter("error")
                # A warning in a destructor is not raised.
                unraised = []
                sys.unraisablehook, hook = unraised.append, sys.unraisablehook
                try:
                    bob.recv(timeout=wrong)
                finally:
                    sys.unraisablehook = hook
                    assert not unraised
        alice.send(bob.address, b"x")
        # Longer than the clock goes.
        with bob.recv(timeout=1e19) as delivery:
            assert delivery.attempt == 1


def test_other_threads_run_while_one_waits():
    with node() as bob, node() as alice:
        got = []

        def serve():
            for delivery in bob:
                got.append(delivery.body)
                delivery.ack()

        thread = threading.Thread(target=serve)
        thread.start()
        receipts = [alice.send(bob.address, b"x") for _ in range(100)]
        assert all(receipt.wait(10).outcome.has_it for receipt in receipts)
        bob.close()
        thread.join(10)
        assert not thread.is_alive() and len(got) == 100


def test_a_signal_ends_a_wait():
    with node() as bob:
        previous = signal.signal(signal.SIGALRM, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            with pytest.raises(KeyboardInterrupt):
                bob.recv(timeout=30)
        finally:
            signal.signal(signal.SIGALRM, previous)


@pytest.mark.filterwarnings("ignore:.*fork.*")
def test_a_child_of_a_fork_makes_nodes_of_its_own():
    with node() as bob, node() as alice:
        alice.send(bob.address, b"x")
        pending = bob._node.recv()
        child = os.fork()
        if child == 0:
            code = 1
            try:
                for use in (lambda: alice.send(bob.address, b"x"), lambda: pending.wait(), lambda: bob.close()):
                    try:
                        use()
                        os._exit(2)
                    except exonet.ForkedError as error:
                        if "make a new Node" not in str(error):
                            os._exit(3)
                del use, pending
                with node() as own, node() as other:
                    receipt = own.send(other.address, b"y")
                    other.recv(timeout=10).ack()
                    code = 0 if receipt.wait(10).outcome.has_it else 4
            finally:
                os._exit(code)
        until = time.monotonic() + 30
        while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0) and time.monotonic() < until:
            time.sleep(0.01)
        if ended == (0, 0):
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        assert ended[0] == child and os.waitstatus_to_exitcode(ended[1]) == 0
        with pending.wait(10) as delivery:
            assert delivery.body == b"x"


def test_a_peer_its_figures_and_listeners():
    with node() as bob, node() as alice:
        assert alice.is_started
        peer = alice.peer(bob.address)
        assert peer.id == bob.id
        assert peer.stats() is None
        receipt = peer.send(b"x")
        bob.recv(timeout=10).ack()
        assert receipt.wait(10).outcome is exonet.Outcome.DELIVERED
        assert alice.stats()["messages_delivered"] == 1
        figures = peer.stats()
        assert figures["connected"] is True and figures["rtt_seconds"] > 0
        assert peer.ping() > 0 and alice.ping(peer) > 0
        assert alice.group([peer]).members() == [bob.id]
        streams, sessions = bob.stream_listener("row"), bob.session_listener("talk")
        stream = alice.stream(bob.address, "row")
        stream.send(b"1")
        accepted = streams.accept(timeout=10)
        assert accepted.name == "row"
        accepted.recv(timeout=10).ack()
        session = alice.session(bob.address, "talk")
        session.send(b"2")
        taken = sessions.accept(timeout=10)
        assert taken.name == "talk"
        taken.recv(timeout=10).ack()
        session.abort()


def test_nothing_of_the_node_is_missing():
    public = {name for name in dir(exonet.Node) if not name.startswith("_")}
    assert public - set(dir(blocking.Node)) == set()
