"""A sweep over many rows: items a second beside a bare keyset scan, a rate held, a take-over.

Ten million rows in PostgreSQL, a million elsewhere. `one` and `many` are items a second by two
processes with a handler that does nothing, called with a row or with a thousand; `scan` is what one
process reads by bare pages of a thousand. `rated` is the part of 700 a second that is held with a
latency of 50 ms, and `rated_cpu` what a worker uses of a core for it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

from sqlalchemy import create_engine, event, select

from bench import tally
from bench.contract import Command, end_in_order_when_told, running, url
from bench.raw.session import Session
from bench.scenario.sweep_app import RATE, WHICH, app
from windlass import App, Table
from windlass.database.database import normalise
from windlass.database.schema import range_, round_, worker

ROWS = {"postgresql": 10_000_000}
OTHERS = 1_000_000
QUICK = 100_000
PAGE = 1_000
COUNTED = 100_000
SECONDS = 15.0

Figures = dict[str, float]


def main() -> None:
    end_in_order_when_told()
    quick = "--quick" in sys.argv
    session = Session(url())
    rows = QUICK if quick else ROWS.get(session.scheme, OTHERS)
    app.migrate()
    fill(session, rows)
    figures: Figures = {"rows": rows, "scan": scan(session, rows)}
    for which in ("one", "many"):
        seconds, memory = walk(which, rows)
        figures |= {which: round(rows / seconds), f"{which}_seconds": round(seconds, 1)}
        figures[f"{which}_megabytes_more"] = memory
    figures |= rated(SECONDS / (3 if quick else 1))
    figures["statements_per_1000"] = statements(min(rows, COUNTED))
    print(json.dumps(figures))


def fill(session: Session, rows: int) -> None:
    with session.transaction():
        session.execute(
            "create table article (id bigint primary key, offer_url varchar(80), state varchar(9))"
        )
    for begin in range(1, rows + 1, 5_000):
        numbers = range(begin, min(begin + 5_000, rows + 1))
        values = ", ".join(f"({7 * n}, 'https://shop.example/offer/{n}', 'on')" for n in numbers)
        with session.transaction():
            session.execute(f"insert into article values {values}")
    if session.scheme == "postgresql":
        session.alone("vacuum (analyze) article")


def scan(session: Session, rows: int) -> float:
    """Rows a second by bare pages, each from where the last one ended."""
    last, begin = 0, time.perf_counter()
    while True:
        with session.transaction():
            page = session.rows(
                f"select id, offer_url from article where id > {last} order by id limit {PAGE}"
            )
        if not page:
            return round(rows / (time.perf_counter() - begin))
        last = page[-1][0]


def workers(which: str, count: int) -> list[Command]:
    command = [sys.executable, "-m", "windlass", "worker", "bench.scenario.sweep_app:app"]
    return [Command(command, {WHICH: which})] * count


def walk(which: str, rows: int) -> tuple[float, float]:
    """Seconds of a round by two processes, and megabytes that one grew by after its first tenth."""
    folder = Path(os.environ[tally.FOLDER_VARIABLE])
    tally.clear(folder)
    with running(workers(which, 2)) as processes:
        while tally.read(folder).runs < rows / 10:
            time.sleep(0.05)
        before = resident(processes[0].pid)
        while not ended(which):
            time.sleep(0.05)
        end = time.time_ns()
        grown = resident(processes[0].pid) - before
    first = tally.read(folder).first_ns
    assert first is not None
    return (end - first) / 1e9, round(grown / 1e6, 1)


def ended(which: str) -> bool:
    query = select(round_.c.round).where(round_.c.sweep == which)
    return app.database.read(lambda connection: connection.scalar(query)) is not None


def rated(seconds: float) -> Figures:
    """The part of the rate that is held, the processor used for it, and a take-over."""
    folder = Path(os.environ[tally.FOLDER_VARIABLE])
    tally.clear(folder)
    with running(workers("rated", 2)) as processes:
        while tally.read(folder).runs < RATE:
            time.sleep(0.05)
        time.sleep(1.0)
        runs, begin, used = tally.read(folder).runs, time.perf_counter(), cpu(processes[0].pid)
        time.sleep(seconds)
        elapsed = time.perf_counter() - begin
        held = (tally.read(folder).runs - runs) / elapsed / RATE
        busy = (cpu(processes[0].pid) - used) / elapsed
        taken_over = take_over(processes[0].pid)
    return {"rated": round(held, 3), "rated_cpu": round(busy, 3), "take_over_seconds": taken_over}


def take_over(pid: int) -> float:
    """Seconds from kill -9 until another worker has saved progress in a range of the dead one."""

    def owned() -> dict[int, int]:
        owner = select(worker.c.id).where(worker.c.pid == pid).scalar_subquery()
        query = select(range_.c.id, range_.c.done).where(
            range_.c.worker == owner, range_.c.status == 1
        )
        return dict(
            map(tuple, app.database.read(lambda connection: connection.execute(query).all()))
        )

    def has_gone_on(before: dict[int, int]) -> bool:
        dead = select(worker.c.id).where(worker.c.pid == pid).scalar_subquery()
        query = select(range_.c.id, range_.c.done).where(
            range_.c.id.in_(before), range_.c.worker != dead
        )
        found = app.database.read(lambda connection: connection.execute(query).all())
        return any(done > before[number] for number, done in found)

    before = owned()
    os.kill(pid, signal.SIGKILL)
    begin = time.perf_counter()
    while not has_gone_on(before):
        time.sleep(0.02)
    return round(time.perf_counter() - begin, 2)


def statements(rows: int) -> float:
    """Statements for 1,000 items, those to the source included, in a round by one process."""
    count = [0]
    local = App(url())

    def note(*_arguments: object) -> None:
        count[0] += 1

    own = create_engine(normalise(url()))
    table = Table(own, "article", key="id", columns=["id", "offer_url"])
    for engine in (*local.database.engines, own):
        event.listen(engine, "before_cursor_execute", note)
    seen = [0]

    class Some:
        """The first rows of the table."""

        last = 7 * rows

        def bounds(self, ranges: int) -> list[int]:
            return [7 * (rows * part // ranges) for part in range(1, ranges)]

        def middle(self, after: int | None, upto: int | None) -> int | None:
            return table.middle(after, min(upto or self.last, self.last))

        def read(self, after: int | None, upto: int | None, limit: int) -> object:
            return table.read(after, min(upto or self.last, self.last), limit)

        def edge(self, after: int | None, upto: int | None, count: int) -> int | None:
            return table.edge(after, min(upto or self.last, self.last), count)

    @local.sweep(Some(), ranges=4, name="counted")
    async def counted(article: dict[str, object]) -> None:
        seen[0] += 1

    local.drain()
    local.close()
    own.dispose()
    assert seen[0] == rows, seen
    return round(count[0] / rows * 1_000, 2)


def resident(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def cpu(pid: int) -> float:
    """Seconds of processor time so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
