"""What an audit found: nothing, or problems that a person can read."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Audit:
    """The answer of an audit: true if all is well, and `problems` is empty then."""

    ok: bool
    problems: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.ok


def found(problems: list[str]) -> Audit:
    """The audit that found these."""
    return Audit(not problems, tuple(problems))
