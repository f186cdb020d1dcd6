"""The terminal of the demo: a live picture, or plain lines without a terminal."""

from __future__ import annotations

import time
from collections.abc import Callable

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from windlass.demo.diary import Diary, Mood, Note
from windlass.demo.glance import Row
from windlass.demo.routine import Routine

STYLE: dict[Mood, str] = {"good": "green", "bad": "red", "plain": ""}
MARK: dict[Mood, str] = {"good": "✓", "bad": "✗", "plain": "·"}
PLAIN_EVERY = 10.0


class Screen:
    """Shows the shop's numbers and events inside the block."""

    def __init__(self, console: Console, diary: Diary, *, where: str) -> None:
        self._console, self._diary, self._where = console, diary, where
        self.rows: Callable[[], list[Row]] = list
        self._began = time.monotonic()
        self._live: Live | None = None
        self._lines: Routine | None = None

    def __enter__(self) -> Screen:
        if self._console.is_terminal:
            self._live = Live(
                get_renderable=self._draw,
                console=self._console,
                refresh_per_second=2,
                transient=True,
            )
            self._live.start()
        else:
            self._diary.tell = self._tell
            self._lines = Routine(
                "lines", self._say, first=PLAIN_EVERY, every=(PLAIN_EVERY, PLAIN_EVERY)
            )
            self._lines.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._diary.tell = None
        if self._live is not None:
            self._live.stop()
        if self._lines is not None:
            self._lines.stop()
        self._console.print("Closing the shop ...")

    def _draw(self) -> RenderableType:
        head = Text("⚓ ", style="cyan") + Text("A ship chandler's shop, alive", style="bold")
        head += Text(f"   {_clock(time.monotonic() - self._began)}", style="bright_black")
        link = Text("Console  ", style="bright_black")
        link += Text(self._where, style="bold cyan underline" if "://" in self._where else "yellow")
        link += Text("   Ctrl-C stops it and removes everything", style="bright_black")
        rows = self.rows()
        body = _table(rows) if rows else Text("the workers are starting ...", style="bright_black")
        notes = [_note(note) for note in self._diary.last()]
        return Padding(Group(head, link, Text(), body, Text(), *notes), (1, 2, 0, 2))

    def _tell(self, note: Note) -> None:
        self._print(f"{MARK[note.mood]} {note.text}", note.at)

    def _say(self) -> None:
        for row in self.rows():
            self._print(f"  {row.page:8}  {row.now}")

    def _print(self, text: str, at: float | None = None) -> None:
        moment = time.strftime("%H:%M:%S", time.localtime(at))
        self._console.print(Text(f"{moment} {text}"), soft_wrap=True)


def _table(rows: list[Row]) -> Table:
    made = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bright_black")
    made.add_column("page", style="bold", no_wrap=True)
    made.add_column("now", no_wrap=True, overflow="ellipsis")
    made.add_column("watch", style="cyan", no_wrap=True, overflow="ellipsis")
    for row in rows:
        made.add_row(row.page, row.now, row.watch)
    return made


def _note(note: Note) -> Text:
    line = Text(time.strftime("%H:%M:%S ", time.localtime(note.at)), style="bright_black")
    line += Text(f"{MARK[note.mood]} {note.text}", style=STYLE[note.mood])
    line.no_wrap, line.overflow = True, "ellipsis"
    return line


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
