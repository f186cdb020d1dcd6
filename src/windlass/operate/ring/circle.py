"""Drawing the ring: 256 buckets as a circle in colours, or as a band of letters in one line."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

from rich.console import Group
from rich.style import Style
from rich.text import Text

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
COLOURS = (
    "cyan",
    "magenta",
    "yellow",
    "blue",
    "green",
    "red",
    "bright_cyan",
    "bright_magenta",
    "bright_yellow",
    "bright_blue",
    "bright_green",
    "bright_red",
)
BAND_CELLS = 64
# A cell of a terminal is about twice as high as it is wide: each is two points of the circle.
CIRCLE_COLUMNS = 36
CIRCLE_ROWS = CIRCLE_COLUMNS // 2
HOLE = 0.6


class MemberMark(NamedTuple):
    """How a member of the ring is drawn."""

    letter: str
    colour: str


NOBODY = MemberMark("·", "bright_black")


def marks_of(count: int) -> list[MemberMark]:
    """Marks for `count` members in the order of the ring; neighbours differ in colour."""
    colours = COLOURS if count % len(COLOURS) != 1 else COLOURS[:-1]
    return [
        MemberMark(LETTERS[place] if place < len(LETTERS) else "+", colours[place % len(colours)])
        for place in range(count)
    ]


def band(buckets: Sequence[MemberMark], *, in_colour: bool) -> Text:
    """The ring in one line: a letter a cell, or a strip of colour with its letter in the middle."""
    cells = [buckets[cell * len(buckets) // BAND_CELLS] for cell in range(BAND_CELLS)]
    line = Text(no_wrap=True)
    for mark, run in groupby(cells):
        width = len(list(run))
        if in_colour and mark is not NOBODY:
            line.append(mark.letter.center(width), Style(color="black", bgcolor=mark.colour))
        else:
            line.append(mark.letter * width, mark.colour if in_colour else "")
    return line


def circle(buckets: Sequence[MemberMark], words: Sequence[Text]) -> Group:
    """The ring as a circle, clockwise from the top, with `words` in the middle of it."""
    rows = [_row(buckets, row) for row in range(CIRCLE_ROWS)]
    first = (CIRCLE_ROWS - len(words)) // 2
    for row, text in enumerate(words, start=first):
        begin = (CIRCLE_COLUMNS - text.cell_len) // 2
        rows[row] = rows[row][:begin] + text + rows[row][begin + text.cell_len :]
    return Group(*rows)


def _row(buckets: Sequence[MemberMark], row: int) -> Text:
    line = Text(no_wrap=True)
    for column in range(CIRCLE_COLUMNS):
        upper = _colour_at(buckets, column, 2 * row)
        lower = _colour_at(buckets, column, 2 * row + 1)
        if upper is None:
            line.append(" " if lower is None else "▄", lower or "")
        else:
            line.append("▀" if lower != upper else "█", Style(color=upper, bgcolor=lower))
    return line


def _colour_at(buckets: Sequence[MemberMark], column: int, row: int) -> str | None:
    """The colour of one point; None beside the ring."""
    radius = CIRCLE_COLUMNS / 2
    right, up = column + 0.5 - radius, radius - row - 0.5
    if not HOLE * radius <= math.hypot(right, up) <= radius:
        return None
    turn = math.atan2(right, up) / math.tau % 1.0
    return buckets[int(turn * len(buckets))].colour
