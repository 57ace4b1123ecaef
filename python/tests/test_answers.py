"""A delivery is acknowledged and another message is sent, in one step: both or neither."""

import asyncio
import gc
import pickle
import warnings

import exonet
import pytest
from conftest import node
from exonet import Outcome, blocking

LONG = b"x" * 2_000
"""More than a node with the limit of `short()` sends."""


def short(**options):
    return node(max_message=1_000, **options)


async def taken(receiver):
    with await receiver.recv() as delivery:
        return delivery.body


async def test_both_happen():
    async with node() as bob, node() as alice, node() as carol:
        asked = await alice.send(bob.address, b"question", confirm="processed")
        answer = await (await bob.recv()).answer(b"answer", tag="t", confirm="processed")
        with await alice.recv() as delivery:
            assert (delivery.body, delivery.tag, delivery.sender) == (b"answer", "t", bob.id)
        assert ((await asked).outcome, (await answer).outcome) == (Outcome.PROCESSED, Outcome.PROCESSED)
        for to in (carol.address, bob.peer(carol.address)):
            asked = await alice.send(bob.address, b"on")
            sent = await (await bob.recv()).ack_and_send(to, b"and on", priority="urgent")
            with await carol.recv() as delivery:
                assert (delivery.body, delivery.priority) == (b"and on", "urgent")
            assert ((await asked).outcome, (await sent).outcome) == (Outcome.DELIVERED, Outcome.DELIVERED)


async def refused(delivery):
    """Gives back what could not be answered."""
    with pytest.raises(exonet.AnswerError, match="not sent: .*max_message") as error:
        await delivery.answer(LONG)
    assert error.value.delivery is delivery
    assert type(error.value.__cause__) is exonet.SendError
    return error.value.delivery


async def test_a_message_that_was_not_answered_is_still_there():
    async with short() as bob, node() as alice:
        asked = await alice.send(bob.address, b"1", confirm="processed")
        delivery = await refused(await bob.recv())
        waiting = asyncio.ensure_future(bob.recv())
        await asyncio.sleep(0)
        assert not waiting.done() and delivery.attempt == 1
        assert (await delivery.answer(b"another")) and await taken(alice) == b"another"
        assert (await asked).outcome is Outcome.PROCESSED
        with pytest.raises(exonet.UsageError, match="dealt with already"):
            await delivery.answer(b"once more")

        asked = await alice.send(bob.address, b"2", confirm="processed")
        (await refused(await waiting)).retry_after(0.0)
        delivery = await refused(await bob.recv())
        assert delivery.attempt == 2
        delivery.ack(7)
        assert (await asked).status == 7

        asked = await alice.send(bob.address, b"3")
        (await refused(await bob.recv())).reject("it has no answer", 9)
        assert ((await asked).outcome, (await asked).status) == (Outcome.REJECTED, 9)


async def test_a_delivery_that_is_dropped_with_its_error_is_handed_out_again():
    async with short() as bob, node() as alice:
        await alice.send(bob.address, b"question")
        delivery = await bob.recv()
        try:
            await delivery.answer(LONG)
        except exonet.AnswerError as error:
            kept = error
        del delivery
        gc.collect()
        waiting = asyncio.ensure_future(bob.recv())
        await asyncio.sleep(0)
        assert not waiting.done(), "the error has it"
        del kept
        gc.collect()
        with pytest.raises(exonet.AnswerError):
            with await waiting as delivery:
                assert delivery.attempt == 2
                await delivery.answer(LONG)
        with await bob.recv() as delivery:
            assert delivery.attempt == 3


async def test_a_peer_of_another_node_gets_nothing():
    async with node() as bob, node() as alice:
        await alice.send(bob.address, b"question")
        delivery = await bob.recv()
        with pytest.raises(exonet.AnswerError, match="another node") as error:
            await delivery.ack_and_send(alice.peer(bob.address), b"x")
        assert type(error.value.__cause__) is exonet.UsageError
        error.value.delivery.ack()


async def test_wrong_arguments_leave_the_delivery_as_it_is():
    async with node() as bob, node() as alice:
        await alice.send(bob.address, b"question")
        delivery = await bob.recv()
        for wrong, kind in (
            (lambda: delivery.answer("text"), exonet.ArgumentTypeError),
            (lambda: delivery.answer(b"x", confirm="yes"), exonet.UsageError),
            (lambda: delivery.ack_and_send("nobody", b"x"), exonet.AddressError),
            (lambda: delivery.ack_and_send(None, b"x"), exonet.ArgumentTypeError),
        ):
            with pytest.raises(kind):
                wrong()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            delivery.answer(b"forgotten")
            gc.collect()
        assert any("never awaited" in str(warning.message) and ".wait()" in str(warning.message) for warning in caught)
        await delivery.answer(b"answer")
        assert await taken(alice) == b"answer"


async def test_an_answer_that_is_cancelled_acknowledges_nothing():
    async with node(queued_messages=1) as bob, node() as alice:
        await alice.send(bob.address, b"question")
        delivery = await bob.recv()
        full = await bob.send(alice.id, b"full")
        answering = asyncio.ensure_future(delivery.answer(b"answer"))
        await asyncio.sleep(0)
        with pytest.raises(exonet.UsageError, match="dealt with already"):
            delivery.ack()
        answering.cancel()
        with pytest.raises(asyncio.CancelledError):
            await answering
        again = await bob.recv()
        assert again.attempt == 2
        assert await taken(alice) == b"full" and (await full).outcome is Outcome.DELIVERED
        await again.answer(b"answer")
        assert await taken(alice) == b"answer"


async def test_a_stream_is_answered_in_the_stream():
    async with short() as bob, node() as alice:
        questions = alice.stream(bob.address, "s")
        asked = await questions.send(b"question")
        answers = await bob.accept_stream()
        delivery = await answers.recv()
        with pytest.raises(exonet.AnswerError, match="max_message") as error:
            await answers.ack_and_send(delivery, LONG)
        assert error.value.delivery is delivery
        answer = await answers.ack_and_send(delivery, b"answer", confirm="processed")
        assert await taken(questions) == b"answer"
        assert ((await asked).outcome, (await answer).outcome) == (Outcome.DELIVERED, Outcome.PROCESSED)
        await questions.send(b"one more")
        await answers.close()
        delivery = await answers.recv()
        with pytest.raises(exonet.AnswerError) as error:
            await answers.ack_and_send(delivery, b"late")
        assert type(error.value.__cause__) is exonet.StreamError
        error.value.delivery.ack()


async def test_a_session_is_answered_in_the_session():
    async with node() as bob, node() as alice:
        here = await alice.session(bob.address, "s")
        asked = await here.send(b"question")
        there = await bob.accept_session()
        delivery = await there.recv()
        # A message of a session is nothing for the others, and they are nothing for a session.
        with pytest.raises(exonet.UsageError, match="session.answer"):
            await delivery.answer(b"x")
        with pytest.raises(exonet.UsageError, match="session.answer"):
            await alice.stream(bob.address, "t").ack_and_send(delivery, b"x")
        with pytest.raises(TypeError, match="Delivery"):
            there.answer(b"not a delivery", b"x")
        await alice.send(bob.address, b"plain")
        plain = await bob.recv()
        with pytest.raises(exonet.UsageError, match="delivery.answer"):
            await there.answer(plain, b"x")
        plain.ack()
        long = b"x" * 300_000
        answer = await there.answer(delivery, long, confirm="processed")
        assert await taken(here) == long
        assert ((await asked).outcome, (await answer).outcome) == (Outcome.DELIVERED, Outcome.PROCESSED)

        await here.send(b"one more")
        await there.finish()
        delivery = await there.recv()
        with pytest.raises(exonet.AnswerError, match="closed at this end") as error:
            await there.answer(delivery, b"late")
        assert error.value.delivery is delivery
        await there.detach()
        with pytest.raises(exonet.AnswerError, match="given up") as error:
            await there.answer(delivery, b"late")
        assert type(error.value.__cause__) is exonet.SessionError
        error.value.delivery.ack()


async def test_a_node_that_has_closed_gives_no_delivery_back():
    async with node() as bob, node() as alice:
        await alice.send(bob.address, b"question")
        delivery = await bob.recv()
        await bob.close(0.0)
        with pytest.raises(exonet.AnswerError, match="the node is closed") as error:
            await delivery.answer(b"answer")
        assert error.value.delivery is None
        assert type(error.value.__cause__) is exonet.Closed
        await alice.close(0.0)


async def test_a_delivery_does_not_keep_its_node():
    async with node() as alice:
        bob = await node().start()
        await alice.send(bob.address, b"question")
        delivery = await bob.recv()
        del bob
        gc.collect()
        with pytest.raises(exonet.Closed):
            delivery.answer(b"answer")
        await alice.close(0.0)


def test_the_error_is_pickled_without_the_delivery():
    other = pickle.loads(pickle.dumps(exonet.AnswerError("no", delivery=lambda: None, why="x")))
    assert (type(other), str(other), other.delivery, other.why) == (exonet.AnswerError, "no", None, "x")


def test_threads_answer():
    options = {"allow": "anyone", "bind": "127.0.0.1:0"}
    with blocking.Node(max_message=1_000, **options) as bob, blocking.Node(**options) as alice:
        asked = alice.send(bob.address, b"question")
        with pytest.raises(exonet.AnswerError) as error:
            bob.recv(timeout=10).answer(LONG).wait(10)
        assert error.value.delivery.answer(b"answer").wait(10)
        with alice.recv(timeout=10) as delivery:
            assert delivery.body == b"answer"
        assert asked.wait(10).outcome is Outcome.DELIVERED

        questions = alice.stream(bob.address, "s")
        questions.send(b"question")
        answers = bob.accept_stream(timeout=10)
        with pytest.raises(exonet.AnswerError) as error:
            answers.ack_and_send(answers.recv(timeout=10), LONG, timeout=10)
        answer = answers.ack_and_send(error.value.delivery, b"answer", confirm="processed", timeout=10)
        questions.recv(timeout=10).ack()
        assert answer.wait(10).outcome is Outcome.PROCESSED

        here = alice.session(bob.address, "s")
        here.send(b"question")
        there = bob.accept_session(timeout=10)
        answer = there.answer(there.recv(timeout=10), b"answer", confirm="processed", timeout=10)
        here.recv(timeout=10).ack(7)
        assert answer.wait(10).status == 7
        here.send(b"one more")
        there.finish()
        with pytest.raises(exonet.AnswerError) as error:
            there.answer(there.recv(timeout=10), b"late")
        error.value.delivery.ack()
