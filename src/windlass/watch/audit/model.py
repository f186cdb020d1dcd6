"""What the audit log keeps of an action."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from windlass.view.field import JsonText, Moment


@dataclass(frozen=True)
class AuditEntry:
    """What a person did or tried; `detail` is JSON. `ok` is None until the action ends."""

    id: int
    acted_at: Moment
    who: str
    via: str
    address: str | None
    action: str
    about: str | None
    detail: JsonText | None
    ok: bool | None = None
    outcome: str | None = None


class Before(NamedTuple):
    """The place of an entry in the list."""

    acted_at: int
    id: int
