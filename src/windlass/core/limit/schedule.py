"""The schedule of a cron: the one that an operator set, or else the declared one.

What is set is in the switch of the cron, so it outlives restarts, and all workers follow it. It
holds until it is reset, or until the code declares another schedule than the one that it replaced:
then the new declaration holds.
"""

from __future__ import annotations

from dataclasses import replace

import msgspec

from windlass.core.limit.store import Switch
from windlass.core.task.kind import Kind
from windlass.errors import BadSchedule
from windlass.value.cron import Schedule


class ScheduleChange(msgspec.Struct, frozen=True):
    """A schedule that was set, what was declared then, who set it, and when."""

    cron: str
    tz: str
    declared_cron: str
    declared_tz: str
    who: str
    since: int


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(ScheduleChange).decode


def change_text(declared: Schedule, wanted: Schedule, *, who: str, now: int) -> str:
    """What the switch keeps of a change."""
    change = ScheduleChange(
        *(wanted.expression, wanted.zone),
        declared_cron=declared.expression,
        declared_tz=declared.zone,
        who=who,
        since=now,
    )
    return _encode(change).decode()


def change_of(kind: Kind, found: Switch) -> ScheduleChange | None:
    """What an operator set for a cron, if it still holds."""
    if kind.schedule is None or found.schedule is None:
        return None
    try:
        change = _decode(found.schedule)
    except msgspec.DecodeError:
        return None
    declared = (kind.schedule.expression, kind.schedule.zone)
    return change if (change.declared_cron, change.declared_tz) == declared else None


def schedule_now(kind: Kind, found: Switch) -> Schedule | None:
    """The schedule that a cron follows; None if it is not a cron."""
    change = change_of(kind, found)
    if change is None or kind.schedule is None:
        return kind.schedule
    try:
        return Schedule(change.cron, change.tz, kind.schedule.catchup)
    except BadSchedule:
        # Only a change by hand, or a time zone that this machine does not know, leads here.
        return kind.schedule


def scheduled(kind: Kind, found: Switch) -> Kind:
    """The kind with the schedule that it follows."""
    now = schedule_now(kind, found)
    if now == kind.schedule:
        return kind
    return replace(kind, terms=replace(kind.terms, schedule=now))
