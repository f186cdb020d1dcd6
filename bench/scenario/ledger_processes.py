"""Deductions per second of one hot product, by callers of one process and of several.

64 coroutines of one process, then the same 64 spread over 2 and 8 processes. `ratio` is what the
processes did to what the one did, measured one after the other; the median of three rounds.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from itertools import count
from statistics import median

from windlass.ledger import Ledger

CALLERS = 64
PROCESSES = (1, 2, 8)
SECONDS = 3.0
ROUNDS = 3
PLENTY = 10**11
SKU = "bolt"


def main() -> None:
    address = os.environ["BENCH_URL"]
    is_quick = "--quick" in sys.argv
    seconds, rounds = (1.0, 1) if is_quick else (SECONDS, ROUNDS)
    ledger = Ledger(address)
    ledger.migrate()
    ledger.restock("delivery", {SKU: PLENTY})
    ledger.close()
    found: dict[int, list[float]] = {processes: [] for processes in PROCESSES}
    for number in range(rounds):
        for processes in PROCESSES:
            rate = measure(address, processes, seconds, name=f"{number}-{processes}")
            found[processes].append(rate)
            print(f"{processes} processes: {rate:,.0f}", file=sys.stderr)
    figures: dict[str, float] = {}
    for processes, rates in found.items():
        figures[f"of_{processes}"] = round(median(rates))
        ratio = median(rate / one for rate, one in zip(rates, found[1], strict=True))
        figures[f"of_{processes}_ratio"] = round(ratio, 2)
    print(json.dumps(figures))


def measure(address: str, processes: int, seconds: float, *, name: str) -> float:
    """Deductions per second of all callers, each of whom waits for its answer."""
    ready_in, ready_out = os.pipe()
    go_in, go_out = os.pipe()
    made_in, made_out = os.pipe()
    children = []
    for number in range(processes):
        child = os.fork()
        if child == 0:
            os.close(go_out)
            ledger = Ledger(address)
            ledger.deduct(f"warm-{name}-{number}", {SKU: 1})
            os.write(ready_out, b".")
            os.read(go_in, 1)
            callers = CALLERS // processes
            made = asyncio.run(deduct(ledger, f"{name}-{number}", callers, seconds))
            os.write(made_out, f"{made}\n".encode())
            os._exit(0)
        children.append(child)
    waiting = processes
    while waiting:
        waiting -= len(os.read(ready_in, waiting))
    began = time.perf_counter()
    os.close(go_out)
    for child in children:
        os.waitpid(child, 0)
    taken = time.perf_counter() - began
    os.close(made_out)
    with os.fdopen(made_in) as lines:
        total = sum(int(line) for line in lines)
    for end in (ready_in, ready_out, go_in):
        os.close(end)
    return total / taken


async def deduct(ledger: Ledger, name: str, callers: int, seconds: float) -> int:
    numbers, ends = count(1), time.perf_counter() + seconds

    async def go_on() -> int:
        made = 0
        while time.perf_counter() < ends:
            await ledger.adeduct(f"{name}-{next(numbers)}", {SKU: 1})
            made += 1
        return made

    return sum(await asyncio.gather(*(go_on() for _ in range(callers))))


if __name__ == "__main__":
    main()
