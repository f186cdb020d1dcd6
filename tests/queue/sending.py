"""Sends messages as another program would, and reads what a queue has."""

import json

from windlass.queue.broker import broker_of
from windlass.queue.model.message import Outgoing


def send(queue, *bodies, ids=None, **given):
    """Send JSON bodies, or bytes; ids are m0, m1, ... unless they are given."""
    names = ids or [f"m{number}" for number in range(len(bodies))]
    messages = [
        Outgoing(name, body if isinstance(body, bytes) else json.dumps(body).encode(), **given)
        for name, body in zip(names, bodies, strict=True)
    ]
    with broker_of(queue) as broker:
        assert len(broker.publish(queue, messages).confirmed) == len(messages)


def received(queue, count):
    """The next messages of a queue, acknowledged."""
    found = []
    with broker_of(queue) as broker:
        subscription = broker.subscribe(queue, prefetch=max(count, 1))
        for _ in range(50):
            found += subscription.take(count - len(found), wait_seconds=1)
            if len(found) >= count:
                break
        subscription.acknowledge(found)
    return found


def depth(queue):
    with broker_of(queue) as broker:
        return broker.depth(queue)
