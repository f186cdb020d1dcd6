"""Writes a second that reach one formal database: by task stores, and by single-row commits.

`single` is what two processes with four threads each commit into the formal database, one row a
commit, and `single_1` one thread of one process: what an application would do. `synced` is
`examples/sync`: two sellers tell 100 sales a call to two SQLite files, and two workers bring them
into the same database in lists. Meanwhile a seller and a worker are killed, and begin again. The
clock runs from the first sale that is told until the last one is in the database; `missing` and
`doubled` are counted then. `ratio` is synced to single.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

from sqlalchemy import create_engine, func, insert, select

from bench import tally
from bench.contract import end_in_order_when_told, url
from windlass.database.database import normalise

SALES = 60_000
QUICK = 4_000
SECONDS = 5.0
PROCESSES, THREADS = 2, 4
AT_ONCE = 100
FOLDER = Path(os.environ.get(tally.FOLDER_VARIABLE, "."))
BOOK = normalise(url()).render_as_string(hide_password=False) if "BENCH_URL" in os.environ else ""
ENVIRONMENT = {
    **os.environ,
    "SYNC_SHARDS": f"sqlite:///{FOLDER}/sync_a.db sqlite:///{FOLDER}/sync_b.db",
    "SYNC_BOOK": BOOK,
}


def main() -> None:
    end_in_order_when_told()
    os.environ.update(ENVIRONMENT)
    from examples.sync.shop import prepare

    prepare()
    quick = "--quick" in sys.argv
    seconds = 1.0 if quick else SECONDS
    single_1 = single(1, 1, seconds)
    several = single(PROCESSES, THREADS, seconds)
    figures = sync(QUICK if quick else SALES)
    ratio = round(figures["synced"] / max(several, single_1), 2)
    print(json.dumps({"single_1": single_1, "single": several, **figures, "ratio": ratio}))


def single(processes: int, threads: int, seconds: float) -> int:
    """Rows a second, one row a commit."""
    command = [sys.executable, "-m", __spec__.name, "commit", str(threads), str(seconds)]
    running = [
        subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True)
        for _ in range(processes)
    ]
    return round(sum(int(each.communicate()[0]) for each in running) / seconds)


def commit(threads: int, seconds: float) -> None:
    """Commit rows one by one on `threads` threads; print how many."""
    from examples.sync.shop import book, sale

    made = [0] * threads
    ready = threading.Barrier(threads)

    def go_on(thread: int) -> None:
        with book.connect() as connection:
            ready.wait()
            until = time.perf_counter() + seconds
            while time.perf_counter() < until:
                row = {"id": f"single-{os.getpid()}-{thread}-{made[thread]}", "code": "sku"}
                connection.execute(insert(sale), {**row, "quantity": 1})
                connection.commit()
                made[thread] += 1

    working = [threading.Thread(target=go_on, args=(number,)) for number in range(threads)]
    for each in working:
        each.start()
    for each in working:
        each.join()
    print(sum(made))


def sync(sales: int) -> dict[str, float]:
    """Sales a second from the first that is told to the last in the book, with two kills."""
    each, started = sales // 2, []

    def start(*command: str) -> subprocess.Popen[str]:
        running = subprocess.Popen(
            [sys.executable, "-m", *command],
            env=ENVIRONMENT,
            stdout=subprocess.PIPE if command[0] != "windlass" else None,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        started.append(running)
        return running

    def seller(name: str, begin: int) -> subprocess.Popen[str]:
        return start("examples.sync.sell", name, str(begin), str(each), str(AT_ONCE))

    try:
        workers = [start("windlass", "worker", "examples.sync.shop:app") for _ in range(2)]
        warm = start("examples.sync.sell", "warm", "0", "1")
        warm.communicate()
        _wait_for(lambda: _in_book("warm") == 1)
        first, other = seller("one", 0), seller("two", 0)
        assert first.stdout is not None
        first.stdout.readline()
        began = time.perf_counter()
        told = next(int(line) for line in first.stdout if int(line) >= each // 3)
        first.kill()
        again = seller("one", told)
        _wait_for(lambda: _in_book("one") + _in_book("two") > sales // 2)
        workers[0].kill()
        start("windlass", "worker", "examples.sync.shop:app")
        other.communicate()
        again.communicate()
        _wait_for(lambda: _in_book("one", "distinct") + _in_book("two", "distinct") >= sales)
        seconds = time.perf_counter() - began
    finally:
        for running in reversed(started):
            running.kill()
            running.wait()
    rows = _in_book("one") + _in_book("two")
    different = _in_book("one", "distinct") + _in_book("two", "distinct")
    return {
        "sales": sales,
        "synced": round(sales / seconds),
        "missing": sales - different,
        "doubled": rows - different,
    }


def _in_book(seller: str, how: str = "") -> int:
    engine = _engine()
    from examples.sync.shop import sale

    counted = func.count(sale.c.id.distinct() if how else sale.c.id)
    with engine.connect() as connection:
        query = select(counted).where(sale.c.id.like(f"{seller}-%"))
        return connection.scalar(query) or 0


_engines: list = []


def _engine():
    if not _engines:
        _engines.append(create_engine(BOOK))
    return _engines[0]


def _wait_for(is_so) -> None:
    deadline = time.monotonic() + 180
    while not is_so():
        if time.monotonic() > deadline:
            raise SystemExit("not all sales came into the book in time")
        time.sleep(0.1)


if __name__ == "__main__":
    if sys.argv[1:2] == ["commit"]:
        commit(int(sys.argv[2]), float(sys.argv[3]))
    else:
        main()
