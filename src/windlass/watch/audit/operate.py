"""The audit log: who did what, when, and what came of it.

What is about to be done is written down first, so that nothing is done of which nothing is known.
Console, API and terminal write it with the same words: an `Action` is one thing, whoever does it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import msgspec

from windlass.core.shard.fleet import Fleet
from windlass.core.shard.shard import Shard
from windlass.errors import DatabaseUnavailable, WindlassError
from windlass.value.listing import Listing
from windlass.value.outcome import storable
from windlass.watch.audit import store
from windlass.watch.audit.model import Action, Before, Deed, Hand

LONGEST_OUTCOME = 2_000
LONGEST_ABOUT = 300
# Of arguments, the log tells so many characters.
LONGEST_TOLD = 2_000


class Entry:
    """A deed that is under way; `says` tells what came of it."""

    def __init__(self) -> None:
        self.outcome = "done"

    def says(self, outcome: str) -> str:
        """Note what came of it."""
        self.outcome = outcome
        return outcome


class Log:
    """Writes down what one hand does."""

    def __init__(self, fleet: Fleet, hand: Hand) -> None:
        self._fleet = fleet
        self._hand = hand

    @property
    def who(self) -> str:
        """Who acts."""
        return self._hand.who

    @contextmanager
    def deed(self, action: Action, about: str | None = None, /, **detail: Any) -> Iterator[Entry]:
        """Write down what is done in the block, and what came of it."""
        told = detail or None
        with recorded(self._fleet, self._hand, action, about=about, detail=told) as entry:
            yield entry


@contextmanager
def recorded(
    fleet: Fleet,
    hand: Hand,
    action: str,
    *,
    about: str | None = None,
    detail: Mapping[str, Any] | None = None,
) -> Iterator[Entry]:
    """Write down what is done in the block, by whom, and what came of it; also if it fails."""
    fleet.prepare()
    shard, number = _begin(fleet, hand, action, about=about, detail=detail)
    entry = Entry()
    try:
        yield entry
    except BaseException as problem:
        text = str(problem) if isinstance(problem, WindlassError) else type(problem).__name__
        # What happened matters more than that it could not be written down.
        with suppress(WindlassError):
            _end(shard, number, ok=False, outcome=text)
        raise
    _end(shard, number, ok=True, outcome=entry.outcome)


def listing(
    fleet: Fleet,
    *,
    limit: int,
    after: str | None = None,
    who: str | None = None,
    about: str | None = None,
) -> Listing[Deed]:
    """The last deeds, newest first; `after` is the `next` of the page before."""
    before = None if after is None else Before(*map(int, after.split("-")))

    def read(shard: Shard) -> list[Deed]:
        return shard.database.read(
            lambda connection: store.listing(
                connection, limit=limit, before=before, who=who, about=about
            )
        )

    found = fleet.fan_out(read)
    merged = [deed for part in found.values for deed in part]
    merged.sort(key=lambda deed: (deed.acted_at, deed.id), reverse=True)
    last = merged[limit - 1] if len(merged) >= limit else None
    cursor = None if last is None else f"{last.acted_at}-{last.id}"
    return Listing(merged[:limit], found.missing, cursor=cursor)


def _begin(
    fleet: Fleet, hand: Hand, action: str, *, about: str | None, detail: Mapping[str, Any] | None
) -> tuple[Shard, int]:
    """Write the entry where it can be written; the shard that has it, and its number."""
    for shard in fleet.shards:
        if fleet.single is not None or shard.is_up:
            number = shard.numbers.take()[0]
            deed = Deed(
                id=number,
                acted_at=shard.clock.now(),
                who=storable(hand.who)[:255],
                via=hand.via,
                address=hand.address,
                action=action,
                about=None if about is None else storable(about)[:LONGEST_ABOUT],
                detail=None if detail is None else storable(msgspec.json.encode(detail).decode()),
            )
            shard.database.write(partial(store.begin, deed=deed))
            return shard, number
    raise DatabaseUnavailable("no shard answers, so nothing can be done")


def _end(shard: Shard, number: int, *, ok: bool, outcome: str) -> None:
    text = storable(outcome)[:LONGEST_OUTCOME]
    shard.database.write(lambda connection: store.end(connection, number, ok=ok, outcome=text))
