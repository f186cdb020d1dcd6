"""What the kernel does for the audit log."""

from __future__ import annotations

from windlass.core.face import Chore, Face
from windlass.watch.store import audit

FACE = Face(
    name="watch",
    maintenance=(Chore(lambda tidying: audit.prune(tidying.connection)),),
)
