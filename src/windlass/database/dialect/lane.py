"""The statements on rows of lanes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol

import msgspec
from sqlalchemy import Connection, TextClause, text

from windlass.database.dialect import statement as sql
from windlass.database.dialect.statement import columns_of
from windlass.value.task import NewLaneTask

KINDS_AT_ONCE = 50

encode = msgspec.json.Encoder().encode


class Executor(Protocol):
    """Runs statements: a SQLAlchemy connection, or an adapter for a driver's connection."""

    def execute(self, statement: TextClause, parameters: Mapping[str, Any]) -> Any: ...


class LaneStatements(ABC):
    """What a dialect does with lanes, by the words that it has for other rows, too."""

    lane_hint = ""
    chains_text = sql.CHAINS
    lock: str
    to_json: str
    unless_there: str
    returning: str

    @abstractmethod
    def rows(self, name: str, **columns: type) -> str: ...

    @abstractmethod
    def ids(self, ids: Iterable[int]) -> tuple[str, dict[str, str]]: ...

    @abstractmethod
    def often(self, statement: str) -> TextClause: ...

    def prepare_lanes(self) -> None:
        """Fill the gaps of the statements."""
        self._insert_laned = text(
            sql.INSERT_LANED.format(
                rows=self.rows("inserts", **columns_of(NewLaneTask)),
                payload=self.to_json.format("payload"),
                unless_there=self.unless_there,
                returning=self.returning,
            )
        )
        self._lanes = self.often(sql.LANES.format(hint=self.lane_hint))
        lanes = self.rows("lanes", held=int, place=int)
        self._chains = self.often(self.chains_text.format(rows=lanes, hint=self.lane_hint))
        self._lane_rows = self.often(sql.LANE_ROWS.format(hint=self.lane_hint))

    def insert_laned(self, executor: Executor, rows: Sequence[NewLaneTask]) -> set[int]:
        """`insert` of rows that have a lane."""
        inserted = executor.execute(self._insert_laned, {"inserts": encode(rows).decode()})
        return {row[0] for row in inserted.fetchall()}

    def copy_laned(self, executor: Executor, rows: Sequence[NewLaneTask]) -> bool:
        """`copy` of rows that have a lane."""
        return False

    def lanes(
        self, connection: Connection, kind: str, places: range, *, limit: int
    ) -> tuple[list[int], bool]:
        """The first places of lanes of `kind` with waiting rows, in order, and if these are all.

        At most `limit` of them; a lane may have two.
        """
        asked = {"kind": kind, "first": places.start, "last": places.stop - 1, "limit": limit}
        found = list(connection.scalars(self._lanes, asked)) if places else []
        return found, len(found) < limit

    def laned_kinds(self, connection: Connection, kinds: Collection[str]) -> set[str]:
        """Those of the kinds that have waiting rows with a lane."""
        found: set[str] = set()
        given = list(kinds)
        for begin in range(0, len(given), KINDS_AT_ONCE):
            some = given[begin : begin + KINDS_AT_ONCE]
            parts = (
                sql.HAS_LANES.format(hint=self.lane_hint, index=index) for index in range(len(some))
            )
            asked = {f"kind_{index}": kind for index, kind in enumerate(some)}
            found.update(connection.scalars(text(" union all ".join(parts)), asked))
        return found

    def chains(
        self, connection: Connection, kind: str, numbers: Collection[int], *, most: int
    ) -> list[Sequence[Any]]:
        """The LANE_COLUMNS of the first waiting rows of each of these lanes of which none runs.

        At most `most` of each lane, in no order.
        """
        lanes = [{"held": 2 * number, "place": 2 * number + 1} for number in numbers]
        asked = {"kind": kind, "lanes": encode(lanes).decode(), "most": most}
        return list(connection.execute(self._chains, asked).fetchall())

    def lane_rows(
        self, connection: Connection, kind: str, number: int, *, status: int, limit: int
    ) -> list[int]:
        """The first rows of a lane in a status, those that hold it first; their ids."""
        found: list[int] = []
        for place in (2 * number, 2 * number + 1):
            asked = {
                "kind": kind,
                "status": int(status),
                "place": place,
                "limit": limit - len(found),
            }
            found += connection.scalars(self._lane_rows, asked) if len(found) < limit else ()
        return found

    def laned(
        self, connection: Connection, ids: Collection[int], *, is_locked: bool = False
    ) -> list[Sequence[Any]]:
        """The LANE_COLUMNS of those of the rows that wait."""
        if not ids:
            return []
        listed, parameters = self.ids(ids)
        statement = sql.LANED.format(ids=listed, lock=self.lock if is_locked else "")
        return list(connection.execute(text(statement), parameters).fetchall())
