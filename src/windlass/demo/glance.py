"""The numbers of the shop, read every second."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from windlass.control import operate as control
from windlass.database.schema import task
from windlass.demo import shop
from windlass.demo.custom import Custom
from windlass.demo.goods import ARTICLES, PRODUCTS
from windlass.demo.routine import Routine
from windlass.demo.trouble import Trouble
from windlass.operate.ring import operate as ring_operate
from windlass.rolling.model import Freshness
from windlass.sweep.model import Progress
from windlass.value.status import Status

FLOWS = (shop.cancel_order.kind, shop.print_catalogue.kind)


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

    def __init__(self, custom: Custom, trouble: Trouble) -> None:
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
                "mails wait" if trouble.closing.at is None else "mails are sent",
                trouble.closing.text("send_mail closes", "send_mail is off; nothing is lost"),
            ),
        ]


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
