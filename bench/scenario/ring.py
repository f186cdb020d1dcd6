"""How long a worker takes to find its buckets when a worker joins; no store is asked."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable

from bench.contract import end_in_order_when_told
from windlass.ring import arcs, assign, tokens_of

TIMES = 51


def main() -> None:
    end_in_order_when_told()
    figures = {
        f"{name}_{members}_ms": round(median(work, members), 3)
        for members in (10, 1000)
        for name, work in (("assign", assign), ("arcs", draw))
    }
    print(json.dumps(figures))


def draw(members: list[int]) -> None:
    """What `windlass ring` needs."""
    arcs(tokens_of(members).values())


def median(work: Callable[[list[int]], object], members: int) -> float:
    """Milliseconds for that many members with ids as large as real ones."""
    taken = []
    for turn in range(TIMES):
        ids = list(range(10_000_000 + turn, 10_000_000 + turn + members))
        begin = time.perf_counter()
        work(ids)
        taken.append((time.perf_counter() - begin) * 1000)
    return statistics.median(taken)


if __name__ == "__main__":
    main()
