"""What an audit found: nothing, or problems that a person can read."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Audit:
    """The answer of an audit; `problems` is empty if all is well."""

    ok: bool
    problems: tuple[str, ...] = ()


def found(problems: list[str]) -> Audit:
    """The audit that found these."""
    return Audit(not problems, tuple(problems))
