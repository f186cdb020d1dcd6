"""The raw SQL limit under the contract: `python -m bench.raw VARIANT VERB N`."""

from __future__ import annotations

import json
import sys
from zlib import crc32

from bench.contract import Command, main, url
from bench.raw.loop import microseconds, work
from bench.raw.session import Session

BULK = 10_000
DAY_MICROSECONDS = 86_400_000_000


class Limit:
    """The verbs of the contract, for one variant of the loop."""

    def __init__(self, variant: str) -> None:
        self.variant = variant
        self.session = Session(url())

    def prepare(self) -> None:
        with self.session.transaction():
            for statement in self.session.statements.create:
                self.session.execute(statement)

    def enqueue_one(self, tasks: int) -> None:
        begin = microseconds()
        for number in range(begin, begin + tasks):
            with self.session.transaction():
                self.session.execute(self.session.statements.insert, **_row(number))

    def enqueue_bulk(self, tasks: int) -> None:
        end = microseconds() - DAY_MICROSECONDS
        with self.session.transaction():
            for begin in range(end - tasks, end, BULK):
                rows = [_row(number) for number in range(begin, min(begin + BULK, end))]
                self.session.execute(self.session.statements.insert_many, rows=json.dumps(rows))

    def workers(self) -> list[Command]:
        loop = [sys.executable, "-m", "bench.raw", self.variant, "work"]
        total = 1 if self.session.scheme == "sqlite" else 2
        return [Command([*loop, str(number), str(total)]) for number in range(total)]

    def is_empty(self) -> bool:
        with self.session.transaction():
            return not self.session.rows(self.session.statements.is_empty)


def _row(number: int) -> dict[str, object]:
    """A task whose number is its id and its due time, so that a cursor on the latter suffices."""
    return {
        "id": number,
        "kind": "noop",
        "bucket": crc32(b"%d" % number) >> 24,
        "due_at": number,
        "payload": f'{{"n": {number}}}',
    }


if __name__ == "__main__":
    variant, *rest = sys.argv[1:]
    if rest[0] == "work":
        work(variant, int(rest[1]), int(rest[2]))
    else:
        main(Limit(variant), rest)
