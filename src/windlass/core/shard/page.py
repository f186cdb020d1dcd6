"""A page of rows from all shards, newest first, and the cursor of the next page."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from windlass.core.shard.fleet import Fleet
from windlass.core.shard.shard import Shard
from windlass.errors import BadInput

# A cursor has for each shard: not asked yet, no rows left, or the id below which to continue.
BEGIN = "begin"
ENDED = "end"
PLACE = re.compile(rf"{BEGIN}|{ENDED}|-?[0-9]{{1,18}}")


class PagePart(Protocol):
    """The rows of one shard for a page, and the id below which to continue; None at the end."""

    @property
    def below(self) -> int | None: ...


P = TypeVar("P", bound=PagePart)


@dataclass(frozen=True)
class ShardPages(Generic[P]):
    """The rows of each shard for a page, without shards that are down or have no more rows."""

    found: list[tuple[Shard, P]]
    next: str | None
    missing: tuple[str, ...]

    @property
    def parts(self) -> list[P]:
        return [part for _, part in self.found]


def ask_page(
    fleet: Fleet, ask: Callable[[Shard, int | None, int], P], *, after: str | None, limit: int
) -> ShardPages[P]:
    """Ask each shard for its share of a page: up to `limit` rows below an id."""
    places = _places(fleet, after)
    share = max(1, limit // len(fleet.shards))

    def part_of(shard: Shard) -> P | None:
        place = places[shard.index]
        return None if place == ENDED else ask(shard, _below(place), share)

    answers = fleet.fan_out(part_of)
    found = [(shard, part) for shard, part in answers.found if part is not None]
    for shard, part in found:
        places[shard.index] = ENDED if part.below is None else str(part.below)
    is_over = all(places[shard.index] == ENDED for shard, _ in answers.found)
    cursor = None if is_over else ".".join(places[shard.index] for shard in fleet.shards)
    return ShardPages(found, cursor, answers.missing)


def _below(place: str) -> int | None:
    return None if place == BEGIN else int(place)


def _places(fleet: Fleet, cursor: str | None) -> dict[int, str]:
    if cursor is None:
        return {shard.index: BEGIN for shard in fleet.shards}
    parts = cursor.split(".")
    if len(parts) != len(fleet.shards) or not all(PLACE.fullmatch(part) for part in parts):
        raise BadInput(f"{cursor!r} is not the cursor of a page of these shards; begin again")
    return {shard.index: part for shard, part in zip(fleet.shards, parts, strict=True)}
