"""Workers die and stop in the middle of visits, and items are removed and added beside them."""

from contextlib import closing

import pytest

from tests.fault.face.visits import RollingCrew
from tests.wait import eventually
from windlass import Status

ITEMS = 300
SLOW_ITEMS = 20


@pytest.fixture
def crew(database_engine, site_of, tmp_path):
    """A crew over a new database of each engine: dead after 2 seconds, lease of 5 seconds."""
    with closing(RollingCrew(tmp_path, site_of(database_engine).url)) as crew:
        yield crew


@pytest.fixture
def patient_crew(database_engine, site_of, tmp_path):
    """Such a crew, whose workers are not marked dead because a busy machine delays a heartbeat."""
    url = site_of(database_engine).url
    with closing(RollingCrew(tmp_path, url, lease="90s", dead_after="60s")) as crew:
        yield crew


@pytest.fixture
def postgresql_crew(site_of, tmp_path):
    """Such a crew on PostgreSQL alone."""
    with closing(RollingCrew(tmp_path, site_of("postgresql").url)) as crew:
        yield crew


@pytest.mark.mostly("mariadb")
def test_a_killed_worker_loses_no_item_and_the_living_visit_none_twice_at_once(crew):
    slow = [f"slow-{number}" for number in range(SLOW_ITEMS)]
    codes = slow + [f"code-{number}" for number in range(ITEMS - SLOW_ITEMS)]
    victim, successor = crew.start_many(2, "--concurrency", "10")
    crew.stock.add(codes)
    eventually(
        lambda: (
            {note.pid for note in crew.visits.all() if note.code in slow}
            >= {victim.pid, successor.pid}
        ),
        20.0,
        what="two workers in the middle of a visit",
    )

    victim.kill()
    crew.visits.open_gate()
    eventually(lambda: crew.visited() == ITEMS, 40.0, what="every item visited")

    cut_short = crew.visits.count("begin") - crew.visits.count("end")
    assert cut_short
    assert crew.visits.count("end").keys() == set(codes)
    assert crew.visits.overlapped(killed=[victim.pid]) == []
    assert crew.stock.freshness().total == ITEMS
    assert {row.attempt for row in crew.rows().values()} == {0}
    assert len(successor.events("worker.marked_dead")) == 1

    before = crew.visits.count("end")
    assert crew.stock.add(codes, now=True) == 0
    eventually(lambda: crew.visits.count("end") - before == dict.fromkeys(codes, 1), 20.0)


@pytest.mark.mostly("sqlite")
def test_an_item_that_is_removed_while_it_runs_goes_and_does_not_come_back(crew):
    worker = crew.start("--concurrency", "5")
    crew.stock.add(["slow", "other"])
    eventually(lambda: crew.visits.count("begin")["slow"] == 1)
    crew.wait_written_down(1)

    assert crew.stock.remove(["slow"]) == 1
    assert crew.stock.item("slow") is None
    crew.visits.open_gate()

    eventually(lambda: len(crew.rows()) == 1, what="a row that is gone")
    assert crew.visits.count("end")["slow"] == 1
    assert crew.stock.freshness().total == 1
    assert worker.terminate() == 0
    assert len(crew.rows()) == 1


def test_an_item_that_is_removed_before_its_worker_is_killed_goes_with_it(postgresql_crew):
    check_removal_and_kill(postgresql_crew)


@pytest.mark.slow
def test_an_item_that_is_removed_goes_with_its_worker_on_every_database(crew):
    check_removal_and_kill(crew)


def check_removal_and_kill(crew):
    victim = crew.start("--concurrency", "5")
    crew.stock.add(["slow-gone", "slow-stays"])
    eventually(lambda: crew.visits.count("begin").total() == 2)
    crew.wait_written_down(2)
    successor = crew.start("--concurrency", "5")

    crew.stock.remove(["slow-gone"])
    victim.kill()
    eventually(lambda: crew.visits.count("begin")["slow-stays"] == 2, 20.0)
    crew.visits.open_gate()
    eventually(lambda: crew.visits.count("end")["slow-stays"] == 1)

    assert crew.visits.count("begin")["slow-gone"] == 1
    assert len(crew.rows()) == crew.stock.freshness().total == 1
    assert successor.terminate() == 0
    assert crew.stock.item("slow-stays").status is Status.SUCCEEDED


@pytest.mark.mostly("postgresql")
def test_an_item_that_is_added_again_while_it_runs_is_not_visited_beside_that(patient_crew):
    crew = patient_crew
    crew.start_many(2, "--concurrency", "5")
    crew.stock.add(["slow"])
    eventually(lambda: crew.visits.count("begin")["slow"] == 1)
    crew.wait_written_down(1)

    crew.stock.remove(["slow"])
    assert crew.stock.add(["slow"], now=True) == 1
    # By the time others that came later are visited, it would have been.
    crew.stock.add(f"code-{number}" for number in range(50))
    eventually(lambda: crew.visited() == 50)
    crew.visits.open_gate()
    eventually(lambda: crew.visited() == 51)

    assert crew.visits.count("begin")["slow"] == crew.visits.count("end")["slow"] == 1
    assert crew.visits.overlapped() == []
    assert crew.stock.freshness().total == 51


@pytest.mark.mostly("mariadb")
def test_a_worker_stops_cleanly_with_removed_items_in_its_queue(crew):
    codes = [f"code-{number}" for number in range(2_000)]
    worker = crew.start("--concurrency", "3")
    crew.stock.add(codes)
    eventually(lambda: crew.visits.count("end").total() >= 30)

    removed = crew.stock.remove(codes)
    code = worker.terminate()

    assert (removed, code) == (2_000, 0)
    assert crew.rows() == {}
    assert crew.stock.freshness().total == 0
    assert set(crew.left().values()) == {"stopped"}
    assert crew.visits.count("begin") == crew.visits.count("end")
    assert worker.events("worker.crashed") == worker.events("database.failed") == []
