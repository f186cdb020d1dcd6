"""What a failed test leaves does not reach the tests after it."""

import asyncio
import threading
from contextlib import closing

import pytest

from tests.fixture.database import Pools, pool_of
from tests.fixture.worker import end_guard, end_workers
from tests.wait import eventually
from windlass import App
from windlass.core.ring.guard import SHARED


@pytest.fixture
def sqlite(tmp_path):
    pools = Pools(tmp_path / "lent")
    pools.directory.mkdir()
    yield pools.of("sqlite")
    pools.close()


def test_a_worker_that_was_left_ends_before_its_database_is_lent_again(sqlite):
    with sqlite.migrated() as url:
        app = App(url)
        worker = app.worker()
        thread = threading.Thread(target=lambda: asyncio.run(worker.run()))
        thread.start()
        eventually(lambda: worker.heartbeat.id, what="a worker that has joined")
        with sqlite.migrated() as other:
            assert not end_workers(sqlite.address_of(other))

    assert worker.left_cleanly
    thread.join()
    app.close()


def test_a_worker_that_never_ran_leaves_no_guard(sqlite):
    with sqlite.migrated() as url, closing(App(url)) as app:
        app.worker().heartbeat.join_ring()
        assert SHARED._helper is not None

        end_guard()

        assert SHARED._helper is None


@pytest.mark.parametrize("has_failed", [False, True])
def test_only_a_test_that_failed_costs_its_database(pools, pytestconfig, has_failed):
    pool = pool_of("postgresql", pools, pytestconfig)
    with pool.migrated() as first:
        pools.doubt(has_failed)

    pools.doubt(False)
    with pool.migrated() as second:
        assert (first != second) == has_failed
