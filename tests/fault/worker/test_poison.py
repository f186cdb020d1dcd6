"""A task that kills its worker each time ends as poison, and all others are done."""

import pytest

from tests.fault.crew import Crew, check_accounts, ids_of
from tests.wait import eventually
from windlass.value.status import Status

MAX_LOST = 3
LONG_SECONDS = 1.0
SECONDS = 90.0
SLOW = pytest.mark.slow


def test_a_task_that_kills_its_workers_ends_as_poison_and_harms_no_other(postgresql_crew):
    check_poison(postgresql_crew, seconds=0.0)


@pytest.mark.slow
def test_a_task_that_kills_its_workers_ends_as_poison_on_every_database(crew):
    check_poison(crew, seconds=0.0)


@pytest.mark.parametrize(
    ("means", "seconds"),
    [
        pytest.param("zookeeper", LONG_SECONDS, marks=SLOW),
        pytest.param("zookeeper", 0.0, marks=SLOW),
        pytest.param("etcd", LONG_SECONDS, marks=SLOW),
        pytest.param("etcd", 0.0, marks=SLOW),
        pytest.param("database", LONG_SECONDS, marks=SLOW),
    ],
)
def test_a_task_that_kills_its_workers_ends_as_poison_by_every_means(crew_by, means, seconds):
    check_poison(crew_by(means), seconds=seconds)


def check_poison(crew: Crew, *, seconds: float) -> None:
    """It kills its worker `seconds` after it has begun."""
    supervisor = crew.start("--processes", "2", "--concurrency", "5", joined=False)
    eventually(lambda: len(supervisor.events("worker.joined")) >= 2, SECONDS, what="two workers")

    poison = crew.jobs.die.enqueue(seconds).id
    ids = ids_of(crew.jobs.nap.enqueue_many([{"seconds": 0.05}] * 300))

    eventually(lambda: crew.rows()[poison].status is Status.FAILED, SECONDS, what="poison found")
    rows = crew.wait_done(ids, SECONDS)
    check_accounts(crew, ids)
    assert max(row.lost for row in rows.values()) < MAX_LOST
    assert crew.rows()[poison].lost == MAX_LOST
    deaths = crew.effects.count("begin")[poison]
    if seconds:
        assert deaths == MAX_LOST
    else:
        # The first time nobody may have written down that it runs.
        assert deaths in (MAX_LOST, MAX_LOST + 1)
    assert len(supervisor.events("process.died")) == deaths
    alerts = crew.jobs.app.alerts()
    told = [(alert.what, alert.task_id) for alert in alerts if "worker" not in alert.what]
    assert told == [("poison", poison)]
