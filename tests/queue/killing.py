"""A worker that dies: drains a queue in a process of its own, whose handler ends it.

python -m tests.queue.killing DATABASE BROKER QUEUE MANY MOMENT
"""

import os
import sys

from sqlalchemy import text

from windlass import App, context
from windlass.clock import ManualClock, to_datetime
from windlass.queue import Queue, ReceivedMessage

KILLER = "m3"


def declare(app, queue, many=None):
    """A consumer that writes what it gets, and that one message kills."""

    def handle(messages: list[ReceivedMessage]) -> None:
        rows = [{"name": each.id, "many": len(messages)} for each in messages]
        statement = text("insert into killed (name, many) values (:name, :many)")
        context().conn.execute(statement, rows)
        if KILLER in [each.id for each in messages]:
            os._exit(7)

    if many:

        @app.consume(queue, many=many)
        def on_event(messages: list[ReceivedMessage]) -> None:
            handle(messages)

    else:

        @app.consume(queue)
        def on_event(message: ReceivedMessage) -> None:
            handle([message])

    return on_event


if __name__ == "__main__":
    database, broker, name, many, moment = sys.argv[1:]
    app = App(database, clock=ManualClock(to_datetime(int(moment))))
    declare(app, Queue(broker, name, declare=False), int(many))
    app.drain()
