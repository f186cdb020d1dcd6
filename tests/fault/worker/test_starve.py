"""Handlers use up all connections of their process; the worker still counts as alive."""

import pytest
from sqlalchemy import create_engine, select

from tests.fault.crew import ids_of
from tests.wait import eventually
from windlass.clock import SECOND
from windlass.database.schema import worker

HANDLERS = 40


@pytest.mark.mostly("postgresql")
def test_handlers_that_wait_for_one_locked_key_do_not_stop_the_heartbeat(server_crew):
    crew = server_crew
    starved = crew.start("--concurrency", str(HANDLERS))
    crew.start("--concurrency", "1")
    database = crew.jobs.app.database
    number = starved.workers[0]

    def lease() -> int:
        found = select(worker.c.lease_until).where(worker.c.id == number)
        return database.read(lambda connection: connection.execute(found).scalar_one())

    # Not the app's: the server would end its transaction after some seconds.
    with create_engine(database.url).connect() as connection, connection.begin():
        crew.jobs.quick.using(key="hot", conn=connection).enqueue(0)
        ids = ids_of(crew.jobs.grab.enqueue_many([{"key": "hot"}] * 3 * HANDLERS))
        eventually(lambda: crew.effects.count("begin").total() > HANDLERS, 20.0)
        first = lease()
        # Several times as long as a worker may be silent.
        eventually(lambda: lease() > first + 8 * SECOND, 30.0, what="a lease that is renewed")
        assert crew.effects.count("end").total() == 0

    rows = crew.wait_done(ids, 60.0)
    assert {row.lost for row in rows.values()} == {0}
    assert [each.events("worker.lost") for each in crew.processes] == [[], []]
    begun = crew.effects.count("begin")
    assert {begun[number] for number in ids} == {1}
