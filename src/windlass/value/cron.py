"""Cron schedules: the next turn in a time zone, through daylight-saving changes.

A schedule with a fixed time of day: a time that the clocks skip happens right after the gap, and a
time that they show twice happens once, the first time. A schedule that fires every few minutes or
hours follows real time: it neither skips nor repeats a turn. Turns a fixed time apart, such as
"@every 30s", are aligned to the epoch, so no time zone is about them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from zoneinfo import ZoneInfo

import msgspec
from cronsim import CronSim, CronSimError
from msgspec.structs import replace

from windlass.clock import SECOND, from_datetime, to_datetime
from windlass.errors import BadDuration, BadSchedule
from windlass.value.duration import Duration, format_duration, parse_duration

MINUTE = 60_000_000
NAMES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
EVERY = "@every "


class Standing(msgspec.Struct, frozen=True, omit_defaults=True):
    """The payload of a standing row: its schedule and its turn, and which turns were run.

    `last` was run last. Turns between `before` and `after` were skipped, because the clock went on
    too far: if it steps back, they come. The turns of `ahead` were run before such a step back, and
    do not come again.
    """

    cron: str
    tz: str
    catchup: bool
    turn: int
    last: int = 0
    before: int = 0
    after: int = 0
    ahead: tuple[int, int] = (0, 0)


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Standing).decode


def read_turn(payload: str) -> int | None:
    """The turn that a standing row waits for or runs, in microseconds since the epoch."""
    try:
        return _decode(payload).turn
    except msgspec.DecodeError:
        return None


@dataclass(frozen=True, slots=True)
class Schedule:
    """A cron expression in a time zone: five fields, six with seconds first, or a name."""

    expression: str
    zone: str = "UTC"
    catchup: bool = False
    # The time between two turns of "@every 30s"; 0 for cron fields.
    interval: int = field(default=0, init=False, compare=False)

    def __post_init__(self) -> None:
        try:
            zone = ZoneInfo(self.zone)
        except (OSError, ValueError, TypeError, KeyError, ImportError) as problem:
            raise BadSchedule(
                f"time zone {self.zone!r} is not known; give an IANA name such as "
                '"Asia/Shanghai" or "UTC"'
            ) from problem
        given = self.expression.strip().lower() if isinstance(self.expression, str) else ""
        if given.startswith(EVERY):
            object.__setattr__(self, "interval", _interval(given.removeprefix(EVERY)))
            return
        object.__setattr__(self, "expression", NAMES.get(given, self.expression))
        if not given or len(self.expression.split()) not in (5, 6):
            raise BadSchedule(
                f"cron {self.expression!r} does not have five fields, or six with seconds; "
                'write minute hour day month weekday, for example "0 3 * * *", seconds before '
                'them, "*/10 * * * * *", or one of ' + ", ".join(NAMES)
            )
        try:
            next(CronSim(self.expression, datetime(2026, 1, 1, tzinfo=zone)))
        except CronSimError as problem:
            raise BadSchedule(f"cron {self.expression!r} cannot be read: {problem}") from problem
        except StopIteration:
            raise BadSchedule(f"cron {self.expression!r} never fires") from None

    @classmethod
    def every(cls, every: Duration, *, catchup: bool = False) -> Schedule:
        """Turns that are a fixed time apart."""
        interval = _interval(every)
        return cls(f"{EVERY}{format_duration(interval)}", catchup=catchup)

    def next_after(self, moment: int) -> int:
        """The first turn later than `moment`, both in microseconds since the epoch."""
        if self.interval:
            return moment - moment % self.interval + self.interval
        find = self._next_fixed if self._is_fixed else self._next_matching
        return from_datetime(find(to_datetime(moment), ZoneInfo(self.zone)))

    def around(self, moment: int) -> tuple[int, int]:
        """The latest turn not after `moment`, and the first turn after `moment`."""
        if self.interval:
            last = moment - moment % self.interval
            return last, last + self.interval
        before, after = moment - MINUTE, moment
        while self.next_after(before) > moment:
            before, after = moment - 2 * (moment - before), before
        # `before` is earlier than the latest turn, and `after` is not: they close in on it.
        while after - before > MINUTE:
            middle = (before + after) // 2
            if self.next_after(middle) > moment:
                after = middle
            else:
                before = middle
        last, following = before, self.next_after(before)
        while following <= moment:
            last, following = following, self.next_after(following)
        return last, following

    def as_payload(self, *, turn: int) -> str:
        """The payload of this schedule's new standing row."""
        return _encode(Standing(self.expression, self.zone, self.catchup, turn)).decode()

    def is_in(self, payload: str) -> bool:
        """Whether a standing row with this payload follows this schedule."""
        try:
            found = _decode(payload)
        except msgspec.DecodeError:
            return False
        return (found.cron, found.tz, found.catchup) == (self.expression, self.zone, self.catchup)

    def next_turn(self, *, last: int, now: int) -> int:
        """The turn after `last`; without `catchup`, missed turns are skipped."""
        return self.next_after(last if self.catchup else max(last, now))

    def following(self, payload: str, *, ran: int, now: int) -> tuple[int, str]:
        """The turn after `ran`, which has just ended, and the payload of the row that waits."""
        found = self._standing(payload)
        turn = self.next_turn(last=ran, now=now)
        if turn > self.next_after(ran):
            found = replace(found, before=ran, after=turn)
        turn = self._unless_run(turn, found)
        waiting = turn, _encode(replace(found, turn=turn, last=ran)).decode()
        # The clock may have stepped back while it ran.
        return self.sooner(waiting[1], due_at=turn, now=now) or waiting

    def sooner(self, payload: str, *, due_at: int, now: int) -> tuple[int, str] | None:
        """A turn before `due_at`, for which a row waits, and the payload to wait for it.

        There is one if the clock stepped back after `due_at` was chosen. A turn that was run does
        not come again. None for a row that does not wait for its turn, but for a retry.
        """
        found = self._standing(payload)
        skipped = self.next_after(max(found.before, now))
        if skipped < found.after:
            ahead = (found.after, found.last) if found.last >= found.after else (0, 0)
            found = replace(found, last=found.before, before=0, after=0, ahead=ahead)
        turn = self._unless_run(self.next_after(max(found.last, now)), found)
        if self._standing(payload).turn != due_at or turn >= due_at:
            return None
        return turn, _encode(replace(found, turn=turn)).decode()

    def _unless_run(self, turn: int, found: Standing) -> int:
        first, last = found.ahead
        return self.next_after(last) if first <= turn <= last else turn

    def _standing(self, payload: str) -> Standing:
        """What a row says, if it follows this schedule; or else what a new one says."""
        if self.is_in(payload):
            return _decode(payload)
        return Standing(self.expression, self.zone, self.catchup, 0)

    @property
    def _is_fixed(self) -> bool:
        # All but day, month and weekday.
        fields = self.expression.split()
        return not any(each.startswith("*") for each in fields[: len(fields) - 3])

    def _next_fixed(self, now: datetime, zone: ZoneInfo) -> datetime:
        *seconds, minute, hour, day, month, weekday = self.expression.split()
        expression = " ".join((minute, hour, day, month, weekday))
        local = now.astimezone(zone)
        apart = [timedelta(0)]
        if seconds:
            # CronSim would leave out a day on which the clocks skip the minute.
            apart = [timedelta(seconds=each) for each in _seconds(seconds[0])]
            local = (now - timedelta(minutes=1)).astimezone(zone)
        # In the second pass of a repeated hour, CronSim gives times of the first: they are over.
        turns = (
            turn.astimezone(UTC) + each for turn in CronSim(expression, local) for each in apart
        )
        return next(turn for turn in turns if turn > now)

    def _next_matching(self, now: datetime, zone: ZoneInfo) -> datetime:
        """The first time after `now` whose local time matches, in either pass of an hour."""
        local = now.astimezone(zone).replace(tzinfo=None, fold=0)
        tomorrow = (now + timedelta(days=1)).astimezone(zone).replace(tzinfo=None)
        goes_back = max(local + timedelta(days=1) - tomorrow, timedelta(0))
        second_pass: datetime | None = None
        # Without a time zone, CronSim only matches the fields.
        for turn in CronSim(self.expression, local - goes_back):
            first, second = (
                turn.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1)
            )
            if second < first:
                continue  # The clocks skip this time.
            if first > now:
                return first if second_pass is None else min(first, second_pass)
            if second > now and second_pass is None:
                second_pass = second
        raise AssertionError(f"cron {self.expression!r} has no turn after {now}")


def _interval(every: Duration) -> int:
    try:
        interval = parse_duration(every, what="every")
    except BadDuration as problem:
        raise BadSchedule(str(problem)) from problem
    if interval < SECOND:
        raise BadSchedule(f"every={every!r} is shorter than a second; give one from 1s on")
    return interval


def is_zone(name: str) -> bool:
    """Whether it is the name of a time zone: no field of a cron expression is one."""
    try:
        ZoneInfo(name)
    except (OSError, ValueError, KeyError, ImportError):
        return False
    return True


def schedule_of(
    expression: str | None, every: Duration | None, zone: str, *, catchup: bool = False
) -> Schedule:
    """The schedule of a cron expression, or of turns a fixed time apart."""
    if (expression is None) == (every is None):
        raise BadSchedule(
            'give a cron expression, such as "0 3 * * *", or every="30s", and not both'
        )
    if every is None:
        return Schedule(expression or "", zone, catchup)
    if zone != "UTC":
        raise BadSchedule(f"tz={zone!r} is not about every={every!r}: leave it out")
    return Schedule.every(every, catchup=catchup)


def _seconds(field: str) -> list[int]:
    """The seconds that the first of six fields names."""
    begin = datetime(2025, 12, 31, 23, 59, 59)  # noqa: DTZ001 - only its seconds count
    turns = takewhile(lambda turn: turn.minute == 0, CronSim(f"{field} * * * * *", begin))
    return [turn.second for turn in turns]
