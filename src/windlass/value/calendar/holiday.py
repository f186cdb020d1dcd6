"""Holidays: days on which a window stays closed, from a file or a function."""

from __future__ import annotations

import inspect
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

from windlass import telemetry
from windlass.errors import BadWindow
from windlass.value.calendar.dated import BadDate, read_date

HolidayRule = str | os.PathLike[str] | Callable[[date], object]

LOOK_AGAIN_SECONDS = 1.0
ASK_AGAIN_SECONDS = 60.0
MOST_REMEMBERED = 5_000


def make_holidays(given: object, *, what: str) -> Holidays:
    """The holidays that a file lists or a function knows."""
    if isinstance(given, str | os.PathLike):
        return FileHolidays(Path(os.fspath(given)), what=what)
    if callable(given) and not inspect.iscoroutinefunction(given):
        return AskedHolidays(given)
    raise BadWindow(
        f"{what}: holidays={given!r} is neither a file nor a function; give the path of a file "
        "with one date a line, or a function, not async, that gets a date and returns True or False"
    )


class Holidays(ABC):
    """Which days are holidays. Two are equal if they come from the same file or function."""

    def __init__(self, source: object, name: str) -> None:
        self._source = source
        self._problem: str | None = None
        self.name = name

    @abstractmethod
    def has(self, day: date) -> bool:
        """Whether a day is a holiday."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Holidays) and self._source == other._source

    def __hash__(self) -> int:
        return hash(self._source)

    def __repr__(self) -> str:
        return f"<holidays of {self.name}>"

    def _report(self, problem: str | None) -> None:
        """Tell a problem once; None if there is none."""
        if problem is not None and problem != self._problem:
            telemetry.emit("window.holidays_failed", holidays=self.name, error=problem)
        self._problem = problem


class FileHolidays(Holidays):
    """The dates in a file, one a line; "#" begins a comment. It is read again when it changes.

    While a changed file cannot be read, the dates that were read before count.
    """

    def __init__(self, path: Path, *, what: str) -> None:
        super().__init__(path.absolute(), path.name)
        self._path = path.absolute()
        self._looked_at = time.monotonic()
        self._seen = self._signature()
        try:
            self._days = _read_file(self._path)
        except BadWindow as problem:
            raise BadWindow(f"{what}: {problem}") from None

    def has(self, day: date) -> bool:
        now = time.monotonic()
        if now - self._looked_at >= LOOK_AGAIN_SECONDS:
            self._looked_at = now
            self._look()
        return day in self._days

    def _look(self) -> None:
        seen = self._signature()
        if seen == self._seen:
            return
        self._seen = seen
        try:
            self._days = _read_file(self._path)
        except BadWindow as problem:
            self._report(str(problem))
        else:
            self._report(None)

    def _signature(self) -> tuple[int, ...] | None:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino


class AskedHolidays(Holidays):
    """The days for which a function returns True.

    Its answers are remembered for a minute. If it raises, the day counts as a holiday: to run
    on a day that should be quiet is worse than to wait.
    """

    def __init__(self, function: Callable[[Any], object]) -> None:
        super().__init__(function, getattr(function, "__name__", type(function).__name__))
        self._function = function
        self._answers: dict[date, tuple[bool, float]] = {}

    def has(self, day: date) -> bool:
        answer = self._answers.get(day)
        if answer is not None and time.monotonic() < answer[1]:
            return answer[0]
        try:
            is_holiday = bool(self._function(day))
        except Exception as problem:
            self._report(f"{self.name}({day}): {type(problem).__name__}: {problem}")
            is_holiday = True
        else:
            self._report(None)
        if len(self._answers) >= MOST_REMEMBERED:
            self._answers.clear()
        self._answers[day] = (is_holiday, time.monotonic() + ASK_AGAIN_SECONDS)
        return is_holiday


def _read_file(path: Path) -> frozenset[date]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as problem:
        raise BadWindow(f"holidays: cannot read {path}: {problem.strerror or problem}") from problem
    except UnicodeDecodeError as problem:
        raise BadWindow(f"holidays: {path} is not a text in UTF-8") from problem
    days = set()
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.partition("#")[0].strip()
        if not words:
            continue
        try:
            days.add(read_date(words))
        except BadDate as problem:
            place = f"holidays: {path}, line {number}"
            raise BadWindow(f"{place}: cannot read {words[:40]!r}; {problem}") from None
    return frozenset(days)
