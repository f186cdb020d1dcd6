"""The numbers of the shop, and the terminal that shows them: a live picture, or plain lines."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.table import Table
from rich.text import Text
from sqlalchemy import Connection, func, select

from windlass.control import operate as control
from windlass.database.schema import task
from windlass.demo import shop
from windlass.demo.custom import Custom
from windlass.demo.goods import ARTICLES, PRODUCTS
from windlass.demo.routine import Diary, Mood, Note, Routine
from windlass.demo.trouble import ShopTrouble
from windlass.operate.ring import operate as ring_operate
from windlass.rolling.model import Freshness
from windlass.sweep.model import Progress
from windlass.value.status import Status

FLOWS = (shop.cancel_order.kind, shop.print_catalogue.kind)
STYLE: dict[Mood, str] = {"good": "green", "bad": "red", "plain": ""}
MARK: dict[Mood, str] = {"good": "✓", "bad": "✗", "plain": "·"}
PLAIN_EVERY = 10.0


@dataclass(frozen=True)
class Row:
    """One page of the console: its numbers now, and what to watch there."""

    page: str
    now: str
    watch: str


@dataclass(frozen=True)
class Snapshot:
    """Numbers that were read from the database."""

    freshness: Freshness
    progress: Progress
    running: int
    ended: int
    imports: str
    members: int


class Glance:
    """Reads the numbers every second and puts them into words."""

    def __init__(self, custom: Custom, trouble: ShopTrouble) -> None:
        self._custom, self._trouble = custom, trouble
        self._read: Snapshot | None = None
        self.routine = Routine("glance", self._refresh, first=0.5, every=(1.0, 1.0))

    def _refresh(self) -> None:
        flows = shop.app.database.read(_flows)
        self._read = Snapshot(
            shop.stock_level.freshness(),
            shop.offer.progress(),
            flows.get(Status.RUNNING, 0),
            flows.get(Status.SUCCEEDED, 0),
            _imports(),
            sum(len(ring.members) for ring in ring_operate.rings(shop.app.fleet)),
        )

    def rows(self) -> list[Row]:
        """A row for each page of the console that is worth watching."""
        read, trouble, custom = self._read, self._trouble, self._custom
        if read is None:
            return []
        fresh, swept = read.freshness, read.progress
        done = swept.percent or 0.0
        return [
            Row(
                "Rolling",
                f"{PRODUCTS:,} products, {fresh.actual_rate:.0f} visited a second",
                trouble.outage.text("the inventory fails", "the breaker of stock_level opens"),
            ),
            Row(
                "Sweeps",
                f"{done:.1f} % of {ARTICLES:,} articles in round {swept.round}, {swept.rate:.0f}/s",
                "each strip is a range with its breakpoint",
            ),
            Row(
                "Ledger",
                f"{custom.placed:,} orders took stock, {custom.refused:,} found none",
                "one transaction: the stock and the task",
            ),
            Row(
                "Flows",
                f"{read.running:,} running, {read.ended:,} succeeded",
                f"{custom.cancelled:,} orders cancelled; a catalogue is printed",
            ),
            Row("Control", read.imports, "a failed import continues at its step"),
            Row(
                "Ring",
                f"{read.members} worker{'s' if read.members != 1 else ''}",
                trouble.death.text("worker 2 dies", "worker 2 is dead; worker 1 takes over"),
            ),
            Row(
                "Switches",
                "mails wait" if trouble.closing.next_at is None else "mails are sent",
                trouble.closing.text("send_mail closes", "send_mail is off; nothing is lost"),
            ),
        ]


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


def _flows(connection: Connection) -> dict[int, int]:
    counted = (
        select(task.c.status, func.count())
        .where(task.c.flow_id.is_not(None), task.c.kind.in_(FLOWS))
        .group_by(task.c.status)
    )
    return {int(status): int(count) for status, count in connection.execute(counted)}


def _imports() -> str:
    """The latest import and its step."""
    runs = control.listing(shop.app.fleet, name="import-prices", limit=10)
    begun = [(run.start_time, run) for run in runs if run.start_time is not None]
    if not begun:
        return "no import yet"
    last = max(begun, key=lambda each: each[0])[1]
    state = last.status.name.lower()
    return f"{last.partition}: {state}{'' if last.step is None else f', step {last.step}'}"
