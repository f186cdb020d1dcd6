"""Walks with lanes: rows of a lane run in order, and never too many at once."""

import random
from collections.abc import Iterator, Sequence
from typing import Any

from tests.core.ring.late import make_rows
from tests.simulation.actor import Actor
from tests.simulation.oracle import Row, Violation
from tests.simulation.stage import Stage
from tests.simulation.user import MOST_OPEN_ROWS
from tests.simulation.world import World
from windlass.core.run.ready import Run, State
from windlass.value.bucket import bucket_of_lane, is_holding, lane_number, place_of
from windlass.value.outcome import Retried, Snoozed
from windlass.value.task import NewLaneTask

LANES = ("a", "b", "c")
PER_LANE = {"strict": 1, "passing": 1, "wide": 2}
HOLD = ("strict", "wide")
PLACE = "select lane_place from windlass_task where id = ?"
WAITING = """
select id, due_at, lane_place from windlass_task
where kind = ? and lane = ? and status = 0 and batch is null and due_at <= ?
"""

# Whether it does not hold its lane, when it is due, and its id.
Order = tuple[bool, int, int]


class LaneStage(Stage):
    """The kinds of a walk with lanes."""

    rare_kind = "strict"

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
        super().__init__(stage, seed)
        stage.taken, stage.accepted = self._note_taken, self._note_accepted

    # What users do

    def _enqueue(self, actor: Actor, rng: random.Random) -> bool | None:
        if len(self.oracle.open_rows()) >= MOST_OPEN_ROWS:
            return False
        name, lane = rng.choice(("strict", "strict", "passing", "wide")), rng.choice(LANES)
        kind = self.stage.kinds[name].using(priority=rng.choice((0, 0, 1)))
        kind = kind.using(lane=lane) if name == "strict" else kind
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
        began, mine = self._feeding.get(actor.slot, 0), self._order(run)
        for other, due_at, place in self.stage.ask(WAITING, *where, run.task.started_at):
            order = not is_holding(place), due_at, other
            changed = self._changed[other][0]
            if other != number and order < mine and changed < began and not self._is_begun(other):
                raise Violation(f"S9 row {number} of lane {where} was taken before {other}")

    def _note_accepted(self, runs: Sequence[Run], accepted: set[int]) -> None:
        self.oracle._accept(runs, accepted)
        for run in runs:
            if run.task.id in accepted and not isinstance(run.outcome, Snoozed):
                holds = isinstance(run.outcome, Retried) and run.kind.name in HOLD
                (self._holding.add if holds else self._holding.discard)(run.task.id)

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
        for number, order in list(front.items()):
            row = self.oracle.rows[number]
            if row.is_ended or row.is_cancelled or not self._is_begun(number):
                del front[number]
            elif PER_LANE[where[0]] == 1 and number != run.task.id and order < mine:
                raise Violation(f"S9 row {run.task.id} of lane {where} overtook {number}")
        front[run.task.id] = mine

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
