"""Sweeps, and apps with several shards, keep the limits of a downstream."""

import threading

import pytest

from tests.core.limit.test_downstream import Server
from tests.core.run.working import switch_of
from windlass import HeldBack, Keys
from windlass.core.shard.home import limit_home
from windlass.value.breaker import BreakerState

pytestmark = pytest.mark.mostly("sqlite")


@pytest.fixture
def server():
    return Server()


def test_the_items_of_a_sweep_and_other_kinds_share_a_concurrency(app, server):
    inventory = app.downstream("inventory", concurrency=2)

    @app.sweep(Keys(1, 30), ranges=3, downstream=inventory)
    def offer(key: int) -> None:
        server.call()

    @app.task(downstream=inventory)
    def look() -> None:
        server.call()

    look.enqueue_many([{}] * 10)

    app.drain()

    assert len(server.calls) == 40
    assert server.peak <= 2


def test_fast_failures_of_a_sweep_open_the_breaker_of_its_downstream(app, server):
    server.is_down = True
    inventory = app.downstream("inventory", breaker="5 in a row, 1h")

    @app.sweep(Keys(1, 500), ranges=4, downstream=inventory, concurrency=1)
    async def offer(key: int) -> None:
        server.call()

    app.drain()

    assert len(server.calls) == 5
    assert switch_of(app, "inventory")["breaker"] == BreakerState.OPEN


def test_visits_of_a_sweep_keep_the_concurrency(app, server):
    inventory = app.downstream("inventory", concurrency=1)

    @app.sweep(Keys(1, 30), downstream=inventory)
    def offer(key: int) -> None:
        server.call()

    visits = [threading.Thread(target=offer.visit, args=(key,)) for key in (1, 2, 3)]

    for visit in visits:
        visit.start()
    for visit in visits:
        visit.join()

    assert (len(server.calls), server.peak) == (3, 1)


def test_a_visit_of_a_sweep_is_refused_while_its_downstream_is_paused(app, server):
    inventory = app.downstream("inventory")

    @app.sweep(Keys(1, 30), downstream=inventory)
    def offer(key: int) -> None:
        server.call()

    app.pause("inventory", reason="stocktaking")

    with pytest.raises(HeldBack, match="downstream inventory: paused"):
        offer.visit(7)


def test_all_shards_together_keep_the_limits(sharded, server):
    sharded.downstream("inventory", concurrency=2, breaker="3 in a row, 1h")

    @sharded.task(downstream="inventory")
    def look() -> None:
        server.call()

    for _ in range(30):
        look.enqueue()

    sharded.drain()

    assert len(server.calls) == 30
    assert server.peak <= 2


def test_errors_in_any_shard_open_the_one_breaker(sharded, server):
    server.is_down = True
    sharded.downstream("inventory", concurrency=1, breaker="3 in a row, 1h")

    @sharded.task(downstream="inventory", retries=0)
    async def look() -> None:
        server.call()

    for _ in range(40):
        look.enqueue()

    sharded.drain()

    home = limit_home(sharded.fleet, "inventory")
    found = home.database.read(
        lambda connection: connection.exec_driver_sql(
            "select breaker from windlass_switch where kind = 'inventory'"
        ).scalar()
    )
    assert found == BreakerState.OPEN
    assert len(server.calls) < 20
