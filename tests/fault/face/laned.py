"""The app of the fault test of lanes: each message writes its place in the order of its key."""

import json
import random

from sqlalchemy import text

from windlass import App, context
from windlass.queue import Queue

MODULE = """
from tests.fault.face.laned import laned_app

app = laned_app({url!r}, {broker!r}, {options!r})
"""

# Fails now and then: the next of its lane must wait for its next try.
CHANCE = random.Random(3)


def lane_queue(broker, options):
    return Queue(broker, "laned", options=options)


def laned_app(url, broker, options):
    app = App(url, lease="5s", dead_after="2s")
    queue = lane_queue(broker, options)

    @app.consume(
        queue,
        lane=lambda event: event["key"],
        concurrency=8,
        retries=50,
        backoff="100ms",
        prefetch=40,
    )
    def on_laned(event: dict) -> None:
        if CHANCE.random() < 0.05:
            raise ValueError("now and then")
        conn, lane = context().conn, event["key"]
        counted = text("select count(*) from fault_lane where lane = :lane")
        place = conn.execute(counted, {"lane": lane}).scalar_one()
        conn.execute(
            text("insert into fault_lane (lane, number, place) values (:lane, :number, :place)"),
            {"lane": lane, "number": event["number"], "place": place},
        )

    return app


def make_lane_table(app):
    with app.database.engine.begin() as connection:
        connection.execute(
            text("create table fault_lane (lane varchar(10), number integer, place integer)")
        )


def orders(app):
    """The numbers of each lane, in the order in which they were handled."""

    def read(connection):
        query = "select lane, number from fault_lane order by lane, place, number"
        found = {}
        for lane, number in connection.execute(text(query)):
            found.setdefault(lane, []).append(number)
        return found

    return app.database.read(read)


def body(key, number):
    return json.dumps({"key": key, "number": number}).encode()
