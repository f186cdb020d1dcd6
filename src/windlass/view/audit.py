"""The result of an audit."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Audit:
    """The result of an audit: true without problems."""

    ok: bool
    problems: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.ok


def found(problems: list[str]) -> Audit:
    """The result for these problems."""
    return Audit(not problems, tuple(problems))
