"""What an app declares about alerts: channels, changed rules, and heartbeats that it sends."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import count

from windlass.core.alert.model import SEVERITIES, Severity, Trouble
from windlass.errors import BadInput
from windlass.value.calendar.window import Window, parse_window
from windlass.value.duration import Duration, parse_duration
from windlass.watch.channel.base import Sender
from windlass.watch.channel.choose import sender_of

# Separated by spaces or line breaks, because URLs may have commas.
ALERTS_VARIABLE = "WINDLASS_ALERTS"
NAME = re.compile(r"[\w.-]{1,50}")
MOST_CHANNELS = 50
OFF = "off"
# The sorts of alerts that are raised from a limit on.
LIMITED = ("failing", "workers dying", "promise at risk")


@dataclass(frozen=True)
class Channel:
    """Where alerts go. Times are microseconds."""

    name: str
    sender: Sender
    severity: Severity
    kinds: frozenset[str] | None
    # An open alert is told again after this long; None: once.
    every: int | None
    # The times at which only critical alerts are delivered.
    quiet: Window | None
    # The channel that gets what this one cannot deliver.
    fallback: str | None

    def wants(self, severity: int, kind: str | None) -> bool:
        """Whether an alert belongs here."""
        return severity >= self.severity and (self.kinds is None or kind in self.kinds)

    def is_quiet(self, severity: int, now: int) -> bool:
        """Whether an alert must wait until the quiet hours end."""
        return self.quiet is not None and severity < Severity.CRITICAL and self.quiet.is_open(now)


@dataclass(frozen=True)
class RuleChange:
    """What an app changed about one sort of alert."""

    what: str
    kinds: frozenset[str] | None
    severity: Severity | None
    is_off: bool
    limit: float | None

    def is_about(self, what: str, kind: str) -> bool:
        return what == self.what and (self.kinds is None or kind in self.kinds)


@dataclass(frozen=True)
class Beat:
    """A URL that is called while workers live, or while a kind succeeds."""

    # The same for the same URL and kind, and does not show the URL.
    name: str
    sender: Sender
    kind: str | None
    every: int


@dataclass
class Watching:
    """Everything that an app declares about alerts."""

    late_after: int | None
    channels: dict[str, Channel] = field(default_factory=dict)
    changes: list[RuleChange] = field(default_factory=list)
    beats: list[Beat] = field(default_factory=list)

    def __post_init__(self) -> None:
        for url in (os.environ.get(ALERTS_VARIABLE) or "").split():
            self.alert_to(url)

    def alert_to(
        self,
        url: str,
        *,
        severity: str = "warning",
        kinds: Collection[str] | None = None,
        every: Duration | None = "10m",
        quiet: str | None = None,
        name: str | None = None,
        fallback: str | None = None,
        secret: str | None = None,
    ) -> Channel:
        """Add a channel; an error names the wrong option, and never the URL."""
        sender = sender_of(url, secret=secret)
        name = self._name(name, sender.scheme)
        channel = Channel(
            name=name,
            sender=sender,
            severity=parse_severity(severity),
            kinds=_kinds(kinds, what=f"channel {name!r}"),
            every=None if every is None else parse_duration(every, what="every"),
            quiet=None if quiet is None else parse_window(quiet, what="quiet"),
            fallback=self._known(fallback),
        )
        self.channels[name] = channel
        return channel

    def alert_on(
        self,
        what: str,
        *,
        kinds: Collection[str] | None = None,
        severity: str | None = None,
        limit: float | None = None,
    ) -> None:
        """Change what raises alerts of one sort: how bad they are, or `off`, and from when on."""
        if what not in SEVERITIES:
            known = ", ".join(repr(name) for name in SEVERITIES)
            raise BadInput(f"alerts of {what!r} do not exist; known are {known}")
        if limit is not None and (isinstance(limit, bool) or not limit >= 0):
            raise BadInput(f"alert_on({what!r}): limit={limit!r} is not a number from 0 on")
        if limit is not None and what not in LIMITED:
            known = ", ".join(repr(name) for name in LIMITED)
            raise BadInput(f"alert_on({what!r}) has no limit=; these have one: {known}")
        is_off = severity == OFF
        changed = None if severity is None or is_off else parse_severity(severity, or_off=True)
        self.changes.append(
            RuleChange(what, _kinds(kinds, what=f"alert_on({what!r})"), changed, is_off, limit)
        )

    def beat_to(self, url: str, *, kind: str | None = None, every: Duration = "1m") -> None:
        """Call a URL again and again while all is well."""
        sender = sender_of(url, only_http=True)
        name = blake2b(f"{url} {kind}".encode(), digest_size=16).hexdigest()
        self.beats.append(Beat(f"beat {name}", sender, kind, parse_duration(every, what="every")))

    def judged(self, problem: Trouble) -> Severity | None:
        """How bad a problem is for this app; None if it raises no alert."""
        severity: Severity | None = problem.weight
        for change in self._about(problem.what, problem.kind):
            if change.is_off or change.severity is not None:
                severity = change.severity
        return severity

    def limit(self, what: str, kind: str, default: float) -> float:
        """From when on a sort of alert is raised."""
        found = [each.limit for each in self._about(what, kind) if each.limit is not None]
        return found[-1] if found else default

    def _about(self, what: str, kind: str) -> Iterator[RuleChange]:
        return (change for change in self.changes if change.is_about(what, kind))

    def _name(self, given: str | None, scheme: str) -> str:
        if len(self.channels) >= MOST_CHANNELS:
            raise BadInput(f"there are {MOST_CHANNELS} channels already; more are not allowed")
        if given is None:
            names = (scheme if number == 1 else f"{scheme}.{number}" for number in count(1))
            return next(name for name in names if name not in self.channels)
        if not NAME.fullmatch(given):
            raise BadInput(f"channel name {given!r} is not valid; use letters, digits, . - and _")
        if given in self.channels:
            raise BadInput(f"there is a channel named {given!r} already; give another name")
        return given

    def _known(self, fallback: str | None) -> str | None:
        if fallback is not None and fallback not in self.channels:
            known = ", ".join(self.channels) or "none"
            raise BadInput(f"fallback={fallback!r} is not a channel; declared before are: {known}")
        return fallback


def parse_severity(given: str, *, or_off: bool = False) -> Severity:
    """The severity of that name."""
    names = [str(each) for each in Severity]
    if given not in names:
        known = ", ".join([*names, OFF] if or_off else names)
        raise BadInput(f"severity={given!r} is not known; use {known}")
    return Severity[given.upper()]


def _kinds(given: Collection[str] | None, *, what: str) -> frozenset[str] | None:
    if isinstance(given, str):
        raise BadInput(f"{what}: kinds={given!r} is one text; give a list: kinds=[{given!r}]")
    return None if given is None else frozenset(given)
