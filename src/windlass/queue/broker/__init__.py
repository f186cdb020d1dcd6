"""Brokers: one contract, and an implementation for each way to speak to one."""

from __future__ import annotations

from importlib.util import find_spec
from sys import modules

from windlass import lent
from windlass.errors import BadQueue
from windlass.queue.broker.contract import Broker, Subscription
from windlass.queue.model.queue import Queue

__all__ = ["Broker", "Subscription", "broker_of", "check_installed"]


def check_installed(queue: Queue) -> None:
    """Raises BadQueue if the client for this broker is not installed."""
    needed = ("kombu", "redis") if queue.scheme.startswith("redis") else ("kombu",)
    for package in needed:
        if package not in modules and find_spec(package) is None:
            raise BadQueue(f"{queue!r} needs the package {package}: pip install 'windlass[queue]'")


def broker_of(queue: Queue) -> Broker:
    """A broker for the URL of this queue. It connects when it is used."""
    lent.check(lambda: queue.address, lambda: repr(queue))
    check_installed(queue)
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
