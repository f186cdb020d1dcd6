"""Brokers: one contract, and an implementation for each way to speak to one."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib.util import find_spec
from sys import modules

from windlass import lent
from windlass.errors import BadQueue
from windlass.queue.broker.contract import Broker, Subscription
from windlass.queue.model.queue import REGISTERED, TESTED, Queue

__all__ = ["Broker", "Subscription", "broker_of", "check_installed", "register"]

MakeBroker = Callable[[Queue], Broker]

_own: dict[str, MakeBroker] = {}


def register(scheme: str, make: MakeBroker, *, keeps_order: bool = False) -> None:
    """Use brokers of your own for queues whose URLs have this scheme, in this process.

    Call it before a `Queue` with such a URL is made, in each process that has one: in the module of
    the app. `make(queue)` returns a `Broker`, which connects when it is used. With `keeps_order`,
    `subscribe` heeds `alone`, so that consumers may have `lane=`.
    """
    if not isinstance(scheme, str) or not re.fullmatch("[a-z][a-z0-9+.-]*", scheme):
        raise BadQueue(
            f"register: {scheme!r:.80} is not the scheme of a URL; write it as in "
            '"kafka", with lower-case letters, digits, +, - and .'
        )
    if scheme in (*TESTED, "pyamqp"):
        raise BadQueue(
            f"register: {scheme}:// is what Windlass speaks by itself; choose another scheme, "
            f'such as "my-{scheme}"'
        )
    if not callable(make):
        raise BadQueue(f"register: make={make!r:.80} is not a function of a Queue")
    REGISTERED[scheme] = keeps_order
    _own[scheme] = make


def check_installed(queue: Queue) -> None:
    """Raises BadQueue if the client for this broker is not installed."""
    if queue.scheme in _own:
        return
    needed = ("kombu", "redis") if queue.scheme.startswith("redis") else ("kombu",)
    for package in needed:
        if package not in modules and find_spec(package) is None:
            raise BadQueue(f"{queue!r} needs the package {package}: pip install 'windlass[queue]'")


def broker_of(queue: Queue) -> Broker:
    """A broker for the URL of this queue. It connects when it is used."""
    lent.check(lambda: queue.address, lambda: repr(queue))
    check_installed(queue)
    own = _own.get(queue.scheme)
    if own is not None:
        made: object = own(queue)
        if not isinstance(made, Broker):
            raise BadQueue(
                f"{queue!r}: what is registered for {queue.scheme}:// made a "
                f"{type(made).__name__}; return a windlass.queue.Broker"
            )
        return made
    match queue.scheme:
        case "amqp" | "amqps" | "pyamqp":
            from windlass.queue.broker.amqp import AmqpBroker

            return AmqpBroker(queue)
        case "redis" | "rediss":
            from windlass.queue.broker.redis import RedisBroker

            return RedisBroker(queue)
        case _:
            from windlass.queue.broker.virtual import VirtualBroker

            return VirtualBroker(queue)
