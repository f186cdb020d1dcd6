"""Every server has deadlocks: it counts them, the transaction is repeated, no caller sees one."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from random import Random

import pytest
from sqlalchemy import text

from bench.raw.session import Session
from tests.fault.conftest import Site
from tests.wait import eventually
from windlass import AlreadyRunning, App, telemetry
from windlass.database.connection import Connection
from windlass.ledger import Ledger
from windlass.queue import Queue

Act = Callable[[Random, int], None]

SKUS = [f"sku-{number}" for number in range(6)]
CODES = [f"code-{number}" for number in range(40)]
ROUNDS = 25
WRITE = text("insert into windlass_number (name, next) values (:name, 0)")
ADD = text("update windlass_number set next = next + 1 where name = :name")
COUNTED = text("select name, next from windlass_number where name in ('left', 'right')")


@pytest.fixture
def site(server_site: Site) -> Site:
    App(server_site.url).migrate()
    return server_site


@contextmanager
def events(*names: str) -> Iterator[list[telemetry.Event]]:
    """The events of these names that are emitted inside the block."""
    seen: list[telemetry.Event] = []
    stop = telemetry.subscribe(lambda event: seen.append(event) if event.name in names else None)
    try:
        yield seen
    finally:
        stop()


def deadlocks(site: Site) -> int:
    session = Session(site.url.partition("?")[0])
    try:
        return session.deadlocks()
    finally:
        session.close()


def test_a_deadlock_is_counted_by_the_server_and_seen_by_no_caller(site):
    app = App(site.url)
    for name in ("left", "right"):
        app.database.write(lambda connection, name=name: connection.execute(WRITE, {"name": name}))
    before = deadlocks(site)
    both_hold_one = threading.Barrier(2)

    def add_to(first: str, second: str) -> None:
        is_first_try = True

        def work(connection: Connection) -> None:
            nonlocal is_first_try
            connection.execute(ADD, {"name": first})
            if is_first_try:
                is_first_try = False
                both_hold_one.wait(10)
            connection.execute(ADD, {"name": second})

        app.database.write(work)

    with ThreadPoolExecutor(2) as pool:
        calls = [pool.submit(add_to, *pair) for pair in (("left", "right"), ("right", "left"))]
        for call in calls:
            call.result(timeout=30)

    counted = app.database.read(lambda connection: dict(map(tuple, connection.execute(COUNTED))))
    assert counted == {"left": 2, "right": 2}
    eventually(lambda: deadlocks(site) > before, what="a deadlock in the server's statistics")
    app.close()


def test_every_face_at_once_on_the_same_rows_leaves_no_deadlock_to_a_caller(
    site, queue, record_property
):
    app = App(site.url)
    ledger = Ledger(site.url)

    @app.task
    def keyed(number: int) -> None: ...

    @app.rolling(every="1h")
    def visit(code: str) -> None: ...

    @app.flow
    def pair(flow, number: int) -> None:
        flow.add(keyed, number, after=flow.add(keyed, number))

    ledger.restock("delivery", dict.fromkeys(SKUS, 10_000))
    before = deadlocks(site)

    def move(dice: Random, number: int) -> None:
        order = f"order-{number}-{dice.random()}"
        ledger.deduct(order, dict.fromkeys(dice.sample(SKUS, 3), 2))
        ledger.give_back(order, "back", dict.fromkeys(ledger_skus(ledger, order), 1))

    def replace(dice: Random, number: int) -> None:
        key = f"key-{dice.randrange(5)}"
        keyed.using(key=key, on_conflict="replace", delay="1s").enqueue(number)

    def change_items(dice: Random, _number: int) -> None:
        visit.add(dice.sample(CODES, 20), now=True)
        visit.remove(dice.sample(CODES, 10))

    def start(dice: Random, number: int) -> None:
        run = pair.start(number)
        if dice.random() < 0.5:
            run.cancel()

    acts: list[Act] = [move, replace, change_items, start, *limited(app), publisher(app, queue)]
    with events("database.failed", "loop.failed") as failures:
        with app_at_work(app), ThreadPoolExecutor(2 * len(acts)) as pool:
            callers = [pool.submit(repeat, act, seed) for seed, act in enumerate(acts * 2)]
            for caller in callers:
                caller.result(timeout=120)
        app.drain()

    record_property("deadlocks", deadlocks(site) - before)
    assert [event.fields for event in failures] == []
    assert ledger.audit().ok
    sold = 2 * ROUNDS * 3
    assert sum(ledger.stock(sku).available for sku in SKUS) == 10_000 * len(SKUS) - sold
    app.close()


def limited(app: App) -> list[Act]:
    """Tasks of few lanes that share a downstream, and runs of few names."""
    warehouse = app.downstream("warehouse", concurrency=2)

    @app.task(downstream=warehouse)
    def ordered(number: int) -> None: ...

    def follow(dice: Random, number: int) -> None:
        ordered.using(lane=f"lane-{dice.randrange(3)}").enqueue(number)

    def control(dice: Random, _number: int) -> None:
        name = f"run-{dice.randrange(3)}"
        with suppress(AlreadyRunning), app.control(name, expires="1m") as run:
            run.step(1)

    return [follow, control]


def publisher(app: App, queue: Queue) -> Act:
    """Messages of few keys, which leave in the order of each key."""

    def publish(dice: Random, number: int) -> None:
        app.publish(queue, {"number": number}, key=f"key-{dice.randrange(3)}")

    return publish


def ledger_skus(ledger: Ledger, order: str) -> list[str]:
    found = ledger.deduction(order)
    assert found is not None
    return [line.sku for line in found.lines]


def repeat(act: Act, seed: int) -> None:
    dice = Random(seed)
    for number in range(ROUNDS):
        act(dice, number)


@contextmanager
def app_at_work(app: App) -> Iterator[None]:
    """Two workers of this process run what is due, until the block ends."""
    workers = [app.worker(), app.worker()]
    threads = [threading.Thread(target=asyncio.run, args=[worker.run()]) for worker in workers]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for worker in workers:
            worker.stop()
        for thread in threads:
            thread.join(30)
