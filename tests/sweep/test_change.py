"""A sweep whose declaration names another source, while a round over the old one runs."""

from contextlib import closing
from string import ascii_lowercase

import pytest

from tests.rolling.stock import serving
from tests.sweep.offer import declare
from tests.wait import eventually
from windlass import App, Keys
from windlass.sweep.engine import round as rounds

PAIRS = [a + b for a in ascii_lowercase for b in ascii_lowercase]


class Letters:
    """Pairs of letters, which lie between no two numbers."""

    name = "letters"

    def bounds(self, ranges):
        return ["g", "p"][: ranges - 1]

    def middle(self, after, upto):
        return None

    def read(self, after, upto, limit):
        found = [pair for pair in PAIRS if (after or "") < pair <= (upto or "zz")]
        return [(each, each) for each in found[:limit]]


def abandoned(events):
    return [name for name, _ in events].count("sweep.abandoned")


def test_a_source_with_other_keys_ends_the_round_that_runs_and_begins_its_own(database_url, events):
    old, new = App(database_url), App(database_url)
    seen = []
    declare(old, [], source=Letters(), ranges=3).start()
    offer = declare(new, seen, source=Keys(1, 20), ranges=3)

    with closing(old), closing(new):
        new.drain()
        progress = offer.progress()

        assert sorted(seen) == list(range(1, 21))
        assert (progress.round, progress.percent, progress.error) == (2, 100.0, None)
        assert abandoned(events) == 1
        (alert,) = new.alerts()
        assert (alert.what, alert.kind) == ("source", "offer")
        assert "round 1 of sweep 'offer' was given up" in alert.text
        assert offer.audit().ok


@pytest.mark.mostly("sqlite")
def test_other_numbers_of_the_same_kind_do_not_end_the_round_that_runs(app, database_url, events):
    declare(app, [], source=Keys(1, 20)).start()
    seen = []

    with closing(App(database_url)) as new:
        offer = declare(new, seen, source=Keys(1, 30))
        new.drain()

        assert (offer.progress().round, sorted(seen)) == (1, list(range(1, 31)))
    assert abandoned(events) == 0


@pytest.mark.mostly("sqlite")
@pytest.mark.slow
def test_workers_with_two_declarations_do_not_take_a_sweep_from_each_other(
    database_url, events, monkeypatch
):
    monkeypatch.setattr(rounds, "OTHERS_SECONDS", 2.0)
    old, new = App(database_url), App(database_url)
    before, after = [], []
    declare(old, before, source=Letters(), ranges=3, rate="50/s")
    offer = declare(new, after, source=Keys(1, 10_000), ranges=3, rate="50/s")

    with closing(old), closing(new), serving(old) as worker:
        eventually(lambda: before, 10.0)
        (runner,) = worker.face_loops[0].runners
        starter = runner._rounds
        with serving(new):
            eventually(lambda: len(after) > 20, 40.0, what="the new source, walked")
            count = len(before)
            since = eventually(lambda: starter.others_since, what="the other declaration, noticed")
            eventually(lambda: starter.others_since != since, what="the old worker's next look")

            assert len(before) <= count + 1
            assert abandoned(events) == 1
            assert offer.progress().error is None


@pytest.mark.mostly("sqlite")
def test_a_sweep_that_was_taken_back_by_an_old_worker_is_taken_over_when_nobody_runs_it(
    database_url, events, monkeypatch
):
    monkeypatch.setattr(rounds, "OTHERS_SECONDS", 0.3)
    old, new = App(database_url), App(database_url)
    after = []
    declare(old, [], source=Letters(), ranges=3, rate="5/s")
    declare(new, after, source=Keys(1, 100_000), ranges=3, rate="50/s")

    with closing(old), closing(new), serving(new):
        eventually(lambda: after, 10.0)
        with serving(old):
            eventually(lambda: abandoned(events), what="the sweep, taken back")
        count = len(after)
        eventually(lambda: len(after) > count + 50, 20.0, what="the new source, walked again")
