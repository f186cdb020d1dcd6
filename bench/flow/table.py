"""What the flows took, for people and for programs."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from bench.flow.measure import LIMIT_SECONDS, FlowRecord
from bench.flow.system import REFERENCE

RATIO = """x: times the seconds of Windlass with one worker on PostgreSQL; more is slower.
Seconds are from the call that starts a run until all is done, in a system that is warm."""


def show(records: Sequence[FlowRecord], console: Console) -> None:
    if not records:
        return
    shapes = list(dict.fromkeys(record.shape for record in records))
    table = Table(title="Flows of no-op nodes, seconds", title_justify="left")
    table.add_column("store", no_wrap=True)
    table.add_column("system", no_wrap=True)
    for shape in shapes:
        table.add_column(shape, justify="right", no_wrap=True)
        table.add_column("x", justify="right", no_wrap=True)
    for name in dict.fromkeys(record.system.name for record in records):
        own = [record for record in records if record.system.name == name]
        system = own[0].system
        cells = [cell for record in own for cell in _cells(record, records)]
        table.add_row(
            system.keeps, system.title, *cells, style="bold green" if system.is_own else ""
        )
        for title in dict.fromkeys(title for record in own for title in record.more):
            table.add_row("", f"... {title}", *_more_cells(own, title), style="dim")
    console.print(table)
    console.print(RATIO, style="dim")
    for record in records:
        if record.failure:
            where = f"{record.system.name} {record.shape}"
            console.print(f"{where}: {record.failure}", style="red", markup=False)


def plain(record: FlowRecord) -> dict[str, object]:
    """Every single run, so that others can judge or repeat it."""
    return {
        "name": record.system.name,
        "title": record.system.title,
        "store": record.system.keeps,
        "settings": record.system.settings,
        "shape": record.shape,
        "median_seconds": record.median,
        "seconds": record.seconds,
        "more_seconds": {
            title: [None if math.isinf(each) else each for each in seconds]
            for title, seconds in record.more.items()
        },
        "is_cut_off": record.is_cut_off,
        "is_tried": record.is_tried,
        "failure": record.failure,
    }


def _cells(record: FlowRecord, records: Sequence[FlowRecord]) -> list[str]:
    if not record.is_tried:
        return ["not tried", ""]
    if record.is_cut_off:
        base = reference(record.shape, records)
        return [f"> {LIMIT_SECONDS:.0f}", f"> {LIMIT_SECONDS / base:,.0f}" if base else ""]
    if record.median is None:
        return ["failed", ""]
    base = reference(record.shape, records)
    return [f"{record.median:.2f}", f"{record.median / base:.1f}" if base else ""]


def _more_cells(records: Sequence[FlowRecord], title: str) -> list[str]:
    found = [record.more.get(title) for record in records]
    cells = [_figure(statistics.median(seconds)) if seconds else "" for seconds in found]
    return [cell for figure in cells for cell in (figure, "")]


def _figure(seconds: float) -> str:
    return f"> {LIMIT_SECONDS:.0f}" if math.isinf(seconds) else f"{seconds:.2f}"


def reference(shape: str, records: Sequence[FlowRecord]) -> float | None:
    """The seconds that this shape is compared with."""
    found = (record for record in records if record.shape == shape)
    return next((record.median for record in found if record.system.name == REFERENCE), None)
