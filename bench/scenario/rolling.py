"""Rolling kinds of many items: import, read, visits, freshness and size.

Ten million items in PostgreSQL, a million elsewhere. The visits are set beside those of the raw
loop: the same read and the same update by bare statements, in as many processes.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from bench.contract import Command, end_in_order_when_told, running, url
from bench.raw.loop import Reader, microseconds
from bench.raw.session import Session
from bench.scenario.rolling_app import PRODUCT, app, mirrored, visited
from windlass.app import FACES
from windlass.core.fetch.claim import Rows
from windlass.core.fetch.owner import TAKE_AT_MOST
from windlass.core.finish.finish import write_group
from windlass.core.finish.store import Group
from windlass.core.ring import store as ring_store
from windlass.core.ring.heartbeat import leave
from windlass.database.database import Numbers
from windlass.database.dialect.base import Most, Stamp
from windlass.value.outcome import Succeeded, settle

SMALL = 10_000
ITEMS = {"postgresql": 10_000_000}
OTHERS = 1_000_000
QUICK = 100_000
RAW_ITEMS = 1_000_000
READS = 9
SECONDS = 10.0
PROCESSES = (1, 2, 4)
LATER = 10 * 86_400_000_000
HOUR = 3_600_000_000

Figures = dict[str, float]


def main() -> None:
    end_in_order_when_told()
    quick = "--quick" in sys.argv
    session = Session(url())
    items = QUICK if quick else ITEMS.get(session.scheme, OTHERS)
    figures: Figures = {"items": items}
    app.migrate()
    visited.add(codes(SMALL))
    session.analyse("windlass_task")
    small = median_read()
    before = size(session)
    figures["add_per_second"] = rate(items, lambda: visited.add(codes(items)))
    session.analyse("windlass_task")
    figures["bytes_per_item"] = round((size(session) - before) / (items - SMALL))
    large = median_read()
    figures |= {"read_small_ms": small, "read_large_ms": large, "ratio": round(large / small, 2)}
    figures["freshness_ms"] = median(visited.freshness)
    for processes in PROCESSES:
        figures[f"visits_{processes}"] = visits(session, processes, SECONDS / (5 if quick else 1))
        if items < ITEMS["postgresql"]:
            make_due(session)
    empty(session)
    products(session, items)
    figures["mirror_per_second"] = rate(items, lambda: mirrored.mirror(PRODUCT))
    figures["mirror_again_per_second"] = rate(items, lambda: mirrored.mirror(PRODUCT))
    empty(session)
    fill_raw(session, min(items, RAW_ITEMS))
    for processes in PROCESSES:
        figures[f"raw_visits_{processes}"] = raw(processes, SECONDS / (5 if quick else 1))
        make_raw_due(session)
    print(json.dumps(figures))


def codes(count: int) -> Iterator[str]:
    """Codes in no order, as real ones come."""
    return (f"SKU-{number * 7_368_787 % 1_000_000_007:010d}" for number in range(count))


def rate(count: int, work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return round(count / (time.perf_counter() - begin))


def median(work: Callable[[], object]) -> float:
    taken = []
    for _ in range(5):
        begin = time.perf_counter()
        work()
        taken.append((time.perf_counter() - begin) * 1000)
    return round(statistics.median(taken), 1)


def median_read() -> float:
    """Milliseconds of a read of 1,000 items by Windlass's own statements, finished in between."""
    database, clock, numbers = app.database, app.clock, Numbers(app.database)
    me, now = numbers.take()[0], clock.now()
    kinds = ring_store.Kinds(serves=[], declares=[])
    database.write(
        lambda connection: ring_store.join(
            connection, number=me, host="bench", pid=1, kinds=kinds, now=now, lease_until=now + HOUR
        )
    )
    taken = []
    kind = app.registry.get("visited")
    site = app.fleet.shards[0].site(app.registry)
    for _ in range(READS):
        (tier,) = Rows(database).tiers(["visited"])
        now = clock.now()
        stamp = Stamp(None, me, now, now)
        begin = time.perf_counter()
        rows = Rows(database).read(tier, stamp, Most(TAKE_AT_MOST, now))
        taken.append((time.perf_counter() - begin) * 1000)
        assert len(rows) == TAKE_AT_MOST, len(rows)
        settled = (settle(row, Succeeded(), kind.terms, now=now, turns=True) for row in rows)
        changes = sorted((change for change in settled if change), key=lambda change: change.id)
        group = Group(worker=me, is_read=True, changes=changes)
        write_group(site, group, [], beside=lambda _connection, _accepted: None)
    leave(database, FACES, number=me, now=clock.now(), why="done", due={})
    return round(statistics.median(taken), 2)


def visits(session: Session, processes: int, seconds: float) -> float:
    """Visits a second by that many worker processes."""
    command = [sys.executable, "-m", "windlass", "worker", "bench.scenario.rolling_app:app"]
    begin = done(session)
    with running([Command([*command, "--processes", str(processes)])]):
        while done(session) == begin:
            time.sleep(0.05)
        time.sleep(1.0)
        first, began = done(session), time.perf_counter()
        time.sleep(seconds)
        last, ended = done(session), time.perf_counter()
    return round((last - first) / (ended - began))


def make_due(session: Session) -> None:
    """Have enough items due for the next measure."""
    with session.transaction():
        session.execute("update windlass_task set due_at = created_at where due_at > created_at")
    session.analyse("windlass_task")


def done(session: Session) -> int:
    with session.transaction():
        ((count,),) = session.rows("select coalesce(sum(done), 0) from windlass_stat")
    return int(count)


def products(session: Session, count: int) -> None:
    """The user's table that is mirrored."""
    with session.transaction():
        session.execute("create table product (code varchar(40) primary key, name varchar(40))")
    rows = list(codes(count))
    for begin in range(0, count, 5_000):
        values = ", ".join(f"('{code}', 'a product')" for code in rows[begin : begin + 5_000])
        with session.transaction():
            session.execute(f"insert into product values {values}")
    session.analyse("product")


def fill_raw(session: Session, count: int) -> None:
    with session.transaction():
        for statement in session.statements.create:
            session.execute(statement)
    now = microseconds() - count
    rows = enumerate(codes(count))
    while part := [row for _, row in zip(range(5_000), rows, strict=False)]:
        values = ", ".join(
            f"({number}, 'noop', '{code}', {number % 256}, 0, 0, {now + number}, 'null', {now})"
            for number, code in part
        )
        with session.transaction():
            session.execute(
                "insert into raw_task (id, kind, task_key, bucket, status, priority, due_at, "
                f"payload, created_at) values {values}"
            )
    session.analyse("raw_task")


def raw(processes: int, seconds: float) -> float:
    """Visits a second by bare statements in that many processes."""
    with ProcessPoolExecutor(processes) as pool:
        shares = [(number, processes, seconds) for number in range(processes)]
        return round(sum(pool.map(roll, shares)))


def roll(share: tuple[int, int, float]) -> float:
    """Visits a second by one process, until its time is over or nothing is due."""
    number, total, seconds = share
    session = Session(url())
    reader = Reader(session, number, total)
    begin, count = time.perf_counter(), 0
    while (elapsed := time.perf_counter() - begin) < seconds:
        ids = session.persist(reader.read)
        if not ids:
            break
        session.persist(partial(finish_raw, session, ids))
        count += len(ids)
    return count / elapsed


def make_raw_due(session: Session) -> None:
    with session.transaction():
        session.execute("update raw_task set due_at = created_at + id")
    session.analyse("raw_task")


def finish_raw(session: Session, ids: list[int]) -> None:
    now = microseconds()
    with session.transaction():
        session.execute(session.statements.roll, ids=session.ids(ids), now=now, later=now + LATER)


def empty(session: Session) -> None:
    """Make room: the figures that come next are of other rows."""
    word = "truncate table" if session.scheme != "sqlite" else "delete from"
    for table in ("windlass_task", "windlass_tally"):
        with session.transaction():
            session.execute(f"{word} {table}")


def size(session: Session) -> int:
    """Bytes of the tasks with their indexes."""
    if session.scheme == "sqlite":
        session.rows("pragma wal_checkpoint(truncate)")
        return Path(url().removeprefix("sqlite:///")).stat().st_size
    with session.transaction():
        if session.scheme == "postgresql":
            found = session.rows("select pg_total_relation_size('windlass_task')")
        else:
            session.rows("analyze table windlass_task")
            found = session.rows(
                "select data_length + index_length from information_schema.tables "
                "where table_name = 'windlass_task' and table_schema = database()"
            )
    return int(found[0][0])


if __name__ == "__main__":
    main()
