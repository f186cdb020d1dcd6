"""A rate is kept by worker processes together, whoever comes and goes."""

import time
from collections.abc import Iterator

import pytest

from tests.core.limit.pace import check_keeps_up, check_never_above
from tests.fault.crew import Crew, ids_of
from tests.fault.worker.paced import MODULE, Paced
from tests.wait import eventually

RATE = 40


class PacedCrew:
    """A crew that serves a kind with a rate."""

    def __init__(self, crew: Crew, rate: float) -> None:
        self.crew = crew
        self.rate = rate
        text, path = f"{rate:g}/s", crew.folder / "starts"
        self.paced = Paced(crew.url, path, text)
        module = MODULE.format(url=crew.url, path=str(path), rate=text)
        (crew.folder / "served.py").write_text(module)

    def enqueue(self, seconds: float, *, each: float = 0.0) -> list[int]:
        """As many tasks as last for so many seconds; their ids."""
        calls = [{"seconds": each}] * round(self.rate * seconds)
        return ids_of(self.paced.kind.enqueue_many(calls))

    def wait_for_starts(self, pids: set[int], *, after: float) -> None:
        def have_all_begun() -> bool:
            return pids <= {start.pid for start in self.paced.starts() if start.moment > after}

        eventually(have_all_begun, 20.0, what="starts in every process")

    def check(self, *, begin: float, end: float) -> None:
        moments = self.paced.moments()
        check_never_above(moments, self.rate)
        check_keeps_up(moments, self.rate, begin=begin, end=end)


@pytest.fixture
def closing_crew() -> Iterator[list[PacedCrew]]:
    crews: list[PacedCrew] = []
    yield crews
    for each in crews:
        each.paced.app.close()


def let_pass(seconds: float) -> None:
    """Measure for a while: what is looked at here is how much happens in that time."""
    time.sleep(seconds)


def test_processes_that_start_one_after_the_other_share_a_rate(postgresql_crew, closing_crew):
    check_growing(postgresql_crew, closing_crew, rate=RATE, seconds=1.5)


@pytest.mark.slow
@pytest.mark.parametrize("rate", [5, RATE, 300])
def test_processes_share_a_rate_on_every_database(crew, closing_crew, rate):
    check_growing(crew, closing_crew, rate=rate, seconds=4.0)


def check_growing(
    crew: Crew, closing_crew: list[PacedCrew], *, rate: float, seconds: float
) -> None:
    team = PacedCrew(crew, rate)
    closing_crew.append(team)
    team.enqueue(60.0)
    pids = {crew.start().pid}
    team.wait_for_starts(pids, after=0.0)
    began = time.monotonic()
    steady = []

    for more in (0, 1, 2):
        pids |= {process.pid for process in crew.start_many(more)}
        begin = time.monotonic()
        let_pass(seconds)
        steady.append((begin, time.monotonic()))

    team.wait_for_starts(pids, after=began)
    for begin, end in steady:
        team.check(begin=begin, end=end)


@pytest.mark.slow
def test_a_killed_process_and_the_rescue_of_its_tasks_keep_the_rate(crew, closing_crew):
    team = PacedCrew(crew, RATE)
    closing_crew.append(team)
    ids = team.enqueue(10.0, each=1.0)
    victim, *_ = crew.start_many(3)
    eventually(lambda: len(team.paced.starts()) > RATE)

    victim.kill()
    let_pass(4.0)

    rows = crew.wait_done(ids, 40.0)
    assert any(row.lost for row in rows.values())
    check_never_above(team.paced.moments(), RATE)


@pytest.mark.slow
def test_a_process_that_is_stopped_and_goes_on_makes_no_burst(crew, closing_crew):
    team = PacedCrew(crew, RATE)
    closing_crew.append(team)
    team.enqueue(30.0)
    sleeper, _ = crew.start_many(2)
    eventually(lambda: len(team.paced.starts()) > RATE)

    sleeper.pause()
    let_pass(1.0)
    sleeper.resume()
    let_pass(3.0)

    check_never_above(team.paced.moments(), RATE)
