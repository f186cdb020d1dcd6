"""pg-boss on PostgreSQL: two Node processes with four loops each, in batches."""

from __future__ import annotations

import sys

import psycopg

from bench.contract import main, url
from bench.node import enqueue_bulk, enqueue_one, prepare, workers

__all__ = ["enqueue_bulk", "enqueue_one", "is_empty", "prepare", "workers"]

# Completed jobs may stay, so the first question must be one that its index answers.
WAITS = """
select 1 from pgboss.job where name = 'noop' and state < 'active' and not blocked limit 1
"""
LEFT = "select 1 from pgboss.job where name = 'noop' and state < 'completed' limit 1"


def is_empty() -> bool:
    with psycopg.connect(url()) as connection:
        return all(connection.execute(ask).fetchone() is None for ask in (WAITS, LEFT))


if __name__ == "__main__":
    main(sys.modules[__name__])
