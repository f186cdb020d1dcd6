"""One worker is cut off from the coordinator alone, or from the database alone."""

from collections.abc import Iterable

import pytest

from tests.fault.crew import Crew, Process, check_accounts, ids_of
from tests.fault.ring.circle import stays_true
from tests.fault.ring.share import owned_by
from tests.fixture.coordinator import Coordinators
from tests.server import Etcd, ZooKeeper
from tests.server.relay import Relay
from tests.wait import eventually

SLOW = pytest.mark.slow
WAYS = [
    pytest.param("etcd", "stall"),
    pytest.param("etcd", "refuse", marks=SLOW),
    pytest.param("zookeeper", "stall", marks=SLOW),
    pytest.param("zookeeper", "refuse"),
]
OPTIONS = ("--concurrency", "20")
SECONDS = 40.0


@pytest.mark.parametrize(("kind", "how"), WAYS)
def test_a_worker_that_only_the_coordinator_cannot_hear_is_missed_and_comes_back(
    kind: str, how: str, coordinators: Coordinators, crew_by
):
    check_cut_off_from_coordinator(crew_by(kind), coordinators.of(kind), how, apart_seconds=3.0)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["etcd", "zookeeper"])
def test_a_worker_that_the_coordinator_cannot_hear_for_long_tries_to_join_until_it_can(
    kind: str, coordinators: Coordinators, crew_by
):
    # Joining is tried for five seconds at a time.
    check_cut_off_from_coordinator(
        crew_by(kind), coordinators.of(kind), "stall", apart_seconds=14.0
    )


@pytest.mark.parametrize(
    "engine", ["postgresql", *(pytest.param(each, marks=SLOW) for each in ("mariadb", "mysql"))]
)
@pytest.mark.parametrize("kind", ["etcd", pytest.param("zookeeper", marks=SLOW)])
@pytest.mark.parametrize("how", ["stall", pytest.param("refuse", marks=SLOW)])
def test_a_worker_that_only_the_database_cannot_hear_gives_up_and_comes_back(
    kind: str, how: str, engine: str, site_of, coordinators: Coordinators, crew_over
):
    site, coordinator = site_of(engine), coordinators.of(kind)
    crew = crew_over(site.url, members=coordinator.url)
    with Relay(site.server.port) as relay:
        cut_off, others, ids = three_at_work(crew, url=relay.url(crew.url))

        getattr(relay, how)()
        eventually(lambda: cut_off.events("worker.lost"), SECONDS, what="a worker that gives up")
        begun = begun_by(crew, cut_off)
        eventually(lambda: owned_by(crew, *others), SECONDS, what="the share of who gave up")
        ids += enqueue(crew, 200)
        inherited = crew.wait_done(ids, SECONDS)
        assert begun_by(crew, cut_off) == begun
        relay.heal()
        eventually(lambda: owned_by(crew, cut_off, *others), SECONDS, what="a member again")

        assert crew.rows(ids) == inherited
        ids += enqueue(crew, 400)
        crew.wait_busy_with(ids[-400:], cut_off)
        crew.wait_done(ids, SECONDS)
        check_taken_over(crew, ids, cut_off, others)


def check_cut_off_from_coordinator(
    crew: Crew, coordinator: Etcd | ZooKeeper, how: str, *, apart_seconds: float
) -> None:
    with Relay(coordinator.port) as relay:
        cut_off, others, ids = three_at_work(crew, members=relay.url(coordinator.url))

        getattr(relay, how)()
        eventually(lambda: owned_by(crew, *others), SECONDS, what="the share of who is missed")
        # It tries to join all the time; nothing is kept for it before it can.
        assert stays_true(lambda: owned_by(crew, *others), apart_seconds)
        ids += enqueue(crew, 200)
        crew.wait_done(ids, SECONDS)
        relay.heal()
        eventually(lambda: owned_by(crew, cut_off, *others), SECONDS, what="a member again")
        ids += enqueue(crew, 400)
        crew.wait_busy_with(ids[-400:], cut_off)
        crew.wait_done(ids, SECONDS)

        check_taken_over(crew, ids, cut_off, others)
        assert len(crew.left()) == len(cut_off.workers) + len(others)


def three_at_work(crew: Crew, **through: str) -> tuple[Process, list[Process], list[int]]:
    """One worker that goes through the relay, two others, and what they are all busy with."""
    one = crew.start(*OPTIONS, **through)
    others = crew.start_many(2, *OPTIONS)
    eventually(lambda: owned_by(crew, one, *others), SECONDS, what="three even shares")
    ids = enqueue(crew, 1_200)
    crew.wait_busy()
    return one, others, ids


def enqueue(crew: Crew, count: int) -> list[int]:
    return ids_of(crew.jobs.nap.enqueue_many([{"seconds": 0.05}] * count))


def begun_by(crew: Crew, process: Process) -> list[int]:
    """The tasks that this process began, in order."""
    begun = [effect for effect in crew.effects.all() if effect.what == "begin"]
    return [effect.task_id for effect in begun if effect.pid == process.pid]


def check_taken_over(
    crew: Crew, ids: Iterable[int], cut_off: Process, others: Iterable[Process]
) -> None:
    """Only the one that was cut off was given up, and only its rows were run again, by others."""
    check_accounts(crew, ids)
    assert len(cut_off.workers) == 2
    assert len(cut_off.events("worker.lost")) == 1
    assert "Traceback" not in cut_off.log
    first_life = cut_off.workers[0]
    dead = [
        event["worker"] for successor in others for event in successor.events("worker.marked_dead")
    ]
    assert dead == [first_life]
    assert crew.left()[first_life] == "it missed its heartbeat"
    assert not [successor for successor in others if successor.events("worker.lost")]
    runs: dict[int, list[int]] = {}
    for effect in crew.effects.all():
        if effect.what == "begin":
            runs.setdefault(effect.task_id, []).append(effect.pid)
    repeated = [pids for pids in runs.values() if len(pids) > 1]
    assert [pids for pids in repeated if pids[0] != cut_off.pid or len(pids) > 2] == []
