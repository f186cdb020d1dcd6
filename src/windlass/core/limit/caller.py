"""The way of a caller that runs a handler itself through the limits of its kind."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from windlass.core.face import Site
from windlass.core.limit.gate import Allowed, Breakers, Gate, Rates
from windlass.core.limit.permit.guest import Place
from windlass.core.limit.permit.pools import make_limits, names_of
from windlass.core.limit.switch import Switchboard
from windlass.core.run.in_flight import InFlight
from windlass.core.task.kind import Kind

LOOK_SECONDS = 0.01


class Passage:
    """Waits until one run of a kind may start, and counts until it has ended.

    For permits the caller joins their database for a moment, as a guest.
    """

    def __init__(
        self,
        site: Site,
        kind: Kind,
        *,
        share: float,
        homes: Mapping[str, Place],
        dead_after: int,
    ) -> None:
        self._kind = kind
        here = Place(site.database, site.clock, site.numbers, site.faces)
        in_flight = InFlight({kind.name: kind}, 1)
        self._load = in_flight.loads[kind.name]
        guests = {name: homes.get(name, here) for name in names_of([kind])}
        self._limits = make_limits(
            [self._load],
            here.database,
            # Every name has a guest.
            holder=_Nobody(),
            homes=guests,
            dead_after=dead_after,
            gained=lambda: None,
            freed=lambda: None,
        )
        whole = {each.name for each in kind.downstreams}
        rates = Rates(here.database, share=share, homes=homes, whole=whole, most=1)
        breakers = Breakers(*here[:3], worker=lambda: 0, homes=homes)
        limits = self._limits
        self._gate = Gate(in_flight, rates, breakers, limits.pools, limits.trips, plans=False)
        board = Switchboard(site, self._gate, opened=lambda: None, homes=homes, is_visit=True)
        board.obey()
        self._is_inside = False

    def enter(
        self, deadline: float, *, meanwhile: Callable[[], None] = lambda: None
    ) -> Allowed | None:
        """Wait until a run may start; None if the deadline passes, on the monotonic clock.

        `meanwhile` is called while it waits.
        """
        permits = self._limits.permits
        if permits.accounts:
            permits.start()
        while True:
            allowed = self._gate.allow(self._kind.name, 1)
            if allowed.most and self._load.use_permits():
                self._gate.took(self._kind.name, allowed, 1)
                self._is_inside = True
                return allowed
            if time.monotonic() > deadline:
                self.leave()
                return None
            time.sleep(LOOK_SECONDS)
            meanwhile()

    def leave(self) -> None:
        """The run has ended, or does not start."""
        if self._is_inside:
            self._load.give_back_permits()
        permits = self._limits.permits
        permits.stop()
        permits.join(timeout=5.0)
        permits.release()


class _Nobody:
    id = 0
    good_until = 0.0
