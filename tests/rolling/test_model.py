"""Rolling kinds against a model of them: plain sets of codes with the hour at which each is due."""

from collections import Counter

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)
from sqlalchemy import delete, update

from tests.core.fetch.dead import Doomed
from tests.fixture.machine import campaign, walk
from tests.table import tasks
from windlass import App, Mirror, Status
from windlass.clock import SECOND, ManualClock
from windlass.database.schema import bucket as bucket_table
from windlass.database.schema import metadata
from windlass.database.schema import number as number_table
from windlass.database.schema import shard as shard_table
from windlass.rolling.store import item as rolling

HOUR = 3600 * SECOND
EVERY, RETRY_AFTER, TICK = 10, 2, 3
KINDS = ("flowing", "ticking")
CODES = [*"abcdefgh", "bad-1", "bad-2", "Ä", "a "]

kinds = st.sampled_from(KINDS)
codes = st.lists(st.sampled_from(CODES), max_size=6)


class Model:
    """The items of one kind: the hour at which each is due, and how often it was visited.

    Time is in hours. Every row is written a moment after its hour, so what falls due in an hour is
    due at the tick after it and not at the tick of that very hour.
    """

    def __init__(self, tick):
        self.tick = tick
        self.due = {}
        self.visits = Counter()
        self.last_visit = {}
        # Held by a living worker; of those, removed meanwhile; and dropped by a dead one.
        self.running = set()
        self.going = set()
        self.abandoned = set()

    def last_tick(self, hour):
        return hour // self.tick * self.tick

    def is_due(self, code, hour):
        if code in self.running | self.abandoned:
            return code in self.abandoned
        if self.tick is None:
            return self.due[code] <= hour
        return self.due[code] < self.last_tick(hour) + 0.5

    def visited(self, code, hour):
        self.visits[code] += 1
        self.last_visit[code] = hour
        self.abandoned.discard(code)
        if code.startswith("bad"):
            self.due[code] = hour + RETRY_AFTER + (0.75 if self.tick else 0)
        else:
            begin = hour if self.tick is None else self.last_tick(hour)
            self.due[code] = begin + EVERY


class Shop(RuleBasedStateMachine):
    """Add, hurry, remove, mirror, visit, wait, drain, die, in any order."""

    url: str

    def __init__(self):
        super().__init__()
        self.clock = ManualClock()
        self.app = App(self.url, clock=self.clock)
        self.seen = Counter()
        self.kinds = {name: self._declare(name) for name in KINDS}
        self.models = {"flowing": Model(None), "ticking": Model(TICK)}
        self.hour = 0
        self.is_served = False

    def _declare(self, name):
        def handle(code: str) -> str:
            self.seen[name, code] += 1
            if code.startswith("bad"):
                raise ValueError(code)
            return f"{name} {code}"

        options = {"every": f"{EVERY}h", "retry_after": f"{RETRY_AFTER}h", "name": name}
        tick = f"{TICK}h" if name == "ticking" else None
        return self.app.rolling(**options, tick=tick)(handle)

    @initialize()
    def begin(self):
        def empty(connection):
            for table in metadata.sorted_tables:
                if table not in (number_table, bucket_table, shard_table):
                    connection.execute(delete(table))
            connection.execute(update(bucket_table).values(owner=None, careful_to=0))

        self.app.prepare()
        self.app.database.write(empty)
        self.clock.advance(SECOND)

    def teardown(self):
        self.app.close()

    @rule(name=kinds, codes=codes)
    def add(self, name, codes):
        model = self.models[name]
        new = set(codes) - model.due.keys()

        assert self.kinds[name].add(codes) == len(new)

        self._added(model, new)

    @rule(name=kinds, codes=codes)
    def add_now(self, name, codes):
        model = self.models[name]
        new = set(codes) - model.due.keys()

        assert self.kinds[name].add(iter(codes), now=True) == len(new)

        self._added(model, new)
        for code in codes:
            if code not in model.running | model.abandoned:
                model.due[code] = min(model.due[code], self._now(model))

    @rule(name=kinds, codes=codes)
    def remove(self, name, codes):
        model = self.models[name]
        there = set(codes) & model.due.keys()

        assert self.kinds[name].remove(codes) == len(there)

        self._removed(model, there)

    @rule(name=kinds, codes=codes, dry_run=st.booleans())
    def mirror(self, name, codes, dry_run):
        model = self.models[name]
        new, gone = set(codes) - model.due.keys(), model.due.keys() - set(codes)

        done = self.kinds[name].mirror(Listed(set(codes)), dry_run=dry_run)

        assert done == Mirror(len(new), len(gone), dry_run)
        if not dry_run:
            self._added(model, new)
            self._removed(model, gone)

    @rule(hours=st.sampled_from([1, 2, 3, 5, 10, 24]))
    def wait(self, hours):
        self.clock.advance(hours * HOUR)
        self.hour += hours
        # Nobody renews the lease of the worker that holds items.
        self.is_served = False

    @rule()
    def drain(self):
        due = {
            (name, code)
            for name, model in self.models.items()
            for code in model.due
            if model.is_due(code, self.hour)
        }
        before = self.seen.copy()

        self.app.drain()

        assert self.seen - before == Counter(due)
        for name, code in due:
            self.models[name].visited(code, self.hour)

    @precondition(lambda self: not self.is_served)
    @rule(data=st.data(), name=kinds, fresh=st.sampled_from([None, EVERY]))
    def visit(self, data, name, fresh):
        model = self.models[name]
        free = sorted(model.due.keys() - model.running)
        if not free:
            return
        code = data.draw(st.sampled_from(free))
        since = self.hour - model.last_visit[code] if model.visits[code] else EVERY
        is_fresh = fresh is not None and since < EVERY and code not in model.abandoned
        before = self.seen[name, code]

        patience = {"timeout": "5s", "fresh": None if fresh is None else f"{fresh}h"}
        item = self.kinds[name].visit(code, **patience)

        assert item.code == code
        assert self.seen[name, code] == before + (not is_fresh)
        if not is_fresh:
            model.visited(code, self.hour)

    @precondition(lambda self: not any(model.running for model in self.models.values()))
    @rule(limit=st.integers(1, 3))
    def hold(self, limit):
        """A worker takes some items, and is busy with them for a while."""
        self.holder = Doomed(self.app)
        for taken in self.holder.take(limit):
            self.models[taken.kind].running.add(taken.task_key)

    @precondition(lambda self: any(model.running for model in self.models.values()))
    @rule()
    def die(self):
        """That worker dies: what it held is due at once, or gone if it was removed meanwhile."""
        self.holder.die()
        self.is_served = False
        for model in self.models.values():
            model.abandoned |= model.running - model.going
            model.running.clear()
            model.going.clear()

    @rule()
    def add_up(self):
        self.app.database.write(lambda connection: rolling.add_up(connection, limit=1_000))

    @invariant()
    def the_total_is_the_size_of_the_set(self):
        for name, model in self.models.items():
            assert self.kinds[name].freshness().total == len(model.due)

    @invariant()
    def the_rows_are_the_items_and_those_that_are_about_to_go(self):
        for name, model in self.models.items():
            rows = {row["task_key"] for row in tasks(self.app, kind=name)}
            assert rows == model.due.keys() | model.going

    @invariant()
    def each_item_is_as_its_last_visit_left_it(self):
        for name, model in self.models.items():
            for code in CODES:
                item = self.kinds[name].item(code)
                if code not in model.due:
                    assert item is None
                elif code in model.running | model.abandoned:
                    assert item.status is Status.RUNNING
                elif not model.visits[code]:
                    assert (item.status, item.finished_at) == (Status.WAITING, None)
                elif code.startswith("bad"):
                    assert (item.status, item.remark) == (Status.FAILED, f"ValueError: {code}")
                else:
                    assert (item.status, item.remark) == (Status.SUCCEEDED, f"{name} {code}")

    @invariant()
    def nothing_is_said_to_be_visited_that_never_was(self):
        for name, model in self.models.items():
            never = {code for code in model.due if not model.visits[code]}
            waiting = never - model.running - model.abandoned
            assert self.kinds[name].freshness().never_visited == len(waiting)

    def _now(self, model):
        return self.hour if model.tick is None else model.last_tick(self.hour)

    def _added(self, model, new):
        for code in new:
            if code in model.going:
                model.going.remove(code)
            else:
                model.visits[code] = 0
            model.due[code] = self.hour + (0.75 if model.tick else 0)

    def _removed(self, model, gone):
        for code in set(gone):
            del model.due[code]
            model.abandoned.discard(code)
            if code in model.running:
                model.going.add(code)


class Listed:
    """A source in memory."""

    name = "a list"

    def __init__(self, keys):
        self._keys = keys

    def check(self):
        pass

    def keys(self):
        yield sorted(self._keys)

    def present(self, keys):
        return self._keys & set(keys)


@pytest.mark.mostly("sqlite", "postgresql")
def test_any_order_of_steps_leaves_the_items_that_the_model_foretells(
    database_engine, database_url
):
    examples = 3 if database_engine == "sqlite" else 2
    walk(Shop, database_engine, database_url, examples=examples, steps=30)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_long_campaign_of_steps_leaves_the_items_that_the_model_foretells(
    database_engine, database_url
):
    campaign(Shop, database_engine, database_url, steps=30)
