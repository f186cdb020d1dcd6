"""Walks with lanes: rows of a lane run in order, and never too many at once."""

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from tests.core.ring.late import make_rows
from tests.simulation.actor import Actor
from tests.simulation.oracle import Row, Violation
from tests.simulation.stage import Stage
from tests.simulation.user import MOST_OPEN_ROWS
from tests.simulation.world import Step, World
from windlass.clock import SECOND
from windlass.core.run import chain
from windlass.core.run.chain import Chain, ChainRoom
from windlass.core.run.known import Capacity
from windlass.core.run.ready import Run, State
from windlass.value.bucket import bucket_of_lane, is_holding, lane_number, place_of
from windlass.value.outcome import Retried, Snoozed, Succeeded
from windlass.value.task import Claimed, NewLaneTask

LANES = ("a", "b", "c")
PER_LANE = {"strict": 1, "passing": 1, "wide": 2}
HOLD = ("strict", "wide")
# How often a worker takes rows and runs some at once, so that others follow.
HASTE = 8.0
QUICKLY = ("feed", "start", "start", "end", "start")
# Longer than it is, as steps take long.
FRESH_SECONDS = 0.2
PLACE = "select lane_place from windlass_task where id = ?"
WAITING = """
select id, due_at, lane_place from windlass_task
where kind = ? and lane = ? and status = 0 and batch is null and due_at <= ?
"""

# Whether it does not hold its lane, when it is due, and its id.
Order = tuple[bool, int, int]


class LaneStage(Stage):
    """The kinds of a walk with lanes.

    Chains have up to 3 rows from the first read on: how many follows from how quick runs are, but
    here they are as long as the walk is.
    """

    rare_kind = "strict"
    # Room for the rows that follow others.
    concurrency = 16
    chained: Callable[[Sequence[Claimed]], None]

    @contextmanager
    def open(self) -> Iterator[None]:
        with super().open(), pytest.MonkeyPatch.context() as patch:
            room = ChainRoom(longest=3, rows=9, abreast=1)
            patch.setattr(Capacity, "room_for_chains", lambda _capacity, _kind: room)
            patch.setattr(chain, "FRESH_SECONDS", FRESH_SECONDS)
            self._watch_chains(patch)
            yield

    def _watch_chains(self, patch: pytest.MonkeyPatch) -> None:
        begin = Chain.__init__

        def watched_chain(chain: Chain, rows: Iterable[Claimed], *, read_at: float) -> None:
            rows = list(rows)
            begin(chain, rows, read_at=read_at)
            self.chained(rows)

        patch.setattr(Chain, "__init__", watched_chain)

    def _declare(self) -> None:
        app = self.app

        @app.task(keep="1d", retries=3)
        async def strict(lane: str) -> None: ...

        @app.task(keep="1d", retries=3, lane=lambda lane: lane, on_failure="pass")
        async def passing(lane: str) -> None: ...

        @app.task(keep="1d", retries=3, lane=lambda lane: lane, per_lane=2, fair=True)
        async def wide(lane: str) -> None: ...

        @app.task(keep="1d", retries=3)
        async def job() -> None: ...

        @app.rolling(every="4s")
        async def item(code: str) -> None: ...

        self.kinds = {"strict": strict, "passing": passing, "wide": wide}
        self.job, self.item = job, item


class LaneWorld(World):
    """A walk in which most rows have a lane."""

    stage: LaneStage

    def __init__(self, stage: LaneStage, seed: int) -> None:
        self.lane_of: dict[int, tuple[str, str]] = {}
        # When a row last changed, in steps; and its cycle then.
        self._changed: dict[int, tuple[int, object]] = {}
        self._feeding: dict[int, int] = {}
        # Rows that have begun and are not over, with the order they had.
        self._front: dict[tuple[str, str], dict[int, Order]] = {}
        # Rows that were tried and will be tried again, and hold their lane until then.
        self._holding: set[int] = set()
        # When the read of rows that follow others began, in steps, by worker and row.
        self._chained: dict[tuple[int, int], int] = {}
        # When a row last changed, by the clock.
        self._changed_at: dict[int, int] = {}
        self._is_ending = False
        self.followed = 0
        super().__init__(stage, seed)
        stage.taken, stage.accepted = self._note_taken, self._note_accepted
        stage.chained = self._note_chained
        self._weights["hasten"] = HASTE

    def _hasten(self, actor: Actor, rng: random.Random) -> None:
        for name in QUICKLY[: rng.randint(3, len(QUICKLY))]:
            self._perform(Step(name, actor.slot, rng.getrandbits(32)))

    # What users do

    def _enqueue(self, actor: Actor, rng: random.Random) -> bool | None:
        if len(self.oracle.open_rows()) >= MOST_OPEN_ROWS:
            return False
        name, lane = rng.choice(("strict", "strict", "passing", "wide")), rng.choice(LANES)
        kind = self.stage.kinds[name].using(priority=rng.choice((0, 0, 1)))
        kind = kind.using(lane=lane) if name == "strict" else kind
        for _ in range(rng.choice((1, 1, 4))):
            self._note_in(kind.enqueue(lane).id, name, lane)
        return None

    def _poison(self, actor: Actor, rng: random.Random) -> bool | None:
        if len(self.oracle.open_rows()) >= MOST_OPEN_ROWS:
            return False
        number = self.stage.kinds["strict"].using(lane="a").enqueue("a").id
        self._note_in(number, "strict", "a", is_poison=True)
        return None

    def _enqueue_late(self, actor: Actor, rng: random.Random) -> bool | None:
        if len(self._late) > 3 or len(self.oracle.open_rows()) >= MOST_OPEN_ROWS:
            return False
        lane = rng.choice(LANES)
        (row,) = make_rows(self.app, "strict", 1)
        number = lane_number("strict", lane)
        laned = NewLaneTask(
            id=row.id,
            kind=row.kind,
            task_key=None,
            bucket=bucket_of_lane(number),
            priority=0,
            due_at=row.due_at,
            payload=f'{{"lane":"{lane}"}}',
            created_at=row.created_at,
            lane=lane,
            lane_place=place_of(number),
        )
        self._late.append(([laned], Row("strict")))
        return None

    def _commit_late(self, actor: Actor, rng: random.Random) -> bool | None:
        before = set(self.oracle.rows)
        if super()._commit_late(actor, rng) is False:
            return False
        (number,) = set(self.oracle.rows) - before
        ((lane,),) = self.stage.ask("select lane from windlass_task where id = ?", number)
        self._note_in(number, "strict", lane)
        return None

    def _replace(self, actor: Actor, rng: random.Random) -> bool:
        return False

    def _switch(self, actor: Actor, rng: random.Random) -> None:
        if "strict" in self._held_back:
            self._held_back.remove("strict")
            self.app.resume("strict")
        else:
            self._held_back.add("strict")
            self.app.pause("strict")

    def _note_in(self, number: int, kind: str, lane: str, *, is_poison: bool = False) -> None:
        self.lane_of[number] = kind, lane
        self._changed[number] = self.steps, None
        self._changed_at[number] = self.clock.now()
        self._note(number, Row(kind, is_poison=is_poison))

    # What must hold

    def _feed(self, actor: Actor, rng: random.Random) -> bool | None:
        self._feeding[actor.slot] = self.steps
        return super()._feed(actor, rng)

    def _note_taken(self, run: Run) -> None:
        """A worker has taken a row: nothing that was there before it began to look goes first."""
        self.oracle.note_taken(run)
        number = run.task.id
        where = self.lane_of.get(number)
        actor = self._stack[-1][0] if self._stack else None
        if where is None or PER_LANE[where[0]] > 1 or actor is None or run.task.lost:
            return
        began = self._feeding.get(actor.slot, 0)
        if self._is_ending:
            began = self._chained[run.task.worker, number]
        for other in self._waiting_before(run):
            if self._changed[other][0] < began:
                raise Violation(f"S9 row {number} of lane {where} was taken before {other}")

    def _note_chained(self, rows: Sequence[Claimed]) -> None:
        """A worker has read rows that may follow another of their lane."""
        actor = self._stack[-1][0]
        assert actor is not None
        for row in rows:
            self._chained[row.worker, row.id] = self._feeding[actor.slot]

    def _waiting_before(self, run: Run) -> Iterator[int]:
        """The rows that wait in the lane of a run, come before it, and have not begun."""
        where, mine = self.lane_of[run.task.id], self._order(run)
        for other, due_at, place in self.stage.ask(WAITING, *where, run.task.started_at):
            order = not is_holding(place), due_at, other
            if other != run.task.id and order < mine and not self._is_begun(other):
                yield other

    def _end(self, actor: Actor, rng: random.Random) -> bool | None:
        self._is_ending = True
        try:
            return super()._end(actor, rng)
        finally:
            self._is_ending = False

    def _note_accepted(self, runs: Sequence[Run], accepted: set[int]) -> None:
        for run in runs:
            if run.task.id in accepted:
                self._check_recorded(run, accepted)
        self.oracle._accept(runs, accepted)
        for run in runs:
            if run.task.id in accepted and not isinstance(run.outcome, Snoozed):
                holds = isinstance(run.outcome, Retried) and run.kind.name in HOLD
                (self._holding.add if holds else self._holding.discard)(run.task.id)

    def _check_recorded(self, run: Run, accepted: set[int]) -> None:
        """No outcome is recorded while an earlier row of the lane has begun and is not over."""
        where = self.lane_of.get(run.task.id)
        if where is None or PER_LANE[where[0]] > 1:
            return
        front = self._front.get(where, {})
        mine = front.get(run.task.id)
        for number, order in front.items():
            row = self.oracle.rows[number]
            is_over = row.is_ended or row.is_cancelled or number in accepted
            if mine is not None and order < mine and not is_over:
                raise Violation(
                    f"S10 row {run.task.id} of lane {where} is recorded before {number}"
                )

    def _start(self, actor: Actor, rng: random.Random) -> bool | None:
        before = set(map(id, actor.runs))
        begin = self.oracle.note_begun
        begun: list[Run] = []

        def note(run: Run) -> None:
            begun.append(run)
            begin(run)

        self.oracle.note_begun = note
        try:
            return super()._start(actor, rng)
        finally:
            self.oracle.note_begun = begin
            for run in begun:
                if id(run) not in before and run.task.worker not in self.oracle.left:
                    self._check_front(run)

    def _check_front(self, run: Run) -> None:
        """Nothing that has begun and is not over is overtaken."""
        where = self.lane_of.get(run.task.id)
        if where is None or self.oracle._taken[run] != self.oracle.rows[run.task.id].cycle:
            # A user has let the row begin anew.
            return
        front, mine = self._front.setdefault(where, {}), self._order(run)
        # A claim that was taken over is due later, and has its place as before.
        mine = min(mine, front.get(run.task.id, mine))
        for number, order in list(front.items()):
            row = self.oracle.rows[number]
            if row.is_ended or row.is_cancelled or not self._is_begun(number):
                del front[number]
            elif (
                PER_LANE[where[0]] == 1
                and number != run.task.id
                and order < mine
                and not self._has_succeeded_beside(run, number)
            ):
                raise Violation(f"S9 row {run.task.id} of lane {where} overtook {number}")
        if run.before is not None:
            self._check_fresh(run)
        front[run.task.id] = mine

    def _has_succeeded_beside(self, run: Run, number: int) -> bool:
        """Whether a row has succeeded in the worker of `run`, which is about to record it."""
        cycle = self.oracle.rows[number].cycle
        return any(
            other.state is State.ENDED
            and isinstance(other.outcome, Succeeded)
            and other.task.worker == run.task.worker
            and self.oracle._taken[other] == cycle
            for other in self.oracle._begun.get(number, ())
        )

    def _check_fresh(self, run: Run) -> None:
        """A row that follows another goes before none that has been there for a while."""
        self.followed += 1
        seen_by = self.clock.now() - int(FRESH_SECONDS * SECOND)
        for other in self._waiting_before(run):
            if self._changed_at[other] < seen_by:
                raise Violation(f"S11 row {run.task.id} follows by an old read, before {other}")

    def _is_begun(self, number: int) -> bool:
        """Whether a row was started, and nothing is written of its end."""
        return number in self._front.get(self.lane_of[number], {})

    def _order(self, run: Run) -> Order:
        found = self.stage.ask(PLACE, run.task.id)
        place = found[0][0] if found else 1
        return not is_holding(place), run.task.due_at, run.task.id

    def _check(self, name: str) -> None:
        super()._check(name)
        for number, (_step, cycle) in list(self._changed.items()):
            row = self.oracle.rows[number]
            now = row.cycle, row.is_cancelled, row.is_ended
            if now != cycle:
                self._changed[number] = self.steps, now
                self._changed_at[number] = self.clock.now()
                if cycle is not None:
                    self._was_written(number)
        self._check_crowds()

    def _was_written(self, number: int) -> None:
        """Its run has an outcome: unless it holds its lane, others may go first."""
        if self.oracle.rows[number].is_cancelled:
            self._holding.discard(number)
        front = self._front.get(self.lane_of[number], {})
        if number not in self._holding:
            front.pop(number, None)
        elif number in front:
            front[number] = False, 0, number

    def _check_crowds(self) -> None:
        left = self.oracle.left
        crowds: dict[tuple[str, str], set[int]] = {}
        for run in self._running():
            where = self.lane_of.get(run.task.id)
            if where is None or run.task.worker in left or run in self.oracle._excused:
                continue
            row = self.oracle.rows[run.task.id]
            if row.is_cancelled or self.oracle._taken[run] != row.cycle:
                # A user ended it before it began; its worker hears of that with the next beat.
                continue
            crowd = crowds.setdefault(where, set())
            crowd.add(run.task.id)
            if len(crowd) > PER_LANE[where[0]]:
                raise Violation(f"S8 lane {where} runs {sorted(crowd)} at once")

    def _running(self) -> Iterator[Any]:
        for actor in self.actors:
            if actor.is_here:
                yield from (run for run in actor.running if run.state is State.RUNNING)


LaneStage.world = LaneWorld
