"""Processes that call a ledger: many at the same moment, or one that is killed in the middle.

`python -m tests.ledger.crowd race URL COUNT VERB` forks COUNT processes, which all begin when the
last of them is ready. `... kill URL VERB` lets one process after the other die by SIGKILL, each at
a later boundary of a statement, and has another do the same call again. Both print JSON.
"""

import json
import os
import signal
import sys
from collections.abc import Callable
from contextlib import closing
from itertools import count

from sqlalchemy import event

from windlass.errors import WindlassError
from windlass.ledger import Ledger

Call = Callable[[Ledger, int], object]

VERBS: dict[str, Call] = {
    "deduct": lambda ledger, number: ledger.deduct(f"order-{number}", {"bolt": 1}),
    "hold": lambda ledger, number: ledger.deduct(f"order-{number}", {"bolt": 1}, hold="1d"),
    "deduct_crossed": lambda ledger, number: ledger.deduct(
        f"order-{number}", dict(sorted(CROSSED.items(), reverse=bool(number % 2)))
    ),
    "same_id": lambda ledger, _number: ledger.deduct("order", {"bolt": 1}),
    "give_back": lambda ledger, number: ledger.give_back("order", f"return-{number}", {"bolt": 1}),
    "same_return": lambda ledger, _number: ledger.give_back("order", "return", {"bolt": 1}),
    "void": lambda ledger, _number: ledger.void("order"),
    "give_back_or_void": lambda ledger, number: (
        ledger.give_back("order", f"return-{number}", {"bolt": 1})
        if number % 4
        else ledger.void("order")
    ),
    "exchange": lambda ledger, number: exchange(ledger, f"exchange-{number}"),
    "same_exchange": lambda ledger, _number: exchange(ledger, "exchange"),
    "exchange_or_void": lambda ledger, number: (
        exchange(ledger, f"exchange-{number}") if number % 4 else ledger.void("order")
    ),
    "restock": lambda ledger, number: ledger.restock(f"delivery-{number}", {"new": 1, "newer": 1}),
    "deduct_two": lambda ledger, number: ledger.deduct(f"order-{number}", {"bolt": 1, "nut": 2}),
    "hold_two": lambda ledger, number: ledger.deduct(
        f"order-{number}", {"bolt": 1, "nut": 2}, hold="1d"
    ),
    "give_back_two": lambda ledger, number: ledger.give_back(
        "order", f"return-{number}", {"bolt": 1, "nut": 2}
    ),
}
CROSSED = {f"sku-{number}": 1 for number in range(5)}


def exchange(ledger: Ledger, exchange_id: str) -> object:
    return ledger.exchange("order", exchange_id, back={"bolt": 1}, out={"nut": 1})


def race(url: str, total: int, verb: str) -> list[str]:
    """What each of `total` processes was answered."""
    ready_in, ready_out = os.pipe()
    go_in, go_out = os.pipe()
    children = []
    for number in range(total):
        answers_in, answers_out = os.pipe()
        if os.fork() == 0:
            os.close(go_out)
            ledger = opened(url)
            ledger.stocks(limit=1)
            os.write(ready_out, b".")
            os.read(go_in, 1)
            os.write(answers_out, ask(ledger, VERBS[verb], number).encode())
            os._exit(0)
        os.close(answers_out)
        children.append(answers_in)
    waiting = total
    while waiting:
        waiting -= len(os.read(ready_in, waiting))
    os.close(go_out)
    return [os.read(answers, 100).decode() for answers in children]


def opened(url: str) -> Ledger:
    """A ledger that need not look for its tables any more."""
    ledger = Ledger(url)
    ledger._is_ready = True
    return ledger


def ask(ledger: Ledger, call: Call, number: int) -> str:
    try:
        call(ledger, number)
    except WindlassError as problem:
        return type(problem).__name__
    return "done"


def kill(url: str, verb: str) -> list[str]:
    """The answers of those who did again what another had died of, one for each boundary."""
    answers: list[str] = []
    for boundary in count(1):
        number = boundary
        child = os.fork()
        if child == 0:
            ledger = opened(url)
            die_at(ledger, boundary)
            ask(ledger, VERBS[verb], number)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            return answers
        assert os.WTERMSIG(status) == signal.SIGKILL
        answers.append(again(url, verb, number))
    raise AssertionError


def again(url: str, verb: str, number: int) -> str:
    answer_in, answer_out = os.pipe()
    if os.fork() == 0:
        ledger = opened(url)
        os.write(answer_out, ask(ledger, VERBS[verb], number).encode())
        os._exit(0)
    os.close(answer_out)
    answer = os.read(answer_in, 100).decode()
    os.wait()
    return answer


def die_at(ledger: Ledger, boundary: int) -> None:
    """End this process by SIGKILL at the boundary of that number: before or after a statement,
    before the commit, or after it."""
    passed = count(1)

    def look(*_: object) -> None:
        if next(passed) == boundary:
            os.kill(os.getpid(), signal.SIGKILL)

    database = ledger.database
    for engine in database.engines:
        for name in ("before_cursor_execute", "after_cursor_execute", "commit"):
            event.listen(engine, name, look)
    database.write, database.single = (
        and_look(database.write, look),
        and_look(database.single, look),
    )


def and_look(call, look):
    def called(*args, **options):
        answer = call(*args, **options)
        look()
        return answer

    return called


def main() -> None:
    verb, url, *rest = sys.argv[1:]
    # What is imported now is imported once for all processes.
    with closing(Ledger(url)) as first:
        first.stocks(limit=1)
    answers = race(url, int(rest[0]), rest[1]) if verb == "race" else kill(url, *rest)
    sys.stdout.write(json.dumps(answers))


if __name__ == "__main__":
    main()
