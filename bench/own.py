"""Windlass under the same contract as its peers: `python -m bench.own VERB N`."""

from __future__ import annotations

import sys

from bench.contract import Command, main, url
from bench.own_app import app, noop
from bench.raw.session import Session


def prepare() -> None:
    app.migrate()


def enqueue_one(tasks: int) -> None:
    for number in range(tasks):
        noop.enqueue(number)


def enqueue_bulk(tasks: int) -> None:
    noop.enqueue_many([{"n": number} for number in range(tasks)])


def workers() -> list[Command]:
    worker = [sys.executable, "-m", "windlass", "worker", "bench.own_app:app"]
    processes = "1" if url().startswith("sqlite") else "2"
    return [Command([*worker, "--processes", processes])]


def is_empty() -> bool:
    """Whether nothing waits or runs; a success under a key stays for a while."""
    session = Session(url())
    with session.transaction():
        return not session.rows("select 1 from windlass_task where status < 2 limit 1")


if __name__ == "__main__":
    main(sys.modules[__name__])
