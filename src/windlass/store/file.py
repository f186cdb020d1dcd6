"""`Lines` and `Csv`: files as sources. The key of a row is the place in the file where it ends.

So a breakpoint is where to go on reading, and a file of any size is cut without being read.
"""

from __future__ import annotations

import csv
import io
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import IO, Any

from windlass.errors import BadSource

CHUNK = 1 << 20
LONGEST_ROW = 16 << 20


class _File(ABC):
    """Rows of bytes that end at line ends."""

    def __init__(self, path: str | PathLike[str], *, encoding: str = "utf-8") -> None:
        self.path = Path(path)
        self.encoding = encoding

    @property
    def name(self) -> str:
        """What people know it by."""
        return str(self.path)

    def check(self) -> None:
        """Raise `BadSource` if the file cannot be read."""
        with self._open():
            pass

    def count(self) -> int | None:
        """About how many rows there are, from the length of the first ones."""
        rows = self.read(None, None, 200)
        if not rows:
            return 0
        read_to = rows[-1][0]
        size = self.path.stat().st_size
        return len(rows) if len(rows) < 200 else len(rows) * size // max(1, read_to)

    def bounds(self, ranges: int) -> Sequence[int]:
        """Places that cut the file into parts of about equal length."""
        with self._open() as file:
            size = file.seek(0, io.SEEK_END)
            begin = self._begin(file)
            ends = (
                self._end_of_row(file, begin, begin + (size - begin) * part // ranges)
                for part in range(1, ranges)
            )
            return sorted({end for end in ends if begin < end < size})

    def middle(self, after: int | None, upto: int | None) -> int | None:
        """A place where a row ends in the middle; None if there is one row only."""
        with self._open() as file:
            begin = self._begin(file) if after is None else after
            size = file.seek(0, io.SEEK_END)
            end = size if upto is None else min(upto, size)
            for place in (begin + (end - begin) // 2, begin):
                found = self._end_of_row(file, begin, place)
                if begin < found < end:
                    return found
        return None

    def read(self, after: int | None, upto: int | None, limit: int) -> Sequence[tuple[int, Any]]:
        """The next rows, each with the place where it ends."""
        rows: list[tuple[int, Any]] = []
        with self._open() as file:
            place = self._begin(file) if after is None else after
            file.seek(place)
            for raw in self._rows(file):
                place += len(raw)
                if upto is not None and place > upto:
                    break
                rows.append((place, self._row(raw)))
                if len(rows) == limit:
                    break
        return rows

    def find(self, key: int) -> Any | None:
        """The row that ends there; it is found by walking back to the end of the one before."""
        with self._open() as file:
            begin = self._begin(file)
            if not isinstance(key, int) or not begin < key:
                return None
            back = max(begin, key - LONGEST_ROW)
            file.seek(back)
            raw = file.read(key - back)
            cut = self._last_row(raw, is_whole=back == begin)
            return None if cut is None or len(raw) != key - back else self._row(cut)

    def _open(self) -> IO[bytes]:
        try:
            return self.path.open("rb")
        except OSError as problem:
            raise BadSource(f"{self.name}: {problem.strerror or problem}; check the path") from None

    @abstractmethod
    def _begin(self, file: IO[bytes]) -> int:
        """Where the first row begins."""

    @abstractmethod
    def _rows(self, file: IO[bytes]) -> Iterator[bytes]:
        """The rows from where the file stands."""

    @abstractmethod
    def _row(self, raw: bytes) -> Any:
        """What a handler gets."""

    @abstractmethod
    def _end_of_row(self, file: IO[bytes], begin: int, place: int) -> int:
        """Where the row ends that `place` is in; a row begins at `begin`."""

    @abstractmethod
    def _last_row(self, raw: bytes, *, is_whole: bool) -> bytes | None:
        """The last row of `raw`, at whose end it ends."""


class Lines(_File):
    """The lines of a file; a handler gets the line as text, without its end."""

    def __repr__(self) -> str:
        return f"Lines({str(self.path)!r})"

    def _begin(self, file: IO[bytes]) -> int:
        return 0

    def _rows(self, file: IO[bytes]) -> Iterator[bytes]:
        return iter(file)

    def _row(self, raw: bytes) -> str:
        return raw.decode(self.encoding).rstrip("\r\n")

    def _end_of_row(self, file: IO[bytes], begin: int, place: int) -> int:
        file.seek(place)
        file.readline()
        return file.tell()

    def _last_row(self, raw: bytes, *, is_whole: bool) -> bytes | None:
        start = raw.rfind(b"\n", 0, len(raw) - 1) + 1
        return raw[start:] if start or is_whole else None


class Csv(_File):
    """The rows of a file with a header; a handler gets a mapping of column to text.

    `key` is the column by which people know a row: it must be there, and be filled.
    """

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        key: str,
        encoding: str = "utf-8",
        delimiter: str = ",",
    ) -> None:
        super().__init__(path, encoding=encoding)
        self.key = key
        self.delimiter = delimiter
        self._header: list[str] | None = None

    def check(self) -> None:
        """Raise `BadSource` if the file cannot be read, or has no such column."""
        with self._open() as file:
            self._begin(file)
        if self.key not in (self._header or []):
            columns = ", ".join(self._header or []) or "none"
            raise BadSource(f"{self.name} has no column {self.key!r}; its columns: {columns}")

    def __repr__(self) -> str:
        return f"Csv({str(self.path)!r}, key={self.key!r})"

    def _begin(self, file: IO[bytes]) -> int:
        file.seek(0)
        first = next(self._rows(file), b"")
        self._header = next(self._parse(first), [])
        return len(first)

    def _rows(self, file: IO[bytes]) -> Iterator[bytes]:
        row = b""
        for line in file:
            row += line
            # A quote is written twice inside quotes, so an even number has closed them.
            if row.count(b'"') % 2 == 0:
                yield row
                row = b""
        if row:
            yield row

    def _row(self, raw: bytes) -> dict[str, str]:
        values = next(self._parse(raw), [])
        return dict(zip(self._header or [], values, strict=False))

    def _parse(self, raw: bytes) -> Iterator[list[str]]:
        return csv.reader(io.StringIO(raw.decode(self.encoding)), delimiter=self.delimiter)

    def _end_of_row(self, file: IO[bytes], begin: int, place: int) -> int:
        """Quotes are counted from the begin, as a line may end inside of them."""
        file.seek(begin)
        quotes, here = 0, begin
        while here < place:
            part = file.read(min(CHUNK, place - here))
            if not part:
                break
            quotes += part.count(b'"')
            here += len(part)
        for line in file:
            quotes += line.count(b'"')
            here += len(line)
            if quotes % 2 == 0:
                break
        return here

    def _last_row(self, raw: bytes, *, is_whole: bool) -> bytes | None:
        start = len(raw)
        while start > 0:
            start = raw.rfind(b"\n", 0, start - 1) + 1
            if raw[start:].count(b'"') % 2 == 0:
                return raw[start:] if start or is_whole else None
        return None
