"""Permits in the database: whoever joins, dies or gets no answer, the limit is kept."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from sqlalchemy.exc import OperationalError

from windlass import App
from windlass.app import FACES
from windlass.core.limit.permit import account as account_module
from windlass.core.limit.permit import store
from windlass.core.limit.permit.account import Account
from windlass.core.limit.permit.guest import Guest
from windlass.core.ring.heartbeat import mark_dead
from windlass.core.run.permit import Pool
from windlass.core.shard.home import place_of_shard
from windlass.database.connection import Connection

LIMIT = 3


class Player:
    """A worker that only takes permits, uses them, and gives them back."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.guest = Guest(place_of_shard(app.fleet.shards[0]), dead_after=5_000_000)
        self.guest.beat()
        self.pool = Pool("inventory", self.guest)
        self.pool.limit = LIMIT
        self.account = Account(self.pool, app.database)
        self.is_stopped = False

    def tend(self) -> None:
        self.account._next_at = 0.0
        self.account.tend()

    def start(self) -> bool:
        self.pool.available(1)
        return self.pool.take()

    def die(self) -> None:
        """Be killed: what it ran has ended, and others mark it dead."""
        now = self.app.clock.now()
        gone = mark_dead(self.app.database, FACES, number=self.guest.id, now=now, lease=None)
        assert gone is not None


def held(app: App) -> int:
    found = app.database.read(lambda connection: store.holdings(connection, "inventory"))
    return sum(each.held for each in found)


@contextmanager
def answers_lost(app: App, *, before_commit: bool) -> Iterator[None]:
    """Every exchange fails: before its commit, or after it, when its answer is lost."""
    real = app.database.write_as

    def failing(worker, work, *, lost, tries):
        if not before_commit:
            real(worker, work, lost=lost, tries=tries)
        raise OperationalError("update", {}, Exception("the connection was lost"))

    app.database.write_as = failing
    try:
        yield
    except OperationalError:
        pass
    finally:
        del app.database.write_as


@pytest.fixture(autouse=True)
def no_turns(monkeypatch):
    """A turn is over at once, so that no test waits for one."""
    monkeypatch.setattr(account_module, "TURN_SECONDS", 0.0)


def test_a_worker_takes_what_it_asks_for_and_returns_what_it_does_not_use(app):
    app.prepare()
    player = Player(app)

    assert not player.start()
    player.tend()

    assert player.start()
    assert held(app) == 1


def test_two_workers_never_hold_more_than_the_limit(app):
    app.prepare()
    players = [Player(app) for _ in range(2)]

    for player in players:
        player.pool.available(LIMIT)
        player.tend()

    assert held(app) == LIMIT
    assert sum(player.pool.held for player in players) == LIMIT


def test_a_worker_that_waits_gets_its_part_when_runs_end(app):
    app.prepare()
    first, second = Player(app), Player(app)
    first.pool.available(LIMIT)
    first.tend()
    while first.start():
        pass
    second.pool.available(LIMIT)
    second.tend()
    assert second.pool.held == 0

    first.tend()
    for _ in range(LIMIT):
        first.pool.give_back()
    first.tend()
    second.tend()

    assert second.pool.held >= 1
    assert held(app) <= LIMIT


def test_the_permits_of_a_dead_worker_are_free_when_it_is_marked(app):
    app.prepare()
    first, second = Player(app), Player(app)
    first.pool.available(LIMIT)
    first.tend()
    second.pool.available(LIMIT)
    second.tend()
    assert second.pool.held == 0

    first.die()
    second.tend()

    assert second.pool.held == LIMIT


def test_a_worker_that_was_marked_dead_starts_nothing_with_its_old_permits(app):
    app.prepare()
    player = Player(app)
    player.pool.available(1)
    player.tend()
    player.die()

    player.guest._renewed_at = 0.0
    player.guest.beat()

    assert not player.start()


def test_when_the_limit_is_lowered_nothing_starts_above_it(app):
    app.prepare()
    player = Player(app)
    player.pool.available(LIMIT)
    player.tend()
    while player.start():
        pass

    player.pool.limit = 1
    player.tend()
    assert held(app) == LIMIT
    player.pool.give_back()

    assert not player.start()
    player.tend()
    assert held(app) == 2
    player.pool.give_back()
    player.tend()
    assert held(app) == 1


def test_with_one_permit_each_of_three_workers_gets_a_turn(app):
    app.prepare()
    players = [Player(app) for _ in range(3)]
    turns = set()

    for _ in range(12):
        for player in players:
            player.pool.limit = 1
            if player.start():
                turns.add(player.guest.id)
                player.pool.give_back()
            player.tend()

    assert len(turns) == 3


class Fleet(RuleBasedStateMachine):
    """Players over one SQLite database, in any order of steps."""

    url = ""

    @initialize()
    def begin(self) -> None:
        self.app = App(self.url)
        self.app.prepare()

        def clear(connection: Connection) -> None:
            for table in ("windlass_permit", "windlass_limit", "windlass_worker"):
                connection.exec_driver_sql(f"delete from {table}")

        self.app.database.write(clear)
        self.players = [Player(self.app)]
        self.limit = LIMIT

    def teardown(self) -> None:
        self.app.close()

    def chosen(self, number: int) -> Player:
        return self.players[number % len(self.players)]

    @precondition(lambda self: len(self.players) < 4)
    @rule()
    def join(self) -> None:
        self.players.append(Player(self.app))
        self.players[-1].pool.limit = self.limit

    @rule(number=st.integers(0, 3), wanted=st.integers(1, 5))
    def ask(self, number: int, wanted: int) -> None:
        self.chosen(number).pool.available(wanted)

    @rule(number=st.integers(0, 3))
    def tend(self, number: int) -> None:
        self.chosen(number).tend()

    @rule(number=st.integers(0, 3))
    def start(self, number: int) -> None:
        self.chosen(number).pool.take()

    @rule(number=st.integers(0, 3))
    def use_all_that_is_free(self, number: int) -> None:
        player = self.chosen(number)
        player.pool.available(LIMIT)
        player.tend()
        while player.pool.take():
            pass

    @rule(number=st.integers(0, 3))
    def end(self, number: int) -> None:
        pool = self.chosen(number).pool
        if pool.used:
            pool.give_back()

    @rule(number=st.integers(0, 3), before_commit=st.booleans())
    def lose_an_answer(self, number: int, before_commit: bool) -> None:
        with answers_lost(self.app, before_commit=before_commit):
            self.chosen(number).tend()

    @precondition(lambda self: len(self.players) > 1)
    @rule(number=st.integers(0, 3))
    def die(self, number: int) -> None:
        player = self.chosen(number)
        player.die()
        self.players.remove(player)

    @rule(number=st.integers(0, 3))
    def forget_what_was_used_lately(self, number: int) -> None:
        pool = self.chosen(number).pool
        pool._peaks, pool._asked_until = (0, pool.used), 0.0

    @invariant()
    def never_more_than_the_limit(self) -> None:
        assert sum(player.pool.used for player in self.players) <= LIMIT
        assert held(self.app) <= LIMIT

    @invariant()
    def nobody_believes_to_hold_more_than_its_row_says(self) -> None:
        rows = self.app.database.read(lambda connection: store.holdings(connection, "inventory"))
        by_worker = {each.worker: each.held for each in rows}
        for player in self.players:
            assert player.pool.held <= by_worker.get(player.guest.id, 0)
            assert player.pool.used <= by_worker.get(player.guest.id, 0)


@pytest.mark.mostly("sqlite")
def test_no_order_of_steps_exceeds_the_limit(sqlite_url, monkeypatch):
    check(sqlite_url, monkeypatch, examples=5, steps=20)


@pytest.mark.slow
def test_no_order_of_many_steps_exceeds_the_limit(database_url, monkeypatch):
    check(database_url, monkeypatch, examples=40, steps=40)


def check(url: str, monkeypatch: pytest.MonkeyPatch, *, examples: int, steps: int) -> None:
    monkeypatch.setattr(Fleet, "url", url)
    Fleet.TestCase.settings = settings(
        max_examples=examples, stateful_step_count=steps, deadline=None
    )
    Fleet.TestCase().runTest()
