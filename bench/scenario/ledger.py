"""Deductions and returns per second, beside the same bare SQL transaction.

Spread over 10,000 SKUs and on one, with 1, 8 and 64 callers. Ours are coroutines of one process;
one caller alone makes plain calls. The bare transaction is what anybody would write: insert the
movement, its line and its entry, and change the guarded rows. It is sent by pgbench with prepared
statements, and to MariaDB and MySQL by mariadb-slap, which needs one more statement to roll its
dice.
`ratio` is ours to bare, measured one after the other.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from urllib.parse import urlparse

from windlass.ledger import Ledger

SKUS = 10_000
CALLERS = (1, 8, 64)
SECONDS = 4.0
PLENTY = 10**11

# Of what differs between the two databases: how a text is joined, and how the dice are named.
MOVES = {
    "deduct": """
        insert into windlass_deduction (id, status, body, created_at)
            values ({id}, 1, '{{"lines":{{}}}}', 1);
        update windlass_stock set available = available - 1, deducted = deducted + 1
            where sku = {sku} and available >= 1;
        insert into windlass_deduction_line values ({id}, {sku}, 1, 0);
        insert into windlass_stock_entry (sku, quantity, movement, reference, created_at)
            values ({sku}, -1, 'deduct', {id}, 1)
    """,
    "give_back": """
        insert into windlass_stock_return values ({sku}, {id}, '{{"lines":{{}}}}', null, 1);
        update windlass_deduction_line set returned = returned + 1
            where deduction_id = {sku} and sku = {sku} and returned + 1 <= quantity;
        update windlass_stock set available = available + 1, returned = returned + 1
            where sku = {sku};
        insert into windlass_return_line values ({sku}, {id}, {sku}, 1);
        insert into windlass_stock_entry
            (sku, quantity, movement, reference, return_id, created_at)
            values ({sku}, 1, 'return', {sku}, {id}, 1)
    """,
}
NUMBERS = count(1)


def main() -> None:
    address = os.environ["BENCH_URL"]
    seconds = 1.0 if "--quick" in sys.argv else SECONDS
    figures: dict[str, float] = {}
    ledger = Ledger(address)
    ledger.migrate()
    fill(ledger)
    for verb in MOVES:
        for spread in (SKUS, 1):
            for callers in CALLERS:
                name = f"{verb}_{'spread' if spread > 1 else 'hot'}_{callers}"
                bare = BARE[urlparse(address).scheme](address, verb, spread, callers, seconds)
                ours = own(ledger, verb, spread, callers, seconds)
                figures[name] = round(ours)
                figures[f"{name}_bare"] = round(bare)
                figures[f"{name}_ratio"] = round(ours / bare, 2)
                print(f"{name}: {ours:,.0f} of {bare:,.0f}", file=sys.stderr)
    print(json.dumps(figures))


def fill(ledger: Ledger) -> None:
    """Plenty of each SKU, and a deduction of its own name with plenty to give back."""
    names = [f"sku-{number}" for number in range(1, SKUS + 1)]
    for begin in range(0, SKUS, 2_000):
        ledger.restock(f"delivery-{begin}", dict.fromkeys(names[begin : begin + 2_000], PLENTY))

    async def deduct_all() -> None:
        await asyncio.gather(*(ledger.adeduct(name, {name: PLENTY // 2}) for name in names))

    asyncio.run(deduct_all())


def own(ledger: Ledger, verb: str, spread: int, callers: int, seconds: float) -> float:
    """Calls per second of `callers` threads."""
    if callers == 1:
        return alone(ledger, verb, spread, seconds)
    return asyncio.run(together(ledger, verb, spread, callers, seconds))


def alone(ledger: Ledger, verb: str, spread: int, seconds: float) -> float:
    call: Callable[..., object] = getattr(ledger, verb)
    made, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        call(*arguments(verb, spread))
        made += 1
    return made / (time.perf_counter() - began)


async def together(ledger: Ledger, verb: str, spread: int, callers: int, seconds: float) -> float:
    call = getattr(ledger, f"a{verb}")
    began = time.perf_counter()

    async def go_on() -> int:
        made = 0
        while time.perf_counter() - began < seconds:
            await call(*arguments(verb, spread))
            made += 1
        return made

    made = sum(await asyncio.gather(*(go_on() for _ in range(callers))))
    return made / (time.perf_counter() - began)


def arguments(verb: str, spread: int) -> tuple[object, ...]:
    number = next(NUMBERS)
    sku = f"sku-{number * 7_919 % spread + 1}"
    lines = {sku: 1}
    return (f"o{number}", lines) if verb == "deduct" else (sku, f"r{number}", lines)


def statements(verb: str, **of: str) -> list[str]:
    """The bare transaction, each statement on one line."""
    return [" ".join(part.split()) for part in MOVES[verb].format(**of).split(";")]


def by_pgbench(address: str, verb: str, spread: int, callers: int, seconds: float) -> float:
    of = {"id": "'b' || :dice", "sku": "'sku-' || :sku"}
    script = [f"\\set sku random(1, {spread})", "\\set dice random(1, 9000000000000000000)"]
    script += ["begin;", *(f"{part};" for part in statements(verb, **of)), "commit;"]
    with tempfile.TemporaryDirectory(prefix="windlass-bare-") as folder:
        path = Path(folder) / "bare.sql"
        path.write_text("\n".join(script) + "\n")
        told = subprocess.run(
            [
                *("pgbench", "-n", "-M", "prepared", "-f", str(path), "-c", str(callers)),
                *("-j", "2", "-T", str(max(1, round(seconds))), address),
            ],
            capture_output=True,
            check=True,
            text=True,
        )
    (line,) = [line for line in told.stdout.splitlines() if line.startswith("tps = ")]
    return float(line.split()[2])


def by_slap(address: str, verb: str, spread: int, callers: int, seconds: float) -> float:
    place = urlparse(address)
    of = {"id": "@dice", "sku": "@sku"}
    dice = f"set @dice = uuid(), @sku = concat('sku-', floor(1 + rand() * {spread}))"
    parts = [dice, "begin", *statements(verb, **of), "commit"]
    # It cannot be told how long to go on: a short run says how many would take so long.
    rounds = 200
    taken = _slap(place.port or 0, place.username or "", place.path[1:], parts, callers, rounds)
    rounds = max(200, int(rounds * seconds / taken))
    taken = _slap(place.port or 0, place.username or "", place.path[1:], parts, callers, rounds)
    return rounds / taken


def _slap(
    port: int, user: str, database: str, parts: list[str], callers: int, rounds: int
) -> float:
    """Seconds for `rounds` transactions by each of `callers`."""
    command = [
        *("mariadb-slap", "--no-defaults", "--host=127.0.0.1", f"--port={port}", f"--user={user}"),
        *(f"--create-schema={database}", "--no-drop", "--delimiter=;", "--csv"),
        *(f"--concurrency={callers}", f"--number-of-queries={rounds * len(parts)}"),
        f"--query={';'.join(parts)}",
    ]
    told = subprocess.run(command, capture_output=True, check=True, text=True)
    return float(told.stdout.strip().splitlines()[-1].split(",")[2])


BARE = {"postgresql": by_pgbench, "mysql": by_slap}


if __name__ == "__main__":
    main()
