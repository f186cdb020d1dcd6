"""What a claim of 1,000 costs in a small table and in a very large one.

The statements are those of the raw limit, which are Windlass's own less its
safety. Half of the rows are due, half are due tomorrow.
"""

from __future__ import annotations

import json
import statistics
import sys
import time

from bench.contract import end_in_order_when_told, url
from bench.raw.loop import Reader, claim, finish, microseconds
from bench.raw.session import Session

SMALL = 10_000
LARGE = 10_000_000
CLAIMS = 4
TOMORROW = 86_400_000_000

FILL = """
insert into raw_task (id, kind, bucket, status, priority, due_at, payload, created_at)
select number, 'noop', number * 7919 %% 256, 0, 0,
    %(now)s - number + case when number %% 2 = 0 then %(tomorrow)s else 0 end,
    '{"n": 1}', %(now)s
from generate_series(1::bigint, %(rows)s) as number
"""


def main() -> None:
    end_in_order_when_told()
    large = 100_000 if "--quick" in sys.argv else LARGE
    session = Session(url())
    figures: dict[str, float] = {}
    for rows in (SMALL, large):
        fill(session, rows)
        figures[f"read_{rows}_ms"] = round(median_read(session), 2)
        figures[f"claim_{rows}_ms"] = round(median_claim(session), 2)
        with session.transaction():
            session.execute("drop table raw_task")
    print(json.dumps(figures))


def fill(session: Session, rows: int) -> None:
    with session.transaction():
        for statement in session.statements.create:
            session.execute(statement)
        session.execute(FILL, rows=rows, now=microseconds(), tomorrow=TOMORROW)
    with session.transaction():
        session.execute("analyze raw_task")


def median_claim(session: Session) -> float:
    """Milliseconds of one written claim; the rows are finished between two claims."""
    taken = []
    for _ in range(CLAIMS):
        begin = time.perf_counter()
        ids = claim(session)
        taken.append((time.perf_counter() - begin) * 1000)
        finish(session, ids, keep=False)
    return statistics.median(taken)


def median_read(session: Session) -> float:
    """Milliseconds of one owner's read by a worker that owns all buckets."""
    reader = Reader(session, 0, 1)
    taken = []
    for _ in range(CLAIMS):
        begin = time.perf_counter()
        reader.read()
        taken.append((time.perf_counter() - begin) * 1000)
    return statistics.median(taken)


if __name__ == "__main__":
    main()
