"""The hooks of external systems in the kernel."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.core.face import Along, Face, FaceLoop, Workplace
from windlass.external import store
from windlass.external.engine.poll import Poll
from windlass.external.engine.submission import ending
from windlass.external.model import is_external


def _loops(workplace: Workplace) -> Sequence[FaceLoop]:
    return [Poll(kind, workplace) for kind in workplace.kinds.values() if is_external(kind)]


FACE = Face(
    name="external",
    loops=_loops,
    ending=ending,
    stopped=store.stop,
    restarted=store.begin_again,
    replaced=store.replace,
    pruned=store.forget,
    along=Along(copy=store.along, drop=store.forget),
)
