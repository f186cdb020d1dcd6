"""What the kernel does for watching: the watcher of each worker, and old entries pruned."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.core.face import Chore, Face, FaceLoop, Workplace
from windlass.watch.store import audit


def _loops(workplace: Workplace) -> Sequence[FaceLoop]:
    if workplace.until_idle or workplace.only_asked:
        return ()
    from windlass.watch.engine.beat import Beats
    from windlass.watch.engine.watcher import watcher_at

    (kind,) = (each for each in workplace.kinds.values() if each.face == FACE.name)
    watcher = watcher_at(workplace.site, kind)
    if not kind.face_terms.beats:
        return (watcher,)
    return (watcher, Beats(workplace.site, kind.face_terms))


FACE = Face(
    name="watch",
    loops=_loops,
    maintenance=(Chore(lambda tidying: audit.prune(tidying.connection)),),
)
