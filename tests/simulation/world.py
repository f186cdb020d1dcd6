"""A walk: some workers, users and accidents, one random action after the other.

Every action of a worker is a tick of one of its loops, on the real engine. Before and after each of
its transactions it may be interrupted: others act, time passes, its other threads go on or its
whole process stands still, its answer is lost, or it dies. All of it follows from the seed.
"""

import random
from collections.abc import Callable
from typing import Any, NamedTuple

from sqlalchemy.exc import OperationalError, SQLAlchemyError

from tests.simulation.actor import Actor
from tests.simulation.oracle import Oracle, Row, Violation
from tests.simulation.stage import Stage
from tests.simulation.user import Users
from windlass.clock import SECOND
from windlass.errors import DatabaseUnavailable
from windlass.value.outcome import Cancelled, Failed, Outcome, Retried, Snoozed, Succeeded

MOST_WORKERS = 4
PASSES = (0.001, 0.02, 0.06, 0.12, 0.3)
ROUNDS = 160

WEIGHTS = {
    "feed": 9.0,
    "start": 10.0,
    "end": 5.0,
    "flush": 6.0,
    "beat": 2.0,
    "go_by": 3.0,
    "pass_by": 4.0,
    "mark": 3.0,
    "offer": 2.0,
    "enqueue": 4.0,
    "enqueue_late": 1.0,
    "commit_late": 2.0,
    "add": 0.7,
    "cancel": 0.5,
    "retry": 0.3,
    "replace": 0.7,
    "remove": 0.3,
    "hurry": 0.6,
    "visit": 0.4,
    "poison": 0.15,
    "pause": 0.5,
    "wake": 1.0,
    "die": 0.3,
    "join": 0.7,
    "exit": 0.4,
    "lapse": 0.3,
    "switch": 0.4,
    "obey": 0.8,
}
FAULTS = (
    "pause", "die", "join", "exit", "lapse", "cancel", "retry", "replace", "remove", "hurry",
    "visit", "poison", "enqueue_late", "offer", "switch", "interrupt", "lose_answer",
    "die_inside",
)  # fmt: skip
INSIDE = {"interrupt": 0.05, "lose_answer": 0.004, "die_inside": 0.002}


class Died(BaseException):
    """A process ends in the middle of what it does."""


class Step(NamedTuple):
    """One action, by one actor if it has one; what else is random in it follows from the seed."""

    name: str
    slot: int
    seed: int


class World(Users):
    """Everything that happens in one walk."""

    def __init__(self, stage: Stage, seed: int) -> None:
        self.stage = stage
        self.app, self.clock = stage.app, stage.clock
        self.oracle = Oracle(stage)
        self.actors: list[Actor] = []
        # Actions, and transactions inside them: between any two of these others may come.
        self.steps = 0
        self.taken: list[Step] = []
        self.log: list[str] = []
        self._rng = random.Random(seed)
        self._weights = dict(WEIGHTS)
        self._inside = dict(INSIDE)
        for name in FAULTS:
            # Early or late, many or few: not the same mixture in every walk.
            factor = self._rng.choice((0.05, 0.3, 1.0, 2.0))
            table = self._inside if name in self._inside else self._weights
            table[name] *= factor
        self._held_back: set[str] = set()
        self._late: list[tuple[Any, Row]] = []
        self._stack: list[tuple[Actor | None, random.Random]] = []
        self._is_fair = False
        stage.clear()
        stage.interrupt = self._interrupt
        for _ in range(self._rng.randint(1, 3)):
            self._perform(Step("join", 0, self._rng.getrandbits(32)))

    # The walk

    def walk(self, length: int) -> None:
        """Take so many random steps."""
        names, weights = list(self._weights), list(self._weights.values())
        for _ in range(length):
            name = self._rng.choices(names, weights)[0]
            slot = self._rng.randrange(len(self.actors))
            self.taken.append(Step(name, slot, self._rng.getrandbits(32)))
            self._perform(self.taken[-1])

    def replay(self, steps: list[Step]) -> None:
        """Take these steps again, as far as they are possible."""
        for step in steps:
            self._perform(step)

    def come_to_rest(self) -> None:
        """Without any further accident everything is done in the end."""
        self._is_fair = True
        for _ in range(len(self._late)):
            self._perform(Step("commit_late", 0, 0))
        for kind in sorted(self._held_back):
            self.app.resume(kind)
        for actor in self.actors:
            actor.is_paused = False
            self._perform(Step("obey", actor.slot, 0))
        for _ in range(ROUNDS):
            if not any(actor.is_here and actor.serves_all for actor in self.actors):
                self._perform(Step("join_full", 0, 0))
            for actor in list(self.actors):
                self._one_round(actor)
            if self._is_at_rest():
                break
            self.clock.advance(int(0.3 * SECOND))
        self.oracle.check_end(self.clock.now())

    def _one_round(self, actor: Actor) -> None:
        if not actor.is_here:
            return
        for name in ("beat", "feed"):
            self._perform(Step(name, actor.slot, 0))
        while actor.is_here and (actor.running or self._starts(actor)):
            self._perform(Step("end", actor.slot, 0))
        self._perform(Step("mark", actor.slot, 0))
        self._perform(Step("flush", actor.slot, 0))
        if actor.is_visitor and actor.is_here and actor.in_flight.is_empty:
            self._perform(Step("exit", actor.slot, 0))

    def _starts(self, actor: Actor) -> bool:
        self._perform(Step("start", actor.slot, 0))
        return bool(actor.running)

    def _is_at_rest(self) -> bool:
        now = self.clock.now()
        ((left,),) = self.stage.ask(
            "select count(*) from windlass_task "
            "where status = 1 or (status = 0 and (due_at <= ? or kind <> 'item'))",
            now,
        )
        return not left

    # Steps

    def _perform(self, step: Step) -> None:
        if step.slot >= len(self.actors) and step.name not in ("join", "join_full"):
            return
        actor = self.actors[step.slot] if step.slot < len(self.actors) else None
        action: Callable[..., bool | None] = getattr(self, f"_{step.name}")
        rng = random.Random(step.seed)
        is_workers = step.name in OF_WORKERS
        if is_workers and (actor is None or not actor.is_here or actor.is_paused):
            return
        self.log.append(f"{'  ' * len(self._stack)}{step.name} {step.slot if is_workers else ''}")
        depth = len(self._stack)
        # A worker thinks of its database as of a server.
        dialect = self.app.database.dialect
        dialect.is_embedded = not is_workers
        try:
            self._stack.append((actor if is_workers else None, rng))
            if action(actor, rng) is False:
                self.log.pop()
                return
        except Died:
            assert actor is not None
            actor.is_here = False
        except (DatabaseUnavailable, SQLAlchemyError):
            self.log.append(f"{'  ' * depth}  failed")
        except (LookupError, TypeError, AttributeError, ValueError) as problem:
            raise Violation(f"E1 {step.name} failed: {problem!r}") from problem
        finally:
            del self._stack[depth:]
            dialect.is_embedded = not self._stack or self._stack[-1][0] is None
        self.steps += 1
        self._check(step.name)

    def _check(self, name: str) -> None:
        here = [actor for actor in self.actors if actor.is_here]
        if self.oracle.left & {actor.heartbeat.id for actor in here}:
            # Somebody was marked dead who is not.
            self.oracle.accidents += 1
        self.oracle.check_runs(run for actor in here for run in actor.running)
        if name in ("feed", "beat", "join", "exit", "go_by", "offer", "lapse"):
            self.oracle.check_shares(
                (actor.ring._worker, actor.ring.share.runs) for actor in here if actor.ring.share
            )

    def _interrupt(self, before: bool) -> None:
        """Somebody is about to begin a transaction, or has just ended one."""
        self.steps += not before
        if not self._stack or self._is_fair or len(self._stack) > 2:
            return
        actor, rng = self._stack[-1]
        if actor is None:
            return
        chance = rng.random()
        if chance < self._inside["die_inside"]:
            self.oracle.accidents += 1
            self.log.append(f"{'  ' * len(self._stack)}dies inside")
            actor.is_here = False
        elif chance < self._inside["die_inside"] + self._inside["lose_answer"]:
            self.log.append(f"{'  ' * len(self._stack)}loses an answer, {before=}")
            lost = OperationalError("lost", None, Exception("lost"), connection_invalidated=True)
            raise lost
        elif rng.random() < self._inside["interrupt"]:
            self._let_others(actor, rng)
        if not actor.is_here:
            raise Died

    def _let_others(self, actor: Actor, rng: random.Random) -> None:
        """Others act while this one is in the middle of something, or its whole process stands."""
        names, weights = list(self._weights), list(self._weights.values())
        stands_still, actor.is_paused = rng.random() < 0.6, actor.is_paused
        actor.is_paused = stands_still
        for _ in range(rng.choice((1, 2, 4, 12, 30))):
            name = rng.choices(names, weights)[0]
            self._perform(Step(name, rng.randrange(len(self.actors)), rng.getrandbits(32)))
        actor.is_paused = False
        if actor.is_here and stands_still and rng.random() < 0.5:
            # Whichever of its threads wakes up first.
            self._perform(Step("beat", actor.slot, rng.getrandbits(32)))

    # What workers do

    def _beat(self, actor: Actor, rng: random.Random) -> bool | None:
        if "life" in actor.busy or (actor.is_writing and actor.in_flight.is_halted):
            return False
        with actor.at("life"):
            actor.heartbeat.tick()
        return None

    def _feed(self, actor: Actor, rng: random.Random) -> bool | None:
        if "feed" in actor.busy or actor.is_writing:
            return False
        with actor.at("feed"):
            actor.worker.fetcher.tick()
        return None

    def _offer(self, actor: Actor, rng: random.Random) -> bool | None:
        if "feed" in actor.busy or actor.is_visitor:
            return False
        with actor.at("feed"):
            actor.worker.fetcher._claims.help()
        return None

    def _start(self, actor: Actor, rng: random.Random) -> bool | None:
        run = actor.in_flight.advance(None, None, is_async=True)
        if run is None:
            return False
        actor.runs.append(run)
        self.oracle.note_begun(run)
        row = self.oracle.rows[run.task.id]
        self.log.append(f"{'  ' * len(self._stack)}it is {run.task.id} {run.task.batch or 'read'}")
        if row.is_poison:
            row.kills += 1
            raise Died
        return None

    def _end(self, actor: Actor, rng: random.Random) -> bool | None:
        if not actor.running:
            return False
        run = rng.choice(actor.running)
        outcome: Outcome = Succeeded()
        if not self._is_fair:
            outcome = rng.choices(
                (outcome, Retried(SECOND // 2, "again", ""), Failed("no", ""), Snoozed(SECOND // 4),
                 Cancelled("so")),
                (70, 12, 5, 8, 5),
            )[0]  # fmt: skip
        self.log.append(f"{'  ' * len(self._stack)}it is {run.task.id} {type(outcome).__name__}")
        actor.in_flight.end(run, outcome)
        return None

    def _flush(self, actor: Actor, rng: random.Random) -> bool | None:
        if actor.is_writing or "flush" in actor.busy or not actor.in_flight.ended.waiting:
            return False
        with actor.at("flush"):
            actor.finish.flush()
        return None

    def _mark(self, actor: Actor, rng: random.Random) -> bool | None:
        if actor.is_writing or not actor.running:
            return False
        actor.mark.tick()
        return None

    def _obey(self, actor: Actor, rng: random.Random) -> bool | None:
        if "switch" in actor.busy or actor.is_visitor:
            return False
        with actor.at("switch"):
            actor.worker.switchboard.obey()
        return None

    def _lapse(self, actor: Actor, rng: random.Random) -> None:
        actor.heartbeat.stop_if_lease_ended()

    def _exit(self, actor: Actor, rng: random.Random) -> bool | None:
        if actor.busy or actor.is_writing:
            return False
        with actor.at("feed", "life", "flush", "exit"):
            actor.in_flight.drop_queued()
            actor.in_flight.drop(list(actor.in_flight.running))
            actor.worker.finish.flush_all()
            actor.heartbeat.leave("stopped")
        actor.is_here = False
        return None

    def _die(self, actor: Actor, rng: random.Random) -> None:
        self.oracle.accidents += 1
        raise Died

    def _pause(self, actor: Actor, rng: random.Random) -> None:
        actor.is_paused = True

    # What happens to all of them

    def _wake(self, actor: Actor, rng: random.Random) -> None:
        for sleeper in self.actors:
            if sleeper.is_paused and not sleeper.busy:
                # It may have been marked dead, and anything of it with it.
                self.oracle.accidents += 1
                sleeper.is_paused = False
                break

    def _join(self, actor: Actor | None, rng: random.Random) -> bool | None:
        if sum(actor.is_here for actor in self.actors) >= MOST_WORKERS:
            return False
        kinds = list(self.app.registry.kinds)
        if rng.random() < 0.25:
            kinds.remove(self.stage.rare_kind)
        self._add_actor(Actor(self.stage, len(self.actors), kinds))
        return None

    def _join_full(self, actor: Actor | None, rng: random.Random) -> None:
        self._add_actor(Actor(self.stage, len(self.actors), list(self.app.registry.kinds)))

    def _add_actor(self, new: Actor) -> None:
        self.actors.append(new)
        with new.at("feed", "life"):
            if not new.is_visitor:
                new.worker.switchboard.obey()
            new.heartbeat.join_ring()

    def _pass_by(self, actor: Actor, rng: random.Random) -> None:
        self.clock.advance(int(rng.choice(PASSES) * SECOND))

    def _go_by(self, actor: Actor, rng: random.Random) -> None:
        """Time goes by, and nearly everyone gives a sign of life."""
        self.clock.advance(int(rng.choice((0.2, 0.35, 0.5, 0.5)) * SECOND))
        for each in list(self.actors):
            if each.is_here and not each.is_paused and rng.random() < 0.9:
                self._perform(Step("beat", each.slot, rng.getrandbits(32)))


Stage.world = World

OF_WORKERS = frozenset(
    ("beat", "feed", "offer", "start", "end", "flush", "mark", "obey", "lapse", "exit", "die",
     "pause")
)  # fmt: skip
