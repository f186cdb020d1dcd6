"""What the kernel does for control runs."""

from __future__ import annotations

from windlass.control.engine.move import move
from windlass.core.face import Face

FACE = Face(name="control", move=move)
