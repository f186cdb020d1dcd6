"""Processes that sell: many at once, or one that is killed at a boundary of a hot deduction.

`python -m tests.ledger.hot.doomed race URL CACHE COUNT` prints how many got a bolt. `... die URL
CACHE BOUNDARY ID` deducts five bolts, and dies at the boundary of that number.
"""

import os
import signal
import sys
from collections.abc import Callable
from itertools import count
from typing import Any

from windlass.errors import WindlassError
from windlass.ledger import Ledger, OutOfStock
from windlass.ledger.hot import HotLane


def race(url: str, cache: str, total: int) -> int:
    """How many of the bolts the processes got, each of which asks for as many as it can get."""
    children = []
    for number in range(total):
        answers_in, answers_out = os.pipe()
        if os.fork() == 0:
            with Ledger(url) as ledger, ledger.hot(cache) as hot:
                os.write(answers_out, str(_take_all(hot, number)).encode())
            os._exit(0)
        os.close(answers_out)
        children.append(answers_in)
    return sum(int(os.read(answers, 100).decode()) for answers in children)


def _take_all(hot: HotLane, number: int) -> int:
    for taken in count():
        try:
            hot.deduct(f"order-{number}-{taken}", {"bolt": 1})
        except OutOfStock:
            return taken
    raise AssertionError


def die(url: str, cache: str, boundary: int, order: str) -> None:
    with Ledger(url) as ledger, ledger.hot(cache) as hot:
        hot.stock("bolt")
        hot.decider.epoch()
        passed = count(1)

        def look() -> None:
            if next(passed) == boundary:
                os.kill(os.getpid(), signal.SIGKILL)

        for of, name in ((hot.cache, "decide"), (hot._book, "record"), (hot.cache, "settle")):
            setattr(of, name, _looking(getattr(of, name), look))
        try:
            hot.deduct(order, {"bolt": 5})
            hot.decider.flush()
        except WindlassError as problem:
            sys.stdout.write(type(problem).__name__)


def _looking(call: Callable[..., Any], look: Callable[[], None]) -> Callable[..., Any]:
    def called(*args: Any, **options: Any) -> Any:
        look()
        answer = call(*args, **options)
        look()
        return answer

    return called


if __name__ == "__main__":
    what, url, cache, *rest = sys.argv[1:]
    if what == "race":
        sys.stdout.write(str(race(url, cache, int(rest[0]))))
    else:
        die(url, cache, int(rest[0]), rest[1])
