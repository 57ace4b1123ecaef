"""Wrong arguments: each error names the thing and the way out."""

import pickle

import exonet
import pytest
from conftest import node


@pytest.mark.parametrize(
    ("options", "kind", "says"),
    [
        ({"allow": "everyone"}, exonet.UsageError, "anyone"),
        ({"allow": ["me"]}, exonet.AddressError, "is not a node id"),
        ({"durability": "disk"}, exonet.UsageError, "batched=MS"),
        ({"carrier": "sctp"}, exonet.UsageError, "udp"),
        ({"attempts": 0}, exonet.UsageError, "at least 1"),
        ({"doubt_timeout": -1.0}, exonet.UsageError, "doubt_timeout"),
        ({"bind": 4455}, TypeError, "bind"),
        ({"colour": "red"}, TypeError, "colour"),
    ],
)
def test_an_option_that_cannot_be(options, kind, says):
    with pytest.raises(kind, match=says):
        exonet.Node(**options)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"bind": "localhost"}, "not a socket address"),
        ({"bind": "192.0.2.1:1"}, "cannot bind 192.0.2.1:1"),
        ({"durability": "sync"}, "state_dir"),
        ({"state_dir": "/dev/null/x"}, "/dev/null/x"),
    ],
)
async def test_a_node_that_cannot_start(options, says):
    with pytest.raises(exonet.BuildError, match=says):
        await exonet.Node(**options).start()


async def test_a_port_and_a_directory_serve_one_node(tmp_path):
    async with node(state_dir=tmp_path) as first:
        with pytest.raises(exonet.BuildError, match="in use"):
            await node(bind="127.0.0.1:%d" % first.local_address[1]).start()
        with pytest.raises(exonet.BuildError):
            await node(state_dir=tmp_path).start()


def test_a_node_that_was_not_started():
    with pytest.raises(exonet.UsageError, match="has not been started"):
        exonet.Node().id  # noqa: B018


async def test_a_node_that_was_started_twice():
    async with node() as bob:
        with pytest.raises(exonet.UsageError, match="started already"):
            await bob.start()


@pytest.mark.parametrize(
    ("arguments", "keywords", "kind", "says"),
    [
        (("nobody", b"x"), {}, exonet.AddressError, "ID@HOST:PORT"),
        ((None, b"x"), {}, exonet.ArgumentTypeError, "a peer is a text"),
        (("BOB", "text"), {}, exonet.ArgumentTypeError, r"\.encode\(\)"),
        (("BOB", 7), {}, exonet.ArgumentTypeError, "int"),
        (("BOB", b"x"), {"priority": "asap"}, exonet.UsageError, "urgent"),
        (("BOB", b"x"), {"confirm": "yes"}, exonet.UsageError, "processed"),
        (("BOB", b"x"), {"deadline": float("nan")}, exonet.UsageError, "deadline"),
        (("BOB", b"x"), {"tag": "t" * 256}, exonet.SendError, "255 bytes"),
        (("BOB", b"x" * 2_000), {}, exonet.SendError, "max_message"),
    ],
)
async def test_a_message_that_cannot_be_sent(arguments, keywords, kind, says):
    async with node() as bob, node(max_message=1_000) as alice:
        to, body = arguments
        with pytest.raises(kind, match=says) as error:
            await alice.send(bob.address if to == "BOB" else to, body, **keywords)
        assert isinstance(error.value, exonet.Error)


async def test_bodies_of_a_batch_are_bytes():
    async with node() as bob, node(max_message=1_000) as alice:
        with pytest.raises(exonet.ArgumentTypeError, match="each body"):
            await alice.send_many(bob.address, [b"x", "y"])
        with pytest.raises(exonet.SendError) as error:
            await alice.send_many(bob.address, [b"x", b"y" * 2_000])
        assert error.value.sent == 1
        (await bob.recv()).ack()


def test_errors_survive_pickling():
    error = exonet.CallFailed("no", status=404, body=b"x", id="i", has_not_run=False)
    other = pickle.loads(pickle.dumps(error))
    assert (type(other), str(other), other.status, other.body) == (exonet.CallFailed, "no", 404, b"x")
    failure = pickle.loads(pickle.dumps(exonet.Failure(7, "why")))
    assert (failure.status, failure.body) == (7, b"why")


def test_everything_is_documented():
    undocumented = []
    for name in exonet.__all__:
        thing = getattr(exonet, name)
        if not thing.__doc__:
            undocumented.append(name)
        if isinstance(thing, type):
            for attribute in vars(thing):
                public = not attribute.startswith("_") and not isinstance(vars(thing)[attribute], (int, bytes, str, type(None)))
                if public and not getattr(thing, attribute).__doc__:
                    undocumented.append(f"{name}.{attribute}")
    assert undocumented == []


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda _: exonet.Node(max_message=-1), "max_message must be at least 0, not -1"),
        (lambda _: exonet.Node(attempts=0), "attempts must be at least 1, not 0"),
        (lambda _: exonet.Node(attempts=2**40), "attempts must be less, not 1099511627776"),
        (lambda node: node.recv_many(0), "max must be at least 1, not 0"),
        (lambda node: node.at_most_once().recv_many(-1), "max must be at least 1, not -1"),
        (lambda node: node.session(node.address, "s", longest=-1), "longest must be at least 0, not -1"),
        (lambda _: exonet.quorum(send=2, acks=3), "acks must be from 1 to send, which is 2, not 3"),
        (lambda _: exonet.balanced(0), "k must be at least 1, not 0"),
    ],
)
async def test_a_number_out_of_its_bounds(call, says):
    async with node() as alice:
        with pytest.raises(exonet.UsageError, match=says):
            call(alice)


async def test_a_status_out_of_its_bounds_leaves_the_delivery():
    async with node() as alice, node() as bob:
        receipt = await alice.send(bob.address, b"x")
        delivery = await bob.recv()
        for wrong in (-1, 2**40):
            with pytest.raises(exonet.UsageError, match="status must be"):
                delivery.ack(wrong)
        with pytest.raises(exonet.ArgumentTypeError, match="status must be a whole number"):
            delivery.reject("no", "x")
        delivery.ack()
        assert (await receipt).outcome is exonet.Outcome.DELIVERED
