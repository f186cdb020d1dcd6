"""Ranges against a model, which is a set of keys: whatever happens, no key is lost or shared."""

import itertools

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from sqlalchemy import delete

from tests.fixture.machine import campaign, walk
from tests.sweep.manual_worker import (
    SweepHand,
    begin,
    failures,
    key,
    listing,
    look,
    merge,
    number,
    row,
    split,
)
from windlass import App
from windlass.clock import ManualClock
from windlass.database.schema import range_, round_, sweep, sweep_failure
from windlass.sweep.model import audit, in_order
from windlass.sweep.store.range import hand_back
from windlass.value.status import Status

LAST = 12
WORKERS = 3

workers = st.integers(0, WORKERS - 1)
places = st.integers(0, 20)
keys = st.integers(1, LAST - 1)


class Life:
    """A worker and the ranges that it believes to hold; zombies go on believing."""

    def __init__(self, app):
        self.hand = SweepHand(app, LAST)
        self.owned = []
        self.is_alive = True


class SweepMachine(RuleBasedStateMachine):
    """Reserve, advance, save, split, merge, complete, expire and hand back, in any order."""

    url: str

    @initialize(bounds=st.sets(keys, max_size=3))
    def start(self, bounds):
        self.app = App(self.url, clock=ManualClock())
        self.app.prepare()
        clean(self.app)
        begin(self.app, sorted(bounds), LAST)
        self.lives = [Life(self.app) for _ in range(WORKERS)]
        self.zombies = []
        self.done = set()
        self.runs = dict.fromkeys(range(1, LAST + 1), 0)
        self.has_died = False

    def teardown(self):
        if hasattr(self, "app"):
            self.finish()
            self.app.close()

    def pick(self, worker, place):
        owned = self.lives[worker].owned
        return owned[place % len(owned)] if owned else None

    @rule(worker=workers)
    def claim(self, worker):
        life = self.lives[worker]
        owner = life.hand.claim(is_alone=not life.owned)
        if owner is not None:
            life.owned.append(owner)

    @rule(worker=workers, place=places, many=st.integers(1, 4))
    def reserve(self, worker, place, many):
        owner = self.pick(worker, place)
        if owner is not None and owner.read_to < owner.until:
            most = 1 if owner.is_careful else many
            if not owner.is_careful or not owner.todo:
                self.lives[worker].hand.reserve(owner, most)

    @rule(worker=workers, place=places, item=places)
    def advance(self, worker, place, item):
        owner = self.pick(worker, place)
        if owner is not None and owner.todo:
            self.run(owner, owner.todo[item % len(owner.todo)])

    @rule(worker=workers, place=places)
    def save(self, worker, place):
        owner = self.pick(worker, place)
        if owner is not None:
            assert self.lives[worker].hand.save(owner)

    @rule(worker=workers, place=places)
    def complete(self, worker, place):
        owner = self.pick(worker, place)
        if owner is not None and not owner.todo:
            self.try_complete(self.lives[worker], owner)

    @rule(place=places, middle=keys)
    def split(self, place, middle):
        seen = self.any_range(place)
        if seen is not None and number(seen.floor) <= middle < self.end_of(seen):
            split(self.app, seen, middle)

    @rule(place=places, middle=keys, many=st.integers(1, 4))
    def split_what_was_seen_before_its_owner_went_on(self, place, middle, many):
        seen = self.any_range(place)
        if seen is None or not number(seen.floor) <= middle < self.end_of(seen):
            return
        for life in self.lives:
            for owner in life.owned:
                if owner.claimed.id == seen.id and owner.read_to < owner.until:
                    life.hand.reserve(owner, 1 if owner.is_careful else many)
        split(self.app, seen, middle)

    @rule(place=places)
    def merge(self, place):
        ordered = in_order(listing(self.app))
        pairs = list(itertools.pairwise(ordered))
        if pairs:
            merge(self.app, *pairs[place % len(pairs)])

    @rule(worker=workers)
    def expire(self, worker):
        """A worker is marked dead, and does not know it."""
        life = self.lives[worker]
        self.has_died = self.has_died or bool(life.owned)
        self.die(life)
        self.zombies.append(life)
        self.lives[worker] = Life(self.app)

    @precondition(lambda self: self.zombies)
    @rule(place=places, item=places)
    def a_zombie_goes_on(self, place, item):
        zombie = self.zombies[place % len(self.zombies)]
        before = listing(self.app)
        for owner in zombie.owned:
            if owner.todo:
                owner.run(owner.todo[item % len(owner.todo)])
            assert not zombie.hand.save(owner)
            assert not zombie.hand.reserve(owner, 2)
            assert not zombie.hand.complete(owner).is_done
        assert listing(self.app) == before

    @rule(worker=workers)
    def hand_back(self, worker):
        """A worker goes in good order, with what it has done saved, and what it has not handed on.

        What ran beyond a breakpoint is run again, as if it had died.
        """
        life = self.lives[worker]
        for owner in life.owned:
            life.hand.save(owner)
            self.has_died = self.has_died or owner.breakpoint != max(owner.done, default=0)
        self.app.database.write(lambda connection: hand_back(connection, life.hand.id))
        life.owned = []

    def run(self, owner, item):
        owner.run(item)
        self.done.add(item)
        self.runs[item] += 1

    def try_complete(self, life, owner):
        if owner.end is None and owner.read_to < LAST:
            # Only the source knows that there is nothing up to an open end.
            return
        completed = life.hand.complete(owner)
        if completed.is_done:
            life.owned.remove(owner)
        else:
            owner.end = look(self.app, owner.claimed.id).end

    def any_range(self, place):
        found = listing(self.app)
        return found[place % len(found)] if found else None

    @staticmethod
    def end_of(seen):
        return LAST if seen.end is None else number(seen.end)

    def die(self, life):
        life.hand.renew()
        life.is_alive = False
        for other in self.lives:
            other.hand.renew()
        self.app.clock.advance(6_000_000)
        for other in self.lives:
            if other is not life:
                other.hand.renew()
        assert life.hand.be_marked_dead() is not None

    @invariant()
    def ranges_tile_the_key_space(self):
        if hasattr(self, "app"):
            found = audit(listing(self.app))
            assert found.ok, found.problems

    @invariant()
    def a_breakpoint_never_passes_an_unfinished_key(self):
        if hasattr(self, "app"):
            aside = {int(key) for key in aside_keys(self.app)}
            for each in listing(self.app):
                begun, passed = number(each.begin), number(each.breakpoint)
                assert passed <= number(each.read_to) <= self.end_of(each)
                assert set(range(begun + 1, passed + 1)) <= self.done | aside

    @invariant()
    def no_key_is_with_two_who_live(self):
        if hasattr(self, "app"):
            todo = [key for life in self.lives for owner in life.owned for key in owner.todo]
            assert len(todo) == len(set(todo))

    @invariant()
    def without_a_death_no_key_is_run_twice(self):
        if hasattr(self, "app") and not self.has_died:
            assert max(self.runs.values()) <= 1

    def finish(self):
        """Whatever has happened, those who live bring the round to its end."""
        for _ in range(10 * LAST):
            if not row(self.app).is_running:
                break
            for index, life in enumerate(self.lives):
                self.claim(index)
                for owner in list(life.owned):
                    if owner.read_to < owner.until and not owner.todo:
                        life.hand.reserve(owner, 1 if owner.is_careful else 3)
                    for item in list(owner.todo):
                        self.run(owner, item)
                    life.hand.save(owner)
                    self.try_complete(life, owner)
        assert not row(self.app).is_running
        aside = {int(key) for key in aside_keys(self.app)}
        assert self.done | aside == set(range(1, LAST + 1))
        assert audit(listing(self.app)).ok
        assert all(each.status is Status.SUCCEEDED for each in listing(self.app))


def aside_keys(app):
    return [failure.item_key for failure in failures(app)]


def clean(app):
    """Forget the sweep of the walk before."""

    def work(connection):
        for table in (range_, round_, sweep, sweep_failure):
            connection.execute(delete(table))

    app.database.write(work)


def test_no_key_is_lost_or_shared_whatever_happens(database_engine, database_url):
    assert key(LAST) == "12"
    examples = 8 if database_engine == "sqlite" else 3
    walk(SweepMachine, database_engine, database_url, examples=examples, steps=40)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_no_key_is_lost_or_shared_in_a_long_campaign(database_engine, database_url):
    campaign(SweepMachine, database_engine, database_url, steps=60, walks=80)
