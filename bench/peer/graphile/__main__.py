"""Graphile Worker on PostgreSQL: two Node processes, local queue 2,000, batched completion."""

from __future__ import annotations

import sys

import psycopg

from bench.contract import main, url
from bench.node import enqueue_bulk, enqueue_one, prepare, workers

__all__ = ["enqueue_bulk", "enqueue_one", "is_empty", "prepare", "workers"]


def is_empty() -> bool:
    with psycopg.connect(url()) as connection:
        rows = connection.execute("select 1 from graphile_worker._private_jobs limit 1")
        return rows.fetchone() is None


if __name__ == "__main__":
    main(sys.modules[__name__])
