"""Sweeps with `auto=False`: nothing begins by itself, only by `start()`."""

from contextlib import closing

import pytest

from tests.sweep.offer import declare
from tests.sweep.test_change import Letters
from windlass import App, BadDeclaration, Keys


@pytest.fixture
def seen():
    return []


def test_a_sweep_without_auto_begins_only_when_it_is_started(app, seen):
    offer = declare(app, seen, auto=False)
    app.drain()
    assert (seen, offer.progress().round) == ([], 0)
    assert offer.progress().why == "start() begins a round"

    assert offer.start() == 1
    app.drain()
    app.drain()

    assert sorted(seen) == list(range(1, 101))
    assert offer.progress().why == "ended; start() begins another round"
    assert offer.start() == 2


@pytest.mark.mostly("sqlite")
def test_a_sweep_that_loses_its_auto_begins_no_more_rounds(database_url, seen, clock):
    with closing(App(database_url, clock=clock)) as before:
        declare(before, seen, redo="4h")
        before.drain()
    assert len(seen) == 100

    with closing(App(database_url, clock=clock)) as after:
        offer = declare(after, seen, auto=False)
        clock.forward("5h")
        after.drain()

        assert (len(seen), offer.progress().next_at) == (100, None)


@pytest.mark.mostly("sqlite")
def test_a_sweep_that_gets_auto_begins_its_first_round(database_url, seen, clock):
    with closing(App(database_url, clock=clock)) as before:
        declare(before, seen, auto=False)
        before.drain()
    assert seen == []

    with closing(App(database_url, clock=clock)) as after:
        declare(after, seen)
        after.drain()

    assert len(seen) == 100


@pytest.mark.mostly("sqlite")
def test_another_source_ends_the_round_and_waits_for_start(database_url, seen):
    with closing(App(database_url)) as old:
        declare(old, [], source=Letters(), ranges=3, auto=False).start()

    with closing(App(database_url)) as new:
        offer = declare(new, seen, source=Keys(1, 20), auto=False)
        new.drain()
        (alert,) = new.alerts()

        assert (seen, offer.progress().is_running) == ([], False)
        assert alert.text.endswith("start() begins the next round")


@pytest.mark.mostly("sqlite")
def test_redo_and_no_auto_contradict_each_other(app, seen):
    with pytest.raises(BadDeclaration, match="redo='4h' begins rounds by itself"):
        declare(app, seen, redo="4h", auto=False)
