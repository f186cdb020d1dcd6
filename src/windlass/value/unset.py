"""The value of an option that was not given, where None is a value."""

from __future__ import annotations

from typing import Final


class Unset:
    """The value of an option that was not given."""

    def __repr__(self) -> str:
        return "unchanged"


UNSET: Final = Unset()
