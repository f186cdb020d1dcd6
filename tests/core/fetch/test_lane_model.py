"""Lanes against a model: whatever happens to workers, rows keep their order and their number."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from sqlalchemy import delete

from tests.core.ring.peer import Mate, die, pass_by, settle
from tests.fixture.clockwork import following
from tests.fixture.machine import campaign, walk
from windlass import App
from windlass.clock import SECOND, ManualClock
from windlass.core.run.chain import FRESH_SECONDS, ChainRoom
from windlass.core.run.in_flight import Capacity
from windlass.core.run.ready import Run, State
from windlass.database.schema import failure, task, worker
from windlass.value.outcome import SUCCESS, Failed, Outcome, Retried

PER_LANE = {"strict": 1, "passing": 1, "wide": 2, "fair": 1}
MOST_WORKERS = 3
MOST_ROWS = 24
RETRY_SECONDS = 2
OUTCOMES: tuple[Outcome, ...] = (
    SUCCESS,
    SUCCESS,
    Retried(RETRY_SECONDS * SECOND, "later", ""),
    Failed("never", ""),
)

places = st.integers(0, 20)
booleans = st.booleans()
outcomes = st.sampled_from(OUTCOMES)
kinds = st.sampled_from(sorted(PER_LANE))
lanes = st.sampled_from("abc")


@dataclass
class Row:
    """A row of a lane, as it must be."""

    number: int
    kind: str
    lane: str
    due: int
    run: Run | None = None
    mate: Mate | None = None
    has_begun: bool = False
    # Whether its worker is gone: then it is the next of its lane.
    is_first: bool = False
    is_over: bool = False

    @property
    def order(self) -> tuple[bool, int, int]:
        return not self.is_first, self.due, self.number

    def has_ended_well(self, mate: Mate) -> bool:
        """Whether it has succeeded in this worker, which has not written that yet."""
        return self.run is not None and self.mate is mate and self.run.outcome is SUCCESS


class LaneMachine(RuleBasedStateMachine):
    """Enqueue, take, end, write, join, leave and die, in any order."""

    url: str

    @initialize(kind=kinds, many=st.lists(st.tuples(lanes, st.integers(1, 5)), min_size=1))
    def start(self, kind, many):
        self.clock, self.stack = ManualClock(), ExitStack()
        self.stack.enter_context(following(self.clock))
        patch = self.stack.enter_context(pytest.MonkeyPatch.context())
        # Rows follow each other from the first read on.
        room = ChainRoom(longest=3, rows=9, abreast=1)
        patch.setattr(Capacity, "room_for_chains", lambda _capacity, _kind: room)
        self.app = App(self.url, clock=self.clock)
        self.app.prepare()
        clean(self.app)
        self.kind, self.task = kind, declare(self.app)[kind]
        self.rows: dict[int, Row] = {}
        self.mates, self.zombies = [Mate(self.app)], []
        settle(*self.mates)
        for lane, count in many:
            self.enqueue(lane, count)

    def teardown(self):
        if hasattr(self, "app"):
            try:
                self.run_to_the_end()
            finally:
                for mate in self.mates:
                    mate.leave()
                self.app.close()
                self.stack.close()

    @rule(lane=lanes, many=st.integers(1, 4))
    def enqueue(self, lane, many):
        if len(self.rows) < MOST_ROWS:
            for _ in range(many):
                number = self.task.enqueue(lane).id
                self.rows[number] = Row(number, self.kind, lane, self.clock.now())

    @rule(place=places)
    def take(self, place):
        mate = self.mates[place % len(self.mates)]
        mate.worker.fetcher.look_now()
        for _ in range(2):
            mate.fetcher()
            self.start_all(mate)

    @rule(place=places, ends=st.lists(st.tuples(places, outcomes), max_size=4), is_written=booleans)
    def work(self, place, ends, is_written):
        """Take rows, let some handlers end, and perhaps write that."""
        self.take(place)
        for which, outcome in ends:
            self.end(which, outcome)
        if is_written:
            for mate in self.mates:
                self.flush(mate)

    @rule(which=places, outcome=outcomes)
    def end(self, which, outcome):
        """A handler ends; rows of its lane may follow at once."""
        running = self.running()
        if running:
            row = running[which % len(running)]
            assert row.mate.end(row.run, outcome)
            self.start_all(row.mate)

    @rule(place=places)
    def write(self, place):
        self.flush(self.mates[place % len(self.mates)])

    @rule(tenths=st.integers(1, 12))
    def time_passes(self, tenths):
        pass_by(self.clock, tenths / 10)
        for mate in self.mates:
            mate.beat()

    @precondition(lambda self: len(self.mates) < MOST_WORKERS)
    @rule()
    def join(self):
        self.mates.append(Mate(self.app))
        settle(*self.mates)

    @precondition(lambda self: len(self.mates) > 1)
    @rule(place=places)
    def leave(self, place):
        """A worker leaves in good order: what it has run is written, what it runs is handed on."""
        mate = self.mates.pop(place % len(self.mates))
        self.flush(mate)
        mate.leave()
        self.let_go(mate)
        settle(*self.mates)

    @precondition(lambda self: len(self.mates) > 1)
    @rule(place=places)
    def be_killed(self, place):
        mate = self.mates.pop(place % len(self.mates))
        self.zombies.append((mate, [row.run for row in self.held_by(mate)]))
        die(mate, *self.mates)
        self.let_go(mate)
        settle(*self.mates)

    @precondition(lambda self: self.zombies)
    @rule()
    def a_worker_that_was_only_silent_records_nothing(self):
        mate, runs = self.zombies.pop()
        before = mate.worker.finish.done
        for run in runs:
            mate.end(run, SUCCESS)
        mate.flush()
        assert mate.worker.finish.done == before

    @invariant()
    def no_more_than_per_lane_run_at_once(self):
        if hasattr(self, "app"):
            crowds = Counter((row.kind, row.lane) for row in self.running())
            assert all(count <= PER_LANE[kind] for (kind, _), count in crowds.items())

    def start_all(self, mate):
        for run in iter(mate.start, None):
            self.check_start(mate, run)

    def check_start(self, mate, run):
        """The run that starts is the next of its lane."""
        row = self.rows[run.number]
        assert row.run is None, f"{row} runs already"
        assert not row.is_over, f"{row} runs again"
        seen_by = self.clock.now() - (0 if run.before is None else int(FRESH_SECONDS * SECOND))
        for other in self.rows.values():
            if other is row or other.is_over or (other.kind, other.lane) != (row.kind, row.lane):
                continue
            if row.kind == "passing":
                waits = other.run is None and other.due <= seen_by
                assert not (waits and other.order < row.order), f"{row} overtakes {other}"
                assert other.run is None or other.has_ended_well(mate)
            elif row.kind == "wide":
                is_new = not (other.has_begun or row.has_begun)
                assert not (is_new and other.number < row.number), f"{row} overtakes {other}"
            else:
                is_before = other.number < row.number
                assert not is_before or other.has_ended_well(mate), f"{row} overtakes {other}"
                assert is_before or other.run is None
        row.run, row.mate, row.has_begun, row.is_first = run, mate, True, False

    def flush(self, mate):
        outcomes = {row.number: row.run.outcome for row in self.held_by(mate) if row.run}
        mate.flush()
        for row in self.held_by(mate):
            assert row.run is not None
            if row.run.state is State.ENDED and row.run.outcome is None:
                outcome = outcomes[row.number]
                row.run = row.mate = None
                if isinstance(outcome, Retried):
                    row.due = self.clock.now() + outcome.delay
                else:
                    row.is_over = True

    def let_go(self, mate):
        """A worker is gone: what it has begun and not written begins again, before the others."""
        for row in self.held_by(mate):
            row.run, row.mate, row.is_first = None, None, True

    def held_by(self, mate):
        return [row for row in self.rows.values() if row.mate is mate]

    def running(self):
        return [row for row in self.rows.values() if row.run and row.run.state is State.RUNNING]

    def run_to_the_end(self):
        """Whatever has happened, those who are left run all rows, and no lane is stuck."""
        for _ in range(4 * MOST_ROWS):
            if all(row.is_over for row in self.rows.values()):
                return
            self.time_passes(11)
            for place, mate in enumerate(self.mates):
                self.take(place)
                while running := [row for row in self.running() if row.mate is mate]:
                    self.end(self.running().index(running[0]), SUCCESS)
                self.flush(mate)
        left = [row for row in self.rows.values() if not row.is_over]
        raise AssertionError(f"never run: {left}")


def declare(app):
    def lane(lane: str) -> str:
        return lane

    # Nothing here fails because its worker died too often.
    @app.task(lane=lane, max_lost=50)
    async def strict(lane: str) -> None: ...

    @app.task(lane=lane, max_lost=50, on_failure="pass")
    async def passing(lane: str) -> None: ...

    @app.task(lane=lane, max_lost=50, per_lane=2)
    async def wide(lane: str) -> None: ...

    @app.task(lane=lane, max_lost=50, fair=True)
    async def fair(lane: str) -> None: ...

    return {"strict": strict, "passing": passing, "wide": wide, "fair": fair}


def clean(app):
    """Forget the walk before. Workers have the same numbers again, and so the same buckets."""

    def work(connection):
        app.database.dialect.begin_numbers(connection, 1)
        for table in (task, worker, failure):
            connection.execute(delete(table))

    app.database.write(work)


@pytest.mark.everywhere
def test_lanes_keep_their_order_whatever_happens(database_engine, database_url):
    examples = 8 if database_engine == "sqlite" else 3
    walk(LaneMachine, database_engine, database_url, examples=examples, steps=40)


@pytest.mark.slow
@pytest.mark.everywhere
@pytest.mark.timeout(900)
def test_lanes_keep_their_order_in_a_long_campaign(database_engine, database_url):
    campaign(LaneMachine, database_engine, database_url, steps=60, walks=80)


@pytest.mark.everywhere
@pytest.mark.usefixtures("one_clock")
def test_fair_lanes_take_turns_however_many_rows_wait_in_each(app, database_engine):
    names: dict[int, str] = {}

    @app.task(lane=lambda lane: lane, fair=True)
    async def fair(lane: str) -> None: ...

    mate = Mate(app, concurrency=1)
    settle(mate)

    @settings(max_examples=12 if database_engine == "sqlite" else 4, deadline=None)
    @given(sizes=st.lists(st.integers(1, 9), min_size=2, max_size=6))
    def check(sizes):
        example = len(names)
        left = Counter({f"{example}-{lane}": size for lane, size in enumerate(sizes)})
        for lane, size in left.items():
            numbers = [ref.id for ref in fair.enqueue_many([{"lane": lane}] * size)]
            names.update(dict.fromkeys(numbers, lane))
        turns: Counter[str] = Counter(dict.fromkeys(left, 0))
        while left:
            mate.worker.fetcher.look_now()
            (run,) = mate.take()
            lane = names[run.number]
            turns[lane], left[lane] = turns[lane] + 1, left[lane] - 1
            left += Counter()
            assert all(turns[lane] <= turns[other] + 2 for other in left), turns
            assert mate.finish(run)

    check()
