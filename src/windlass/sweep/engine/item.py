"""Items of sweeps on their way through a worker: rows that are run without being tasks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

from windlass.core.run.load import KindLoad
from windlass.core.run.ready import Keeper, Run
from windlass.core.task.kind import Kind
from windlass.value.key import Key, shown
from windlass.value.outcome import Cancelled, Failed, Outcome, Succeeded
from windlass.value.task import Claimed

# In memory only, and larger than any number in a database.
NUMBERS = count(1 << 63)

Row = tuple[Key, Any]


class ItemRun(Run):
    """One call of the handler of a sweep: with a row, or with several."""

    __slots__ = ("is_again", "is_last", "last", "retry_at", "rows")

    def __init__(self, task: Claimed, load: KindLoad, keeper: Keeper, rows: Sequence[Row]) -> None:
        super().__init__(task, load)
        self.number = next(NUMBERS)
        self.keeper = keeper
        self.rows = rows
        # The key up to which all is done when it has ended.
        self.last: Key = rows[-1][0]
        # Whether it may have been run before, by a worker that died.
        self.is_again = False
        # Whether its last row is the last of a page.
        self.is_last = False
        # When it is to be tried again, if it is set aside for later.
        self.retry_at: int | None = None

    @property
    def key(self) -> str | None:
        """The key of its row, for people."""
        return shown(known_by(self.kind, self.rows[0]))

    def call(self) -> Any:
        """Call the handler with what it takes."""
        terms = self.kind.sweep
        assert terms is not None
        if terms.key_only:
            given = [known_by(self.kind, row) for row in self.rows]
        else:
            given = [row for _, row in self.rows]
        return self.kind.function(given if terms.many else given[0])


def known_by(kind: Kind, row: Row) -> Key:
    """The key by which people know a row: its own, unless the source says otherwise."""
    key, what = row
    key_of: Callable[[Any], Key] | None = getattr(kind.source, "key_of", None)
    return key if key_of is None or what is None else key_of(what)


def is_over(outcome: Outcome | None) -> bool:
    """Whether an item is done with: it will not be tried again."""
    return isinstance(outcome, Succeeded | Failed | Cancelled)


def claimed(kind: str, number: int, *, batch: int, worker: int, now: int) -> Claimed:
    """What items of a range, or of a batch of retries, look like to the runners."""
    return Claimed(
        id=number,
        kind=kind,
        task_key=None,
        priority=0,
        due_at=now,
        payload="null",
        attempt=1,
        lost=0,
        started_at=now,
        bucket=0,
        batch=batch,
        worker=worker,
    )
