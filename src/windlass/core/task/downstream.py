"""A downstream: a system that tasks call, with limits that all its kinds share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from windlass.errors import BadDeclaration
from windlass.value.breaker import BreakerTerms
from windlass.value.calendar.window import Window

MOST_DOWNSTREAMS = 8


@dataclass(frozen=True, eq=False)
class Downstream:
    """A declared downstream. Its limits hold for all its kinds together, in all workers.

    `concurrency` is for the whole fleet; `rate` is per second.
    """

    name: str
    rate: float | None = None
    concurrency: int | None = None
    window: Window | None = None
    breaker: BreakerTerms | None = None
    # Whether rate and concurrency follow what the other side can bear; they are then ceilings.
    adapt: bool = False

    def __repr__(self) -> str:
        return f"<downstream {self.name!r}>"


class Limited(Protocol):
    """What has a switch row: a kind or a downstream."""

    @property
    def name(self) -> str: ...
    @property
    def rate(self) -> float | None: ...
    @property
    def concurrency(self) -> int | None: ...
    @property
    def window(self) -> Window | None: ...
    @property
    def breaker(self) -> BreakerTerms | None: ...


# As users give it: a downstream, its name, or several.
DownstreamOption = Downstream | str | Sequence[Downstream | str] | None


def given_downstreams(kind: str, given: object) -> tuple[Downstream | str, ...]:
    """The downstreams of a declaration, each once; an error names the kind."""
    what = f"kind {kind!r}: downstream"
    if given is None:
        return ()
    listed = given if isinstance(given, list | tuple) else (given,)
    for each in listed:
        if not isinstance(each, Downstream | str):
            raise BadDeclaration(
                f"{what}={each!r} is not a downstream; give what app.downstream(...) returned, "
                "its name, or a list of them"
            )
    names = [each if isinstance(each, str) else each.name for each in listed]
    if len(set(names)) < len(names):
        raise BadDeclaration(f"{what}: {', '.join(names)} names one of them twice; name it once")
    if len(names) > MOST_DOWNSTREAMS:
        raise BadDeclaration(
            f"{what}: {len(names)} downstreams are too many; give at most {MOST_DOWNSTREAMS}"
        )
    return tuple(listed)
