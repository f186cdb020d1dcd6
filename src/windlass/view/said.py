"""Sentences for people: in English for the terminal, and as a code with values for other languages.

The English text of each code is here; the console has the same codes in its own dictionaries
(`console/src/text/*/said.ts`). A sentence is a `str`, so whatever shows text can show it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from windlass.view.sentence import SENTENCES

# A property that says a field of its view again, with its code: for the console. `--json` has none.
SPOKEN = "spoken"
# A value of a sentence as the API sends it.
Wire = str | int | float | list[Any] | dict[str, Any]


@dataclass(frozen=True)
class At:
    """A moment in a sentence, in microseconds since the epoch, and how the English text has it."""

    moment: int
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class TimeSpan:
    """A time in a sentence, in microseconds, and how the English text has it."""

    microseconds: int
    text: str

    def __str__(self) -> str:
        return self.text


class Said(str):
    """A sentence in English, with the code and the values by which others say it."""

    code: str
    values: Mapping[str, Any]

    def __new__(cls, text: str, code: str = "", values: Mapping[str, Any] | None = None) -> Said:
        made = super().__new__(cls, text)
        made.code, made.values = code, values or {}
        return made

    @property
    def wire(self) -> dict[str, Wire]:
        """The sentence as the API sends it; a text without a code is shown as it is."""
        values = {name: _wire(value) for name, value in self.values.items()}
        return {"text": str(self), "code": self.code, "values": values}


Spoken = Annotated[Said, SPOKEN]


def say(code: str, **values: Any) -> Said:
    """The sentence of a code. Values may be sentences, and lists of them."""
    shown = {name: _shown(value) for name, value in values.items()}
    return Said(SENTENCES[code].format(**shown), code, values)


def joined(parts: Iterable[str]) -> Said:
    """Sentences one after the other, as in "paused; everything paused"."""
    listed = list(parts)
    if len(listed) == 1 and isinstance(listed[0], Said):
        return listed[0]
    return Said("; ".join(listed), "joined", {"parts": listed})


def as_said(text: str | None) -> Said | None:
    """A text that may have a code."""
    return text if text is None or isinstance(text, Said) else Said(text)


def as_wire(text: str) -> dict[str, Wire]:
    """Any text as the API sends sentences."""
    return (text if isinstance(text, Said) else Said(text)).wire


def _shown(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _wire(value: Any) -> Wire:
    match value:
        case Said():
            return value.wire
        case At(moment=moment):
            shown = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=moment)
            return {"moment": shown.isoformat()}
        case TimeSpan(microseconds=length):
            return {"seconds": length / 1e6}
        case list() | tuple():
            return [_wire(each) for each in value]
        case int() | float():
            return value
    return str(value)
