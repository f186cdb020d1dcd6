"""Messages a second from the outbox to RabbitMQ, with confirms, beside bare loops of kombu.

All messages wait in the outbox, then the workers start. The clock runs from the first message at
the broker until the outbox is empty, so everything counts: reading, sending, confirms, deleting.
The bare loops publish the same bodies by kombu's producer to the same kind of queue, durable and
persistent: once without confirms, which loses messages when the broker dies, and once with kombu's
own confirms, which wait for each message. `cpu` is processor time in microseconds a message of the
senders, `database` and `broker` that of the servers meanwhile: with two cores, 100 in all is 20,000
a second. It says more than seconds on a machine that does other work.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

from bench import processor
from bench.contract import end_in_order_when_told, running, url
from bench.raw.session import Session
from bench.scenario import SERVER
from bench.scenario.crew import worker
from tests.server import RabbitMQ

MESSAGES = 200_000
QUICK = 20_000
# What waits for each confirm is slow: fewer tell as much.
CONFIRMED_PART = 20
KEYED_PART = 5
POLL_SECONDS = 0.02
PATIENCE_SECONDS = 120.0
BODY = {"code": "bolt-7", "price": 99, "stock": 120}
GOAL_PER_SECOND = 20_000

Figures = dict[str, float]


def main() -> None:
    end_in_order_when_told()
    messages = QUICK if "--quick" in sys.argv else MESSAGES
    with RabbitMQ(fast=False) as broker:
        broker.start()
        os.environ["BENCH_BROKER"] = broker.url
        table = {
            "kombu, no confirms": bare(broker, messages, confirms=False),
            "windlass, 1 process": drain(broker, messages, processes=1),
            "windlass, 2 processes": drain(broker, messages, processes=2),
            "windlass, 100 keys": drain(broker, messages // KEYED_PART, processes=2, keys=100),
            "kombu, its own confirms": bare(broker, messages // CONFIRMED_PART, confirms=True),
            "kombu, no confirms, again": bare(broker, messages, confirms=False),
        }
    base = (
        table["kombu, no confirms"]["per_second"] + table["kombu, no confirms, again"]["per_second"]
    ) / 2
    for found in table.values():
        found["of_kombu"] = round(found["per_second"] / base, 2)
    print(json.dumps({"goal_per_second": GOAL_PER_SECOND, "drains": table}))


def bare(broker: RabbitMQ, messages: int, *, confirms: bool) -> Figures:
    """kombu's producer in a loop, in a process of its own."""
    before = processor.seconds([broker.pid])
    found = subprocess.run(
        [
            sys.executable,
            "-m",
            "bench.scenario.outbox",
            "bare",
            broker.url,
            str(messages),
            str(confirms),
        ],
        check=True,
        capture_output=True,
    )
    made: Figures = json.loads(found.stdout)
    used = processor.seconds([broker.pid]) - before
    return figures(messages, made["seconds"], made["used"], broker=used)


def bare_loop(broker: str, messages: int, *, confirms: bool) -> Figures:
    import kombu

    options = {"confirm_publish": confirms}
    with kombu.Connection(broker, transport_options=options) as connection:
        channel = connection.channel()
        channel.queue_declare("bare", durable=True, auto_delete=False)
        channel.queue_purge("bare")
        producer = connection.Producer()
        begin, before = time.perf_counter(), time.process_time()
        for number in range(messages):
            producer.publish(
                BODY,
                routing_key="bare",
                exchange="",
                serializer="json",
                delivery_mode=2,
                message_id=str(number),
            )
        # Without confirms, the last ones may still be on their way.
        while channel.queue_declare("bare", passive=True).message_count < messages:
            time.sleep(POLL_SECONDS)
        seconds = time.perf_counter() - begin
        used = time.process_time() - before
        channel.queue_delete("bare")
    return {"seconds": seconds, "used": used}


def drain(server: RabbitMQ, messages: int, *, processes: int, keys: int | None = None) -> Figures:
    """Messages that wait in the outbox are sent by workers."""
    from bench.scenario.outbox_app import app, out
    from windlass.queue.broker import broker_of

    app.migrate()
    bodies = ({**BODY, "n": number} for number in range(messages))
    app.publish_many(
        out, bodies, key=None if keys is None else lambda body: f"key-{body['n'] % keys}"
    )
    session = Session(url())
    session.analyse("windlass_outbox")
    database = int(os.environ[SERVER])
    with broker_of(out) as broker:
        broker.declare(out)
        command = worker("bench.scenario.outbox_app:app", "--processes", str(processes))
        with running([command]) as started:
            while not broker.depth(out):
                time.sleep(POLL_SECONDS)
            begin = time.perf_counter()
            pids = started[0].pid, database, server.pid
            before = [processor.seconds([pid]) for pid in pids]
            while not is_empty(session):
                if time.perf_counter() - begin > PATIENCE_SECONDS:
                    raise SystemExit(f"{broker.depth(out)} of {messages} messages were sent")
                time.sleep(POLL_SECONDS)
            seconds = time.perf_counter() - begin
            after = [processor.seconds([pid]) for pid in pids]
    # Another connection: the first one has had no heartbeats meanwhile.
    with broker_of(out) as broker:
        if (arrived := broker.depth(out)) < messages:
            raise SystemExit(f"only {arrived} of {messages} messages arrived")
    empty_queue()
    used = [late - early for early, late in zip(before, after, strict=True)]
    return figures(messages, seconds, used[0], database=used[1], broker=used[2])


def is_empty(session: Session) -> bool:
    with session.transaction():
        return not session.rows("select id from windlass_outbox limit 1")


def empty_queue() -> None:
    import kombu

    with kombu.Connection(os.environ["BENCH_BROKER"]) as connection:
        connection.channel().queue_purge("out")


def figures(
    messages: int, seconds: float, used: float, *, broker: float, database: float = 0.0
) -> Figures:
    return {
        "messages": messages,
        "cpu": round(used / messages * 1e6, 1),
        "database": round(database / messages * 1e6, 1),
        "broker": round(broker / messages * 1e6, 1),
        "per_second": round(messages / seconds),
    }


if __name__ == "__main__":
    if sys.argv[1:2] == ["bare"]:
        made = bare_loop(sys.argv[2], int(sys.argv[3]), confirms=sys.argv[4] == "True")
        print(json.dumps(made))
    else:
        main()
