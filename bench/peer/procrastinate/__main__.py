"""Procrastinate on PostgreSQL: two processes, ten jobs at once each, finished jobs deleted."""

from __future__ import annotations

import sys

import psycopg
from procrastinate import SyncPsycopgConnector

from bench.contract import Command, main, url
from bench.peer.procrastinate.app import app, noop

BULK = 1000


def prepare() -> None:
    with app.replace_connector(SyncPsycopgConnector(conninfo=url())) as opened, opened.open():
        opened.schema_manager.apply_schema()


def enqueue_one(tasks: int) -> None:
    with app.replace_connector(SyncPsycopgConnector(conninfo=url())) as opened, opened.open():
        for number in range(tasks):
            noop.defer(number=number)


def enqueue_bulk(tasks: int) -> None:
    with app.replace_connector(SyncPsycopgConnector(conninfo=url())) as opened, opened.open():
        for begin in range(0, tasks, BULK):
            numbers = range(begin, min(begin + BULK, tasks))
            noop.batch_defer(*({"number": number} for number in numbers))


def workers() -> list[Command]:
    worker = [sys.executable, "-m", "procrastinate", "--app", "bench.peer.procrastinate.app.app"]
    finish = {"PROCRASTINATE_WORKER_DELETE_JOBS": "always"}
    return [Command([*worker, "worker", "--concurrency", "10"], finish) for _ in range(2)]


def is_empty() -> bool:
    with psycopg.connect(url()) as connection:
        return connection.execute("select 1 from procrastinate_jobs limit 1").fetchone() is None


if __name__ == "__main__":
    main(sys.modules[__name__])
