"""Workers whose machine has the wrong time: an hour ahead, an hour behind, or jumping.

With etcd it cannot be tried like this: gRPC asks for the time both in Python and in C.
"""

import time
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import select

from tests.fault.crew import Crew, Process, check_accounts, ids_of
from tests.fault.ring.share import owned_by
from tests.wait import eventually
from windlass.clock import SECOND, to_datetime
from windlass.database.schema import stat, task

# What a process is told when it asks for the time of day; its monotonic clock is right.
WRONG = """
import time

def wrong(seconds=time.time, nanoseconds=time.time_ns):
    def off():
        return {off}

    time.time = lambda: seconds() + off()
    time.time_ns = lambda: nanoseconds() + off() * 1_000_000_000

wrong()
"""
AHEAD = WRONG.format(off="3_600")
BEHIND = WRONG.format(off="-3_600")
JUMPING = WRONG.format(off="3_600 if int(time.monotonic()) % 2 else -3_600")
HALF_AN_HOUR = timedelta(minutes=30)

DELAY_SECONDS = 3
OPTIONS = ("--concurrency", "10")
SECONDS = 40.0

SLOW = pytest.mark.slow


@pytest.fixture(
    params=[
        ("postgresql", "database"),
        pytest.param(("mariadb", "database"), marks=SLOW),
        pytest.param(("mysql", "database"), marks=SLOW),
        pytest.param(("postgresql", "zookeeper"), marks=SLOW),
    ],
    ids="-".join,
)
def crew(request, crew_by) -> Crew:
    engine, means = request.param
    return crew_by(means, engine=engine)


def test_workers_with_a_wrong_clock_work_on_time_and_take_over_in_time(crew):
    right = crew.start(*OPTIONS)
    wrong = [crew.start(*OPTIONS, prelude=off) for off in (AHEAD, BEHIND, JUMPING)]
    eventually(lambda: owned_by(crew, right, *wrong), SECONDS, what="four even shares")
    assert [round(hours_off(process)) for process in (right, *wrong[:2])] == [0, 1, -1]

    now = enqueue(crew, 400)
    crew.wait_done(now, SECONDS)
    check_all_took_part(crew, now, right, *wrong)
    later = check_delayed_tasks_begin_on_time(crew)
    check_all_took_part(crew, later, right, *wrong)
    everyone = [*wrong, right]
    assert not [each for each in everyone if each.events("worker.marked_dead")]
    right.kill()
    more = enqueue(crew, 200)
    crew.wait_done(more, SECONDS)
    eventually(lambda: owned_by(crew, *wrong), SECONDS, what="the share of the dead")

    check_accounts(crew, [*now, *later, *more])
    assert not [each for each in everyone if each.events("worker.lost")]
    dead = [event["worker"] for each in wrong for event in each.events("worker.marked_dead")]
    assert dead == right.workers
    check_statistics(crew, len(now) + len(later) + len(more))


def enqueue(crew: Crew, count: int) -> list[int]:
    return ids_of(crew.jobs.nap.enqueue_many([{"seconds": 0.05}] * count))


def hours_off(process: Process) -> float:
    """By how much its clock was wrong when it joined, as its log tells."""
    (joined,) = process.events("worker.joined")
    return (datetime.fromisoformat(joined["time"]) - datetime.now(UTC)) / timedelta(hours=1)


def check_delayed_tasks_begin_on_time(crew: Crew) -> list[int]:
    """Tasks with a delay are neither run at once nor an hour late, whoever owns them; their ids."""
    delayed = crew.jobs.nap.using(delay=f"{DELAY_SECONDS}s")
    asked, due = time.monotonic(), crew.jobs.app.clock.now() + DELAY_SECONDS * SECOND
    ids = ids_of(delayed.enqueue_many([{"seconds": 0.05}] * 200))

    eventually(lambda: crew.effects.count("begin").keys() & set(ids), what="the first of them")
    assert time.monotonic() - asked >= DELAY_SECONDS
    rows = crew.wait_done(ids, 20.0)

    assert {
        row.id for row in rows.values() if not due <= row.started_at < due + 20 * SECOND
    } == set()
    return ids


def check_all_took_part(crew: Crew, ids: list[int], *processes: Process) -> None:
    wanted = set(ids)
    pids = {effect.pid for effect in crew.effects.all() if effect.task_id in wanted}
    assert pids == {process.pid for process in processes}


def check_statistics(crew: Crew, count: int) -> None:
    """All is counted in minutes of the right time, and every row is from then too."""
    rows = read(crew, select(stat.c.minute, stat.c.done))
    assert sum(row.done for row in rows) == count
    moments = [to_datetime(row.minute * 60 * SECOND) for row in rows]
    for row in read(crew, select(task.c.created_at, task.c.started_at, task.c.finished_at)):
        moments += [to_datetime(moment) for moment in row]
    now = datetime.now(UTC)
    assert [moment for moment in moments if abs(moment - now) > HALF_AN_HOUR] == []


def read(crew: Crew, query):
    return crew.jobs.app.database.read(lambda connection: connection.execute(query).all())
