"""The app of the fault tests of queues, and what it must have done in the end."""

import json
import os
from collections import Counter

from sqlalchemy import text

from tests.wait import eventually
from windlass import App, context
from windlass.queue import Queue
from windlass.queue.broker import broker_of

# A message with this name ends the process of its worker, when all its effects are written.
KILLER = "killer"

MODULE = """
from windlass import App
from tests.fault.face.consuming import declare

app = App({url!r}, lease="5s", dead_after="2s")
declare(app, {broker!r}, {options!r})
"""


def queues_at(broker, options):
    """What comes in, and what goes out."""
    return Queue(broker, "in", options=options), Queue(broker, "out", options=options)


def declare(app, broker, options):
    """Each message has four effects: a row of the user's, a task, a message out and an item."""
    incoming, outgoing = queues_at(broker, options)

    @app.task
    def later(name: str) -> None: ...

    @app.rolling(every="10d", window="2000-01-01 00:00 - 2000-01-01 01:00")
    def item(code: str) -> None: ...

    @app.consume(incoming, concurrency=4, retries=50, backoff="200ms", prefetch=20)
    def on_event(event: dict) -> None:
        context().conn.execute(
            text("insert into fault_effect (name) values (:name)"), {"name": event["name"]}
        )
        later.using(delay="1d").enqueue(event["name"])
        item.add([event["name"]])
        app.publish(outgoing, event, key=event["key"])
        if event["name"] == KILLER:
            os._exit(7)

    @app.task(keep="1h")
    def other(number: int) -> None: ...

    app.other = other
    app.on_event = on_event
    return incoming, outgoing


def make_table(app):
    with app.database.engine.begin() as connection:
        connection.execute(text("create table fault_effect (name varchar(40))"))


def effects(app):
    """How often each message had its effect in the user's table, and as a task."""

    def read(connection):
        rows = connection.execute(text("select name from fault_effect")).scalars().all()
        tasks = connection.execute(
            text("select payload from windlass_task where kind = 'later'")
        ).scalars()
        return Counter(rows), Counter(_name(each) for each in tasks)

    return app.database.read(read)


def _name(payload):
    found = json.loads(payload) if isinstance(payload, str | bytes) else payload
    return found["name"]


def check_effects(app, outgoing, names):
    """Every message has its row and its task exactly once, and was sent on at least once."""
    wanted = Counter(names)
    rows, tasks = effects(app)
    assert rows == wanted
    assert tasks == wanted
    sent = [json.loads(each.body) for each in all_of(outgoing, len(names))]
    assert {each["name"] for each in sent} == set(names)


def all_of(queue, least):
    """All messages of a queue: at least so many different ones."""
    found = []
    with broker_of(queue) as broker:
        subscription = broker.subscribe(queue, prefetch=500)

        def are_all():
            # What the broker has delivered may still be on its way: an empty queue is not enough.
            more = subscription.take(500, wait_seconds=0.5)
            subscription.acknowledge(more)
            found.extend(more)
            return not more and len({each.id for each in found}) >= least

        try:
            eventually(are_all, 60, what=f"{least} messages in {queue!r}")
        except AssertionError as error:
            names = sorted({str(each.body) for each in found})
            raise AssertionError(f"{error}; there were {len(names)}: {names}") from None
    return found


def first_order(messages):
    """The messages as an inbox would take them: repetitions left out."""
    return list({each.id: each for each in messages}.values())


def app_at(url, broker, options):
    app = App(url, lease="5s", dead_after="2s")
    app.migrate()
    return app, *declare(app, broker, options)
