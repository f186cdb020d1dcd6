"""Named runs, as an operator sees them and frees them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from msgspec import UNSET
from sqlalchemy import Connection

from windlass import telemetry
from windlass.clock import SECOND, Clock
from windlass.engine.fleet import Fleet
from windlass.engine.identity import whoami
from windlass.engine.register import Register
from windlass.model import control as rule
from windlass.model.control import DONE, Control, Place, Reply, RunStatus
from windlass.model.step import Step, StepName
from windlass.store import control as store
from windlass.store.database import Database


class StepState(Enum):
    """How far a step has come."""

    DONE = "done"
    UNDER_WAY = "under way"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True)
class StepView:
    """A step of a run; `seconds` is how long it took, or has taken so far."""

    step: StepName
    state: StepState
    began_at: int
    ended_at: int | None
    seconds: float | None
    result: object


def listing(database: Database) -> list[Control]:
    """All runs, by name and partition."""
    return database.read(store.listing)


def get(database: Database, place: Place) -> Control | None:
    """One run, or None if it was never started."""
    return database.read(lambda connection: store.get(connection, place))


def history(database: Database, place: Place, *, limit: int = 20) -> list[Control]:
    """The tries of a run that ended, newest first."""
    return database.read(lambda connection: store.history(connection, place, limit=limit))


def release(database: Database, clock: Clock, place: Place, *, who: str | None = None) -> Reply:
    """Free a run that is stuck; its holder is fenced off, and the try is recorded as failed."""
    name, now = (who or whoami())[:255], clock.now()

    def work(connection: Connection) -> Reply:
        return store.change(
            connection, place, lambda found: rule.release(found, now=now, who=name)
        ).reply

    return _told(place, name, database.write(work))


def release_in(fleet: Fleet, place: Place, *, who: str | None = None) -> Reply:
    """`release`, in whichever shard the run is."""
    name = (who or whoami())[:255]
    return _told(place, name, Register(fleet).release(place, who=name))


def _told(place: Place, who: str, reply: Reply) -> Reply:
    if reply.code == DONE:
        telemetry.emit("control.released", **place._asdict(), who=who, held_by=reply.data["who"])
    return reply


def steps_of(run: Control, *, now: int) -> list[StepView]:
    """The steps of a run or of a try that ended, in the order in which they were taken."""
    return [_view(run, step, now) for step in run.steps]


def _view(run: Control, step: Step, now: int) -> StepView:
    state, until = StepState.DONE, step.ended_at
    if until is None:
        is_running = run.status is RunStatus.RUNNING and step.asked == run.tries
        state = StepState.UNDER_WAY if is_running else StepState.INTERRUPTED
        until = now if is_running else run.end_time
    seconds = None if until is None else max(0, until - step.began_at) / SECOND
    result = None if step.result is UNSET else step.result
    return StepView(step.step, state, step.began_at, step.ended_at, seconds, result)
