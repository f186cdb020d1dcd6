"""Switches: what an operator and the time window allow, and how a worker obeys."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

from windlass import telemetry
from windlass.clock import SECOND, to_datetime
from windlass.core.face import Site
from windlass.core.limit import store as limit_store
from windlass.core.limit.gate import NOWHERE, Gate
from windlass.core.limit.permit import store as permit_store
from windlass.core.limit.permit.guest import Place
from windlass.core.limit.permit.store import LimitNow
from windlass.core.limit.schedule import schedule_now
from windlass.core.limit.store import Switch, SwitchRows
from windlass.core.loop import Loop
from windlass.core.ring import store as ring_store
from windlass.core.run.ready import KindLoad
from windlass.core.task.downstream import Downstream, Limited
from windlass.core.task.kind import Kind
from windlass.database.connection import Connection
from windlass.database.database import DATABASE_ERRORS
from windlass.errors import BadInput, DatabaseUnavailable
from windlass.value.breaker import CLOSED, Breaker, BreakerState
from windlass.value.calendar.window import Window, parse_window
from windlass.value.duration import format_duration
from windlass.value.load.adapt import Ceilings, begin
from windlass.value.rate import parse_rate
from windlass.value.task import EVERYTHING, GROUP, Claimed
from windlass.view.said import At, Said, TimeSpan, joined, say

LOOK_SECONDS = 0.75
LOOKS = 2
NONE = "none"
NO_SWITCHES = SwitchRows({})
OUTAGES = (DatabaseUnavailable, *DATABASE_ERRORS, OSError)
DAY = 86_400 * SECOND
WEEK = 7 * DAY
MOST_WEEKS_AHEAD = 8


@dataclass(frozen=True)
class Setting:
    """The effective settings of a kind: its switch, or else its declaration."""

    # The switches that are off now: its own, its group's, that of everything.
    pauses: tuple[Switch, ...]
    window: Window | None
    rate: float | None
    concurrency: int | None
    problem: str | None = None
    # The stretch of time for which its share counts, if its weeks are not alike.
    ahead: tuple[int, int] | None = None
    # What its downstreams, and its own limit of the fleet, leave to it; for forecasts.
    most_rate: float | None = None
    most_at_once: int | None = None

    @property
    def off(self) -> bool:
        return bool(self.pauses)

    @property
    def rate_bound(self) -> float | None:
        """The rate that it cannot pass: its own, or what its downstreams leave to it."""
        bound: float | None = least(self.rate, self.most_rate)
        return bound

    def is_open(self, now: int) -> bool:
        return not self.off and (self.window is None or self.window.is_open(now))

    @cached_property
    def share(self) -> float:
        """The part of the time in which its window is open: of a week, or of the time ahead."""
        if self.window is None:
            return 1.0
        if self.window.is_weekly or self.ahead is None:
            return self.window.share
        return self.window.share_between(*self.ahead)


def setting_of(kind: Limited, found: Switch, *, now: int) -> Setting:
    """The settings of a kind or a downstream. An invalid value in the row does not count."""
    window, rate, concurrency, problem = kind.window, kind.rate, kind.concurrency, None
    if found.has_odd_breaker:
        problem = "breaker: its state is not valid, so it counts as closed"
    try:
        if found.window is not None:
            window = None if found.window == NONE else parse_window(found.window)
    except BadInput as error:
        problem = str(error)
    try:
        if found.rate is not None:
            rate = None if found.rate == NONE else parse_rate(found.rate)
    except BadInput as error:
        problem = str(error)
    # SQLite accepts any text as a number.
    given: object = found.concurrency
    if isinstance(given, int) and given >= 1:
        concurrency = given
    elif given is not None:
        problem = f"concurrency: {given!r} is not a number from 1 on"
    return Setting(
        found.pauses(now), window, rate, concurrency, problem, ahead=(now, now + _ahead(kind))
    )


def _ahead(kind: Limited) -> int:
    """How far a forecast of the kind looks: its period or promise, in whole weeks."""
    if not isinstance(kind, Kind):
        return WEEK
    promised = kind.within if kind.period is None else kind.period.every
    return min(max(1, -(-(promised or 0) // WEEK)), MOST_WEEKS_AHEAD) * WEEK


class LimitRows(NamedTuple):
    """The switches, and what the limits of the fleet are lowered to."""

    switches: SwitchRows
    lowered: dict[str, LimitNow]

    def of(self, limited: Downstream, *, at: int) -> Setting:
        """The settings of a downstream; of one that adapts, not more than it is lowered to."""
        setting = setting_of(limited, self.switches.alone(limited.name), now=at)
        if not limited.adapt:
            return setting
        now = self.lowered.get(limited.name)
        if now is None:
            # Nothing is known of it yet.
            first = begin(Ceilings(setting.rate, setting.concurrency))
            now = LimitNow(first.rate, first.concurrency)
        return replace(
            setting,
            rate=least(setting.rate, now.rate),
            concurrency=least(setting.concurrency, now.concurrency),
        )


def least(*limits: Any) -> Any:
    """The lowest of limits, where None is no limit."""
    return min((limit for limit in limits if limit is not None), default=None)


class Switchboard(Loop):
    """Reads the switches twice a second and applies them to the rows in flight.

    So each worker applies a change within half a second, however it was made. Running tasks
    continue; claimed tasks that have not started are put back.
    """

    name = "switch"

    def __init__(
        self,
        site: Site,
        gate: Gate,
        *,
        opened: Callable[[], None],
        homes: Mapping[str, Place] = NOWHERE,
        is_visit: bool = False,
        rescheduled: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__()
        self._site = site
        self._rescheduled = rescheduled
        # How often `rescheduled` has yet to return since the schedule of a cron was changed.
        self._looks = 0
        # A window, which holds back a round, does not hold back the visit of one item.
        self._is_visit = is_visit
        self._gate = gate
        self._homes = homes
        loads = gate.in_flight.loads.values()
        self._downstreams = {each.name: each for load in loads for each in load.kind.downstreams}
        self._needs_limits = bool(gate.pools)
        self._in_flight = gate.in_flight
        self._opened = opened
        self._owners = [] if is_visit else site.faces.holding(site.registry)
        self._paused: frozenset[str] | None = None
        self._problems: dict[str, str | None] = {}

    def tick(self) -> float:
        self.obey()
        return LOOK_SECONDS

    def obey(self) -> None:
        """Apply the switches now."""
        rows = self._site.database.read(self._read, tries=2)
        breakers = {name: found.breaker for name, found in rows.switches.rows.items()}
        for home in {id(home): home for home in self._homes.values()}.values():
            self._look_at(home, rows, breakers)
        now = self._site.clock.now()
        settings = {name: rows.of(each, at=now) for name, each in self._downstreams.items()}
        is_changed = False
        for name, setting in settings.items():
            self._report(name, setting.problem)
            is_changed |= self._gate.set_rate(name, setting.rate)
            self._gate.pools[name].limit = setting.concurrency
            if self._downstreams[name].breaker is not None:
                self._gate.see(name, breakers.get(name, CLOSED))
        for name, load in self._in_flight.loads.items():
            called = [settings[each.name] for each in load.kind.downstreams]
            is_changed |= self._set(load, rows.switches.of(name, load.kind.group), called, now)
        self._hold_owned(rows.switches, now)
        if self._looks:
            self._rescheduled()
            self._looks -= 1
        if is_changed:
            # There may be more moments than rows that are planned.
            self._opened()
        self._gate.settle_trips()

    def _read(self, connection: Connection) -> LimitRows:
        has_limits = self._needs_limits and self._site.database.schema.has(permit_store.MIGRATION)
        lowered = permit_store.lowered(connection) if has_limits else {}
        return LimitRows(limit_store.switches(connection), lowered)

    def _look_at(self, home: Place, rows: LimitRows, breakers: dict[str, Breaker]) -> None:
        """Read what is kept in the home of downstreams that is another shard."""
        try:
            found = home.database.read(
                lambda connection: (
                    limit_store.switches(connection),
                    permit_store.lowered(connection),
                ),
                tries=1,
            )
        except OUTAGES:
            # Their kinds get no permits and no moments until it is back.
            return
        for name, place in self._homes.items():
            if place is home:
                breakers[name] = found[0].alone(name).breaker
                rows.lowered.pop(name, None)
                if name in found[1]:
                    rows.lowered[name] = found[1][name]

    def _set(self, load: KindLoad, found: Switch, called: list[Setting], now: int) -> bool:
        """Apply the settings of a kind; returns whether its rate has changed."""
        name = load.kind.name
        setting = setting_of(load.kind, found, now=now)
        self._report(name, setting.problem)
        limits = [setting.concurrency, load.kind.total_concurrency]
        limits += [each.concurrency for each in called]
        load.limits(least(*limits), self._in_flight.concurrency)
        is_changed = self._gate.set_rate(name, setting.rate)
        if load.is_scheduled:
            self._schedule(load, found)
        load.is_rated = any(each.rate is not None for each in (setting, *called))
        load.late_after = self._gate.late_after(load)
        if load.kind.breaker is not None:
            self._gate.see(name, found.breaker)
        is_open = self._is_visit or all(each.is_open(now) for each in (setting, *called))
        was_open, load.is_open = load.is_open, is_open
        # What was submitted goes on elsewhere, also while a group or everything is paused.
        load.is_polled = replace(setting, pauses=()).is_open(now) and not found.is_off(now)
        if not load.is_open or any(map(self._gate.breakers.is_open, load.names)):
            # Every time: a claim that was running when the kind closed may add rows later.
            self._give_back(name)
        if load.is_open and not was_open:
            telemetry.emit("kind.opened", kind=name)
            self._opened()
        if was_open and not load.is_open:
            is_off = any(each.off for each in (setting, *called))
            telemetry.emit("kind.held_back", kind=name, off=is_off)
        return is_changed

    def _schedule(self, load: KindLoad, found: Switch) -> None:
        """Let a cron follow what its switch says from the end of its run on.

        A run may have ended just now by the schedule before: look at its row, and once more.
        """
        schedule = schedule_now(load.kind, found)
        if schedule != load.terms.schedule:
            load.terms, self._looks = replace(load.terms, schedule=schedule), LOOKS

    def _hold_owned(self, switches: SwitchRows, now: int) -> None:
        """Hold the nodes of flows that are paused, themselves or by their group.

        While everything is paused, the kinds of the nodes hold them.
        """
        paused = frozenset(
            kind.name
            for kind in self._owners
            for each in switches.of(kind.name, kind.group).pauses(now)
            if each.kind != EVERYTHING
        )
        before, self._paused = self._paused, paused
        if before is None:
            # Those that were ever paused may have been resumed while no worker was there.
            before = frozenset(
                kind.name
                for kind in self._owners
                if {kind.name, f"{GROUP}{kind.group}"} & switches.rows.keys()
            )
        self._in_flight.paused_owners = paused
        if paused - before:
            self._put_back(self._in_flight.take_back_nodes())
        if before - paused:
            # Another worker may put off a row just now; it does the same when it looks.
            self._site.faces.let_go(self._site, before - paused)
        if paused != before:
            self._opened()

    def _give_back(self, kind: str) -> None:
        self._put_back(self._in_flight.take_back(kind))

    def _put_back(self, tasks: Sequence[Claimed]) -> None:
        # Rows that were only read need no write: the database has them as waiting.
        queued = [task for task in tasks if not task.is_read]
        if queued:
            self._site.database.write_as(
                queued[0].worker,
                lambda connection: ring_store.put_back(connection, queued),
                lost=None,
            )

    def _report(self, kind: str, problem: str | None) -> None:
        if problem is not None and self._problems.get(kind) != problem:
            telemetry.emit("switch.unreadable", kind=kind, error=problem)
        self._problems[kind] = problem


def held_back(
    kind: Limited | None, found: Switch, *, now: int, others: SwitchRows = NO_SWITCHES
) -> str | None:
    """The reason in a few words; None if the kind may run.

    `others` has the switches of its downstreams, which hold it back as well.
    """
    why = _held_back(kind, found, now=now)
    if why is not None or not isinstance(kind, Kind):
        return why
    return downstream_holds(kind, others, now=now)


def downstream_holds(kind: Kind, switches: SwitchRows, *, now: int) -> str | None:
    """Why a downstream of the kind lets nothing start; None if all do."""
    for downstream in kind.downstreams:
        row = switches.alone(downstream.name)
        why = _held_back(downstream, row, now=now)
        if why is not None:
            return say("held.downstream", name=downstream.name, why=why)
    return None


def _held_back(kind: Limited | None, found: Switch, *, now: int) -> str | None:
    pauses = found.pauses(now)
    if pauses:
        return joined(paused_text(each, now=now) for each in pauses)
    breaker = found.breaker
    if kind is not None and kind.breaker is not None and breaker.is_open:
        probe_at = breaker.probe_at or now
        when = say("held.probe_soon")
        if breaker.state is BreakerState.PROBING:
            when = say("held.probing")
        elif probe_at > now:
            when = say("held.probed_in", away=_span(probe_at - now))
        return say("held.breaker", errors=breaker.errors_in_a_row, when=when)
    window = None if kind is None else setting_of(kind, found, now=now).window
    if window is not None and not window.is_open(now):
        opens_at = window.opens_at(now)
        if opens_at is None:
            return say("held.window_for_good")
        far = "%Y-%m-%d %H:%M UTC" if opens_at - now > WEEK else "%a %H:%M UTC"
        opens = At(opens_at, f"{to_datetime(opens_at):{far}}")
        return say("held.window", opens=opens, away=_span(opens_at - now))
    return None


def paused_text(found: Switch, *, now: int) -> Said:
    """Who paused what, until when and why, as in "paused by ann until 06:00 UTC: sale"."""
    nothing = Said("")
    what = when = nothing
    if found.kind == EVERYTHING:
        what = say("held.everything")
    elif found.kind.startswith(GROUP):
        what = say("held.group", group=found.kind.removeprefix(GROUP))
    if found.until is not None:
        when = say("held.until", until=At(found.until, clock_time(found.until, now)))
    elif found.since:
        when = say("held.ago", ago=_span(now - found.since))
    return say(
        "held.paused",
        what=what,
        who=say("held.by", who=found.who) if found.who else nothing,
        when=when,
        reason=say("held.reason", reason=found.reason) if found.reason else nothing,
    )


def clock_time(moment: int, now: int) -> str:
    """A moment for people; with its date if it is a day or more ahead."""
    shown = to_datetime(moment)
    time = "%H:%M UTC" if shown.second == 0 else "%H:%M:%S UTC"
    return shown.strftime(time if moment - now < DAY else f"%Y-%m-%d {time}")


def _span(microseconds: int) -> TimeSpan:
    whole = max(SECOND, microseconds // SECOND * SECOND)
    return TimeSpan(whole, format_duration(whole))
