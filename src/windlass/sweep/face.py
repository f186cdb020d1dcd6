"""What the kernel does for sweeps."""

from __future__ import annotations

from windlass.core.face import Chore, Face
from windlass.sweep.engine.round import discover, sweep_home
from windlass.sweep.engine.sweeper import loops
from windlass.sweep.store import failed_item, request
from windlass.sweep.store import range as ranges
from windlass.sweep.store import sweep as sweeps

FACE = Face(
    name="sweep",
    home=sweep_home,
    discover=discover,
    loops=loops,
    hand_back=ranges.hand_back,
    abandon=ranges.fall,
    maintenance=(Chore(failed_item.prune), Chore(request.prune, is_often=True, is_prune=False)),
    stays=sweeps.names,
)
