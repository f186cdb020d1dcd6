"""Why a kind may not run now: a switch, a breaker or a window."""

from __future__ import annotations

from windlass.clock import SECOND, to_datetime
from windlass.core.limit.store.switch import Switch
from windlass.core.limit.switch import setting_of
from windlass.core.task.kind import Kind
from windlass.value.breaker import BreakerState
from windlass.value.duration import format_duration


def held_back(kind: Kind | None, found: Switch, *, now: int) -> str | None:
    """The reason in a few words; None if the kind may run."""
    if found.off:
        who = f" by {found.who}" if found.who else ""
        since = f" {_away(now - found.since)} ago" if found.since else ""
        return f"paused{who}{since}" + (f": {found.reason}" if found.reason else "")
    breaker = found.breaker
    if kind is not None and kind.breaker is not None and breaker.is_open:
        probe_at = breaker.probe_at or now
        when = f"probed in {_away(probe_at - now)}" if probe_at > now else "about to be probed"
        if breaker.state is BreakerState.PROBING:
            when = "being probed"
        return f"breaker open after {breaker.errors_in_a_row} errors in a row, {when}"
    window = None if kind is None else setting_of(kind, found).window
    if window is not None and not window.is_open(now):
        opens_at = window.opens_at(now)
        shown = to_datetime(opens_at).strftime("%a %H:%M UTC")
        return f"window closed, opens {shown} (in {_away(opens_at - now)})"
    return None


def _away(microseconds: int) -> str:
    return format_duration(max(SECOND, microseconds // SECOND * SECOND))
