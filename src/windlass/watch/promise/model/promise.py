"""A promise: what a kind must keep, how that stands, when it breaks, and what would cure it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil
from typing import Literal

from windlass.clock import SECOND, to_datetime
from windlass.core.limit.store import Switch
from windlass.value.duration import format_duration
from windlass.value.rate import rate_text
from windlass.value.task import EVERYTHING, GROUP
from windlass.watch.promise.model.pace import Hold, KindPace

PromiseState = Literal["kept", "at risk", "broken", "unknown"]
PromiseFace = Literal["task", "cron", "rolling", "sweep", "flow"]
WORST = ("broken", "at risk", "kept", "unknown")


@dataclass(frozen=True)
class Promise:
    """What a kind promises and how that stands. Rates are per second.

    `state` is kept, at risk (the forecast says that it breaks), broken, or unknown while there is
    nothing to judge. `standing` says how it stands now, `forecast` what will become of it, and
    `cure` what would help; None if nothing is needed. `breaks_at` is when it breaks, `ends_at`
    when a round or a flow run is expected to end. `missing` names shards that do not answer.
    """

    kind: str
    face: PromiseFace
    promise: str
    within: timedelta
    state: PromiseState
    standing: str
    forecast: str
    cure: str | None = None
    breaks_at: datetime | None = None
    ends_at: datetime | None = None
    oldest_age: timedelta | None = None
    overdue: int | None = None
    percent: float | None = None
    rate: float | None = None
    needed_rate: float | None = None
    # What keeps the kind from running now, in words.
    held_back: str | None = None
    missing: tuple[str, ...] = ()

    @property
    def is_standing_still(self) -> bool:
        """Whether it is at risk because nothing runs, and not because it is too slow."""
        return self.state == "at risk" and not self.rate


def at_speed(breaks_at: int, pace: KindPace, speed: float | None, needed: float | None) -> str:
    """The forecast of a promise that will break."""
    moment = to_datetime(breaks_at).strftime("%A %Y-%m-%d %H:%M UTC")
    if pace.hold is not None:
        return f"breaks on {moment} because {pace.hold.value}"
    when = "present" if pace.expected is None else "expected"
    present = "" if not speed else f" at the {when} {rate_text(speed)}"
    return f"breaks on {moment}{present}{needs(needed)}"


def needs(needed: float | None) -> str:
    """The speed that would be enough, at the end of a sentence."""
    return "" if not needed else f"; needs {rate_text(needed)}"


def cure_of(kind: str, pace: KindPace, *, speed: float | None, needed: float | None) -> str | None:
    """What would make a kind fast enough: what holds it back comes first; None if unknown."""
    match pace.hold:
        case Hold.PAUSED:
            return f"resume it: {' and '.join(map(_resume, pace.setting.pauses))}"
        case Hold.BREAKER:
            return f"cure its errors, and close its breaker: windlass resume {kind}"
        case Hold.WORKER:
            return "start a worker: windlass worker"
        case None:
            pass
    if needed is None:
        return None
    cures = [*_more_time(kind, pace, needed), *_more_rate(kind, pace, needed)]
    cures += _more_workers(pace, needed)
    return "; ".join(cures) or (None if speed is None else "more workers")


def _resume(found: Switch) -> str:
    """The command that ends a pause."""
    if found.kind == EVERYTHING:
        return "windlass resume"
    if found.kind.startswith(GROUP):
        return f"windlass resume --group {found.kind.removeprefix(GROUP)}"
    return f"windlass resume {found.kind}"


def _more_time(kind: str, pace: KindPace, needed: float) -> list[str]:
    window, speed = pace.setting.window, pace.speed
    if window is None or pace.share >= 1.0 or (speed and speed * pace.share >= needed):
        return []
    hours = pace.share * 168
    text = f"a longer window than {window} ({hours:.0f} h a week)"
    return [f"{text}: windlass set {kind} --window ..."]


def _more_rate(kind: str, pace: KindPace, needed: float) -> list[str]:
    rate, while_open = pace.setting.rate, needed / max(pace.share, 1e-9)
    cures = []
    if rate is not None and rate < while_open:
        cures.append(f"a higher rate: windlass set {kind} --rate {_rate_option(while_open)}")
    left = pace.setting.most_rate
    if left is not None and left < while_open:
        cures.append(f"a higher rate of its downstream, which leaves {rate_text(left)} to it")
    return cures


def _more_workers(pace: KindPace, needed: float) -> list[str]:
    reached, while_open = pace.without_rate, needed / max(pace.share, 1e-9)
    if not reached or reached >= while_open or not pace.helping:
        return []
    wanted = ceil(pace.helping * while_open / reached)
    if pace.most_workers is not None and wanted > pace.most_workers:
        return [f"more workers and ranges: {wanted} of both instead of {pace.helping}"]
    how = f"{wanted} workers instead of {pace.helping}"
    one = "" if pace.setting.concurrency is None else ", or a higher concurrency"
    return [f"more workers: {how}{one}"]


def _rate_option(per_second: float) -> str:
    """A rate, rounded up, as an option takes it."""
    for unit, seconds in (("s", 1), ("m", 60), ("h", 3_600), ("d", 86_400)):
        if per_second * seconds >= 1 or unit == "d":
            return f"{max(1, ceil(per_second * seconds - 1e-9))}/{unit}"
    raise AssertionError(per_second)


def shown(microseconds: int) -> str:
    """A span of time for people, in whole seconds."""
    return format_duration(max(SECOND, microseconds // SECOND * SECOND))


def span(microseconds: int) -> timedelta:
    return timedelta(microseconds=microseconds)


def moment(microseconds: int | None) -> datetime | None:
    return None if microseconds is None else to_datetime(microseconds)
