"""What the tests share: real nodes on loopback, and an event loop for each test, with a limit that only a hang meets."""

import asyncio
import functools
import inspect

import exonet
import pytest

LIMIT = 60.0
"""Seconds after which a test hangs."""


def node(**options):
    """A node on loopback that takes messages from anyone."""
    options.setdefault("allow", "anyone")
    options.setdefault("bind", "127.0.0.1:0")
    return exonet.Node(**options)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """Runs a test that is a coroutine in an event loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    test = functools.partial(pyfuncitem.obj, **{name: pyfuncitem.funcargs[name] for name in names})
    asyncio.run(asyncio.wait_for(test(), LIMIT))
    return True
