"""One run of a sweep over a source that was given at its start."""

from __future__ import annotations

from dataclasses import dataclass

# Between the name of a sweep and the number of a run.
RUN_SIGN = "@"


@dataclass(frozen=True)
class GivenRun:
    """Which run it is: `import_file@12`, and the key that its `start()` gave it."""

    name: str
    sweep: str
    number: int
    key: str | None = None


def run_name(sweep: str, number: int) -> str:
    """The name of a run of a sweep."""
    return f"{sweep}{RUN_SIGN}{number}"


def split_name(name: str) -> tuple[str, int] | None:
    """The sweep and the number in the name of a run; None if it is not one."""
    sweep, sign, number = name.rpartition(RUN_SIGN)
    is_number = number.isascii() and number.isdecimal() and len(number) <= 15
    return (sweep, int(number)) if sign and sweep and is_number else None
