"""The audit log: who did what, when, and with which outcome.

An action is written down before it begins, so that no action is missing in the log. The console,
the API and the terminal use the same words, those of `Action`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from windlass.core.shard.fleet import Fleet
from windlass.core.shard.shard import Shard
from windlass.errors import DatabaseUnavailable, WindlassError
from windlass.value.outcome import storable
from windlass.view.action import Operator
from windlass.view.listing import Listing
from windlass.watch.model import AuditEntry
from windlass.watch.store import audit as store

LONGEST_OUTCOME = 2_000
LONGEST_ABOUT = 300


@dataclass(eq=False)
class OpenEntry:
    """An action that is under way; `says` notes its outcome."""

    outcome: str = "done"

    def says(self, outcome: str) -> str:
        """Note the outcome, in words."""
        self.outcome = outcome
        return outcome


@dataclass(eq=False)
class AuditLog:
    """Records what one operator does."""

    fleet: Fleet
    operator: Operator

    @property
    def who(self) -> str:
        """Who acts."""
        return self.operator.who

    @contextmanager
    def record(
        self, action: str, about: str | None = None, /, **detail: Any
    ) -> Iterator[OpenEntry]:
        """Write down the action before the block runs, and its outcome after; also if it fails."""
        self.fleet.prepare()
        shard, number = self._begin(action, about, detail)
        entry = OpenEntry()
        try:
            yield entry
        except BaseException as problem:
            text = str(problem) if isinstance(problem, WindlassError) else type(problem).__name__
            # The caller needs this error more than one about the log.
            with suppress(WindlassError):
                _end(shard, number, ok=False, outcome=text)
            raise
        _end(shard, number, ok=True, outcome=entry.outcome)

    def _begin(self, action: str, about: str | None, detail: dict[str, Any]) -> tuple[Shard, int]:
        """Write the entry to a shard that is up; the shard, and the number of the entry."""
        for shard in self.fleet.shards:
            if self.fleet.single is not None or shard.is_up:
                number = shard.numbers.take()[0]
                text = storable(msgspec.json.encode(detail).decode()) if detail else None
                entry = AuditEntry(
                    id=number,
                    acted_at=shard.clock.now(),
                    who=storable(self.operator.who)[:255],
                    via=self.operator.via,
                    address=self.operator.address,
                    action=action,
                    about=None if about is None else storable(about)[:LONGEST_ABOUT],
                    detail=text,
                )
                shard.database.write(partial(store.begin, entry=entry))
                return shard, number
        raise DatabaseUnavailable("no shard answers, so nothing can be done")


def listing(
    fleet: Fleet,
    *,
    limit: int,
    after: str | None = None,
    who: str | None = None,
    about: str | None = None,
) -> Listing[AuditEntry]:
    """The last entries, newest first; `after` is the `next` of the page before."""
    acted_at, _, number = (after or "").partition("-")
    before = None if after is None else (int(acted_at), int(number))

    def read(shard: Shard) -> list[AuditEntry]:
        return shard.database.read(
            lambda connection: store.listing(
                connection, limit=limit, before=before, who=who, about=about
            )
        )

    found = fleet.fan_out(read)
    merged = [entry for part in found.values for entry in part]
    merged.sort(key=lambda entry: (entry.acted_at, entry.id), reverse=True)
    last = merged[limit - 1] if len(merged) >= limit else None
    cursor = None if last is None else f"{last.acted_at}-{last.id}"
    return Listing(merged[:limit], found.missing, cursor=cursor)


def _end(shard: Shard, number: int, *, ok: bool, outcome: str) -> None:
    text = storable(outcome)[:LONGEST_OUTCOME]
    shard.database.write(lambda connection: store.end(connection, number, ok=ok, outcome=text))
