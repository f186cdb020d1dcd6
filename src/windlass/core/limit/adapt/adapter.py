"""The loop that tells what a worker saw of its downstreams that adapt."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import partial

from windlass.core.limit import store as limit_store
from windlass.core.limit.adapt import store
from windlass.core.limit.permit.guest import Place
from windlass.core.limit.switch import setting_of
from windlass.core.loop import Loop
from windlass.core.run.gauge import Gauge
from windlass.core.run.in_flight import InFlight
from windlass.core.task.downstream import Downstream
from windlass.database.connection import Connection
from windlass.database.database import DATABASE_ERRORS, Database
from windlass.errors import DatabaseUnavailable
from windlass.value.load.adapt import Ceilings, Interval

TELL_SECONDS = 0.5


def make_gauges(in_flight: InFlight) -> dict[Downstream, Gauge]:
    """Give the loads the gauges of their downstreams that adapt."""
    gauges: dict[Downstream, Gauge] = {}
    for load in in_flight.loads.values():
        adapting = [each for each in load.kind.downstreams if each.adapt]
        load.gauges = tuple(gauges.setdefault(each, Gauge(each.name)) for each in adapting)
    return gauges


class Adapter(Loop):
    """Adds what this worker saw to what the others saw, twice a second; nothing while idle."""

    name = "adapt"

    def __init__(
        self,
        in_flight: InFlight,
        database: Database,
        *,
        homes: Mapping[str, Place],
    ) -> None:
        super().__init__()
        self.gauges = make_gauges(in_flight)
        self._in_flight = in_flight
        self._database = database
        self._homes = homes

    def tick(self) -> float:
        taken = self._in_flight.undisturbed(
            lambda: [(each, gauge.take()) for each, gauge in self.gauges.items()]
        )
        for downstream, seen in taken:
            if seen.started or seen.ended or seen.in_flight:
                # Without its home no run of it starts, so what is not told does no harm.
                with suppress(DatabaseUnavailable, *DATABASE_ERRORS, OSError):
                    self._tell(downstream, seen)
        return TELL_SECONDS

    def _tell(self, downstream: Downstream, seen: Interval) -> None:
        home = self._homes.get(downstream.name)
        database = self._database if home is None else home.database
        if database.schema.has(store.MIGRATION):
            bounds = partial(_bounds, downstream=downstream)
            database.write(
                lambda connection: store.add(
                    connection, database.dialect, downstream.name, seen, bounds
                ),
                tries=2,
            )


def _bounds(connection: Connection, downstream: Downstream) -> Ceilings:
    """The ceilings: as declared, or as an operator set them."""
    # Its rate and its concurrency are the same at any time.
    setting = setting_of(downstream, limit_store.switch_of(connection, downstream.name), now=0)
    return Ceilings(setting.rate, setting.concurrency)
