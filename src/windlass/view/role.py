"""Roles: what a person or a program may do. `windlass.web.right` says which routes that is."""

from __future__ import annotations

from enum import StrEnum

from windlass.errors import BadInput


class Role(StrEnum):
    """What a person or a program may do."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    # A program that gives work to do, and learns what came of it.
    PRODUCER = "producer"
    ADMIN = "admin"


def role_of(text: str) -> Role:
    """The role that `text` names."""
    try:
        return Role(text.strip().lower())
    except ValueError:
        raise BadInput(f"{text[:50]!r} is not a role; give {', '.join(Role)}") from None
