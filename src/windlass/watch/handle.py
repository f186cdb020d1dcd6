"""What an app can say about alerts and promises: where they are told, and how they stand."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from windlass.clock import Clock
from windlass.core.shard.fleet import Fleet
from windlass.core.task.kind import Registry
from windlass.value.duration import Duration
from windlass.value.twin import awaited
from windlass.view.listing import Listing
from windlass.watch.declare import Channel, Watching
from windlass.watch.model import AlertView
from windlass.watch.operate import alert
from windlass.watch.promise.model.promise import Promise
from windlass.watch.promise.operate import promise


class Alerting:
    """The methods of `App` about alerts, promises and beats."""

    fleet: Fleet
    registry: Registry
    clock: Clock
    watching: Watching

    @property
    def channels(self) -> Mapping[str, Channel]:
        """Where alerts go, by name."""
        return self.watching.channels

    def alerts(self, limit: int = 100) -> Listing[AlertView]:
        """The last alerts, newest first; `.missing` names shards that did not answer."""
        self.fleet.prepare()
        return alert.listing(self.fleet, limit=limit)

    aalerts = awaited(alerts)

    def promises(self) -> Listing[Promise]:
        """What kinds promise (`every`, `within`), how it stands and the forecast, worst first."""
        self.fleet.prepare()
        return promise.listing(self.fleet, self.clock, self.registry)

    apromises = awaited(promises)

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
    ) -> None:
        """Deliver alerts of this severity or worse to a channel, and again `every` while open.

        The URL is one of Apprise's, or `webhook+https://` for signed JSON. In the window `quiet`
        only critical alerts are delivered. `fallback` names the channel, declared before, that
        gets what this one cannot deliver.
        """
        self.watching.alert_to(
            url,
            severity=severity,
            kinds=kinds,
            every=every,
            quiet=quiet,
            name=name,
            fallback=fallback,
            secret=secret,
        )

    def alert_on(
        self,
        what: str,
        *,
        kinds: Collection[str] | None = None,
        severity: str | None = None,
        limit: float | None = None,
    ) -> None:
        """Change one sort of alert, for all kinds or some: its severity, or "off", and its limit.

        The limit is the share of items that may fail, or the number of deaths in an hour.
        """
        self.watching.alert_on(what, kinds=kinds, severity=severity, limit=limit)

    def beat_to(self, url: str, *, kind: str | None = None, every: Duration = "1m") -> None:
        """Call a URL every so often while workers live, or while `kind` succeeds."""
        self.watching.beat_to(url, kind=kind, every=every)
