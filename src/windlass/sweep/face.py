"""What the kernel does for sweeps."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.core.face import Chore, Face, FaceLoop, Site, Tidying, Workplace
from windlass.database.connection import Connection
from windlass.sweep.engine.home import sweep_home
from windlass.sweep.engine.round import discover, take_over
from windlass.sweep.engine.sweeper import Sweeper
from windlass.sweep.model import is_sweep
from windlass.sweep.store import failed_item
from windlass.sweep.store import range as ranges
from windlass.sweep.store import sweep as sweeps


def _discover(site: Site) -> None:
    kinds = site.registry.kinds
    discover(site.database, kinds, site.clock, is_here=site.is_home)
    for kind in kinds.values():
        if is_sweep(kind) and site.is_home(kind):
            take_over(site.database, site.numbers, site.clock, kind)


def _loops(workplace: Workplace) -> Sequence[FaceLoop]:
    site = workplace.site
    kinds = [kind for kind in workplace.kinds.values() if is_sweep(kind) and site.is_home(kind)]
    return [Sweeper(kinds, workplace)] if kinds else []


def _prune(tidying: Tidying) -> int:
    failed_item.prune(tidying.connection, now=tidying.now)
    return 0


def _names(connection: Connection) -> list[str]:
    return [row.name for row in sweeps.listing(connection)]


FACE = Face(
    name="sweep",
    home=sweep_home,
    discover=_discover,
    loops=_loops,
    hand_back=ranges.hand_back,
    abandon=ranges.fall,
    maintenance=(Chore(_prune),),
    stays=_names,
)
