"""The clock of a running database server steps, forward and back; workers go on."""

from collections.abc import Iterator

import pytest
from sqlalchemy import func, select, update

from tests.fault.crew import Crew, Process, check_accounts, ids_of
from tests.server import ServerMissing
from tests.server.stepped import Stepped, SteppedMariaDB, SteppedPostgreSQL
from tests.wait import eventually
from windlass.clock import SECOND
from windlass.database.schema import alert, clock_step, task
from windlass.value.status import Status

SECONDS = 60.0
HOUR, DAY = 3600, 86_400
SLOW = pytest.mark.slow
SERVERS = {"postgresql": SteppedPostgreSQL, "mariadb": SteppedMariaDB}

CRON = """

@app.cron("* * * * *")
def minutely() -> None: ...
"""


@pytest.fixture(params=["postgresql", pytest.param("mariadb", marks=SLOW)])
def server(request, pytestconfig) -> Iterator[Stepped]:
    if request.param not in pytestconfig.getoption("--database"):
        pytest.skip(f"{request.param} is left out by --database")
    try:
        server = SERVERS[request.param](fast=True)
    except ServerMissing as error:
        pytest.skip(error.reason)
    with server:
        yield server


@pytest.fixture
def crew(server, crew_over) -> Crew:
    crew = crew_over(server.url)
    with (crew.folder / "served.py").open("a") as served:
        served.write(CRON)
    return crew


@pytest.mark.slow
@pytest.mark.parametrize("by", [HOUR, 1, DAY, -1, -HOUR, -DAY])
def test_a_step_and_the_step_back_stop_nothing(crew, server, by):
    first, second = crew.start_many(2)
    everyone = [first, second]
    ran = run_some(crew)
    fails = crew.jobs.stuck.enqueue()
    eventually(lambda: crew.rows([fails.id])[fails.id].status is Status.FAILED, SECONDS)
    # It begins before the step, and ends after it.
    (long,) = ids_of([crew.jobs.nap.enqueue(seconds=8.0)])
    crew.wait_written_down(1)

    for steps, seconds in ((1, by), (2, -by)):
        server.step(seconds)
        wait_until_noticed(crew, everyone, steps)
        wait_until_pruned(crew)
        ran += run_some(crew)
        # Another worker joins by the new time.
        everyone.append(crew.start())
        ran += run_some(crew, busy=everyone[-1])
        wait_for_the_next_turn(crew)

    crew.wait_done([long], SECONDS)
    # No row was run twice, lost or pruned.
    check_accounts(crew, [*ran, long])
    assert {row.attempt for row in crew.rows([*ran, long]).values()} == {1}
    assert set(crew.effects.count("begin").values()) == {1}
    assert crew.rows([fails.id])[fails.id].status is Status.FAILED
    assert fails.status() is Status.FAILED
    # Nobody was marked dead, and nobody stopped.
    assert set(crew.left().values()) == {None}
    assert not [each for each in everyone if each.events("worker.marked_dead")]
    assert not [each for each in everyone if each.events("worker.lost")]
    # The task that failed has one of its own.
    stepped = alert.c.what == "clock stepped"
    told = read(crew, select(alert.c.what, alert.c.kind).where(stepped))
    assert [tuple(row) for row in told] == [("clock stepped", None)] * 2


def run_some(crew: Crew, *, busy: Process | None = None) -> list[int]:
    """Enqueue by the new time, and wait until all have run; their ids."""
    wait_for_the_new_time(crew)
    ids: list[int] = []

    def took_part() -> bool:
        ids.extend(ids_of(crew.jobs.quick.enqueue_many([{"number": 1}] * 40)))
        crew.wait_done(ids, SECONDS)
        ran = {each.pid for each in crew.effects.all() if each.task_id in set(ids)}
        return busy is None or busy.pid in ran

    eventually(took_part, SECONDS, what="a worker that takes part")
    return ids


def wait_for_the_new_time(crew: Crew) -> None:
    """Until this process has asked for the time again."""
    app = crew.jobs.app
    eventually(lambda: abs(app.clock.now() - app.database.measure()) < SECOND // 4, SECONDS)


def wait_until_noticed(crew: Crew, everyone: list[Process], steps: int) -> None:
    """Every worker says so, and it is recorded once."""
    old = everyone[:2]
    eventually(
        lambda: all(len(each.events("clock.stepped")) == steps for each in old),
        SECONDS,
        what="workers that notice",
    )
    count = select(func.count()).select_from(clock_step)
    eventually(lambda: read(crew, count) == [(steps,)], SECONDS, what="a step that is recorded")


def wait_until_pruned(crew: Crew) -> None:
    """Until workers have pruned by the new time: a row that ended long ago is gone."""
    wait_for_the_new_time(crew)
    number = crew.jobs.quick.enqueue(number=0).id
    crew.wait_done([number], SECONDS)
    long_ago = crew.jobs.app.database.measure() - 30 * DAY * SECOND
    ended = update(task).where(task.c.id == number).values(prune_at=long_ago)
    crew.jobs.app.database.write(lambda connection: connection.execute(ended))
    eventually(lambda: not crew.rows([number]), SECONDS, what="a row that is pruned")


def wait_for_the_next_turn(crew: Crew) -> None:
    """The cron waits for its next turn, which is at most a minute away."""

    def is_near() -> bool:
        ((turn,),) = read(crew, select(task.c.due_at).where(task.c.kind == "minutely"))
        return turn is not None and turn <= crew.jobs.app.database.measure() + 61 * SECOND

    eventually(is_near, SECONDS, what="a cron whose turn is near")


def read(crew: Crew, query) -> list:
    return crew.jobs.app.database.read(lambda connection: connection.execute(query).all())
