"""Huey: four worker processes on Redis, two on SQLite, no results, no periodic tasks."""

from __future__ import annotations

import sys

from bench.contract import Command, main, url
from bench.peer.huey.app import huey, noop


def prepare() -> None:
    """Nothing: opening the store makes it."""


def enqueue_one(tasks: int) -> None:
    for number in range(tasks):
        noop(number)


def workers() -> list[Command]:
    consumer = [sys.executable, "-m", "huey.bin.huey_consumer", "bench.peer.huey.app.huey"]
    number = 4 if url().startswith("redis:") else 2
    size = [f"--workers={number}", "--worker-type=process", "--delay=0.01", "--max-delay=0.01"]
    return [Command([*consumer, *size, "--no-periodic", "--quiet"])]


def is_empty() -> bool:
    return not huey.pending_count()


if __name__ == "__main__":
    main(sys.modules[__name__])
