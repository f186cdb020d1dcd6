"""`Lines` and `Csv`: files as sources. The key of a row is the byte position where it ends.

So a breakpoint says where reading continues. `Lines` is cut into ranges without being read. In a
CSV file a line end may be inside quotes, so cutting it reads the file once and counts the quotes.
"""

from __future__ import annotations

import codecs
import csv
import io
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import IO, Any

from windlass.errors import BadSource
from windlass.view.action import whoami

CHUNK = 1 << 20
USUAL_ROW = 1 << 16
LONGEST_ROW = 16 << 20
# Some programs begin a UTF-8 file with this mark; it is not part of the first row.
MARK = codecs.BOM_UTF8


class _File(ABC):
    """Rows of bytes that end at line ends."""

    def __init__(self, path: str | PathLike[str], *, encoding: str = "utf-8") -> None:
        self.path = Path(path)
        self.encoding = _checked_encoding(self.path, encoding)

    @property
    def name(self) -> str:
        """The path, for people."""
        return str(self.path)

    def check(self) -> None:
        """Raise `BadSource` if the file cannot be read."""
        with self._open():
            pass

    def count(self) -> int | None:
        """About how many rows there are, estimated from the length of the first 200."""
        rows = self.read(None, None, 200)
        if not rows:
            return 0
        read_to = rows[-1][0]
        size = self.path.stat().st_size
        return len(rows) if len(rows) < 200 else len(rows) * size // max(1, read_to)

    def bounds(self, ranges: int) -> Sequence[int]:
        """Positions that cut the file into parts of similar length."""
        with self._open() as file:
            size = file.seek(0, io.SEEK_END)
            begin = self._begin(file)
            ends, last = [], begin
            for part in range(1, ranges):
                place = begin + (size - begin) * part // ranges
                if place >= last:
                    last = self._end_of_row(file, last, place)
                    ends.append(last)
            return sorted({end for end in ends if begin < end < size})

    def middle(self, after: int | None, upto: int | None) -> int | None:
        """The end of a row near the middle; None if there is only one row."""
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
        """The next rows, each with the position where it ends."""
        rows: list[tuple[int, Any]] = []
        with self._open() as file:
            begin = self._begin(file)
            place = begin if after is None else max(begin, after)
            for raw in self._rows(file, place):
                end = place + len(raw)
                if upto is not None and end > upto:
                    break
                row = self._row(raw, place)
                place = end
                if row is not None:
                    rows.append((place, row))
                if len(rows) == limit:
                    break
        return rows

    def find(self, key: int) -> Any | None:
        """The row that ends at `key`, found by searching back for the end of the row before it."""
        with self._open() as file:
            begin = self._begin(file)
            if not isinstance(key, int) or isinstance(key, bool) or not begin < key:
                return None
            for length in (USUAL_ROW, LONGEST_ROW):
                back = max(begin, key - length)
                file.seek(back)
                raw = file.read(key - back)
                if len(raw) < key - back or not (raw.endswith(b"\n") or not file.read(1)):
                    return None
                cut = self._last_row(raw, is_whole=back == begin)
                if cut is not None:
                    return self._row(cut, key - len(cut))
        return None

    def _open(self) -> IO[bytes]:
        try:
            return self.path.open("rb")
        except OSError as problem:
            why, cure = problem.strerror or problem, "check the path"
            if isinstance(problem, PermissionError):
                cure = f"let user {whoami()} read it"
            elif not self.path.is_absolute():
                cure = f"check the path, from {Path.cwd()}"
            raise BadSource(f"{self.name}: {why}; {cure}") from None

    def _skip_mark(self, file: IO[bytes]) -> int:
        file.seek(0)
        has_mark = self.encoding == "utf-8" and file.read(len(MARK)) == MARK
        return len(MARK) if has_mark else 0

    def _text(self, raw: bytes) -> str:
        # One broken byte must neither stop the scan nor make text that databases cannot store.
        return raw.decode(self.encoding, errors="backslashreplace")

    @abstractmethod
    def _begin(self, file: IO[bytes]) -> int:
        """The position of the first row."""

    @abstractmethod
    def _rows(self, file: IO[bytes], place: int) -> Iterator[bytes]:
        """The rows from `place`."""

    @abstractmethod
    def _row(self, raw: bytes, place: int) -> Any | None:
        """The row that begins at `place`, as a handler gets it; None for an empty line."""

    @abstractmethod
    def _end_of_row(self, file: IO[bytes], begin: int, place: int) -> int:
        """The end of the row that contains `place`; `begin` is the beginning of a row."""

    @abstractmethod
    def _last_row(self, raw: bytes, *, is_whole: bool) -> bytes | None:
        """The last row of `raw`; None if it begins before `raw` does."""


class Lines(_File):
    """The lines of a file; a handler gets the line as text, without its end.

    Bytes that are not valid in `encoding` come as `\\xff`.
    """

    def __repr__(self) -> str:
        return f"Lines({str(self.path)!r})"

    def _begin(self, file: IO[bytes]) -> int:
        return self._skip_mark(file)

    def _rows(self, file: IO[bytes], place: int) -> Iterator[bytes]:
        file.seek(place)
        return iter(file)

    def _row(self, raw: bytes, place: int) -> str:
        return self._text(raw).rstrip("\r\n")

    def _end_of_row(self, file: IO[bytes], begin: int, place: int) -> int:
        file.seek(place)
        file.readline()
        return file.tell()

    def _last_row(self, raw: bytes, *, is_whole: bool) -> bytes | None:
        start = raw.rfind(b"\n", 0, len(raw) - 1) + 1
        return raw[start:] if start or is_whole else None


class Csv(_File):
    """The rows of a file with a header; a handler gets a mapping of column to text.

    `key` is the column that people know a row by: every row must have a value in it. Empty lines
    are skipped. Bytes that are not valid in `encoding` come as `\\xff`.
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
        if not isinstance(delimiter, str) or len(delimiter) != 1 or delimiter in '"\r\n':
            raise BadSource(
                f"{self.name}: delimiter={delimiter!r} cannot separate columns; give one "
                'character, such as delimiter=";"'
            )
        self._header: list[str] | None = None

    def check(self) -> None:
        """Raise `BadSource` if the file cannot be read or does not have the key column."""
        with self._open() as file:
            self._begin(file)
        if self.key not in (self._header or []):
            columns = ", ".join(self._header or []) or "none"
            raise BadSource(f"{self.name} has no column {self.key!r}; its columns: {columns}")

    def find(self, key: int | str) -> dict[str, str] | None:
        """The row that ends at that position; given text, the first row with that key."""
        found = self.locate(key)
        return None if found is None else found[1]

    def locate(self, key: int | str) -> tuple[int, dict[str, str]] | None:
        """As `find`, with the position where the row ends. For text, all rows up to it are read."""
        if not isinstance(key, str):
            row = super().find(key)
            return None if row is None else (key, row)
        with self._open() as file:
            place = self._begin(file)
            for raw in self._rows(file, place):
                row = self._row(raw, place)
                place += len(raw)
                if row is not None and row[self.key] == key:
                    return place, row
        return None

    def key_of(self, row: Mapping[str, str]) -> str:
        """The value of a row in the key column."""
        return row[self.key]

    def __repr__(self) -> str:
        return f"Csv({str(self.path)!r}, key={self.key!r})"

    def _begin(self, file: IO[bytes]) -> int:
        begin = self._skip_mark(file)
        first = next(self._rows(file, begin), b"")
        self._header = self._values(first, begin)
        return begin + len(first)

    def _rows(self, file: IO[bytes], place: int) -> Iterator[bytes]:
        file.seek(place)
        lines: list[bytes] = []
        size = quotes = 0
        for line in file:
            lines.append(line)
            size += len(line)
            quotes += line.count(b'"')
            # A quote is written twice inside quotes, so an even number has closed them.
            if quotes % 2 == 0:
                yield b"".join(lines)
                place += size
                lines, size, quotes = [], 0, 0
            elif size > LONGEST_ROW:
                raise self._bad_quote(place)
        if lines:
            yield b"".join(lines)

    def _row(self, raw: bytes, place: int) -> dict[str, str] | None:
        values = self._values(raw, place)
        if not values:
            return None
        row = dict(zip(self._header or [], values, strict=False))
        if not row.get(self.key):
            raise BadSource(
                f"{self.name}: the row that begins at byte {place} has no {self.key!r}; "
                "give every row its key"
            )
        return row

    def _values(self, raw: bytes, place: int) -> list[str]:
        try:
            text = io.StringIO(self._text(raw), newline="")
            records = list(csv.reader(text, delimiter=self.delimiter))
        except csv.Error as problem:
            raise BadSource(
                f"{self.name}: the row that begins at byte {place} cannot be read: {problem}"
            ) from None
        if len(records) > 1:
            raise self._bad_quote(place)
        return records[0] if records else []

    def _bad_quote(self, place: int) -> BadSource:
        return BadSource(
            f"{self.name}: in the row that begins at byte {place} a quote is not closed, or stands "
            'in a column without quotes; write it as "5"" pipe"'
        )

    def _end_of_row(self, file: IO[bytes], begin: int, place: int) -> int:
        # A line may end inside quotes, so they are counted from the beginning of a row.
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
        start, quotes = len(raw), 0
        while start > 0:
            end, start = start, raw.rfind(b"\n", 0, start - 1) + 1
            quotes += raw.count(b'"', start, end)
            if quotes % 2 == 0:
                return raw[start:] if start or is_whole else None
        return None


def _checked_encoding(path: Path, given: str) -> str:
    # Rows are cut at the bytes of line ends, so these must be ASCII in the encoding.
    try:
        is_usable = b'\n\r",a'.decode(given) == '\n\r",a'
    except (LookupError, UnicodeError, TypeError):
        is_usable = False
    if not is_usable:
        raise BadSource(
            f"{path}: encoding={given!r} cannot be read; give one in which ASCII is one byte a "
            'character, such as "utf-8" or "latin-1"'
        )
    # The mark at the beginning is skipped for both names.
    name = codecs.lookup(given).name
    return "utf-8" if name == "utf-8-sig" else name
