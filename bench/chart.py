"""The drains as a bar chart: an SVG that reads well on light and on dark pages."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape
from itertools import groupby
from pathlib import Path

from bench.measure import Record

WIDTH = 800
LABEL_END = 190
BAR_BEGIN = 202
BAR_END = 712
ROW = 26
BAR = 16
HEAD = 84
STORE_HEAD = 34
FOOT = 30

REMARKS = {"redis": ", no disk"}

STYLE = """
  text { font: 13px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; fill: #1f2733 }
  .title { font-size: 18px; font-weight: 650 }
  .note, .tick { fill: #667085; font-size: 12px }
  .tick { text-anchor: middle }
  .store { font-weight: 650; font-size: 12px; fill: #475467 }
  .label { text-anchor: end }
  .figure { font-variant-numeric: tabular-nums; fill: #475467 }
  .own .label, .own .figure { font-weight: 650; fill: #0b7a5e }
  .limit .label, .limit .figure { fill: #8a94a6 }
  .grid { stroke: #e4e7ec }
  .bar { fill: #98a8c4 }
  .own .bar { fill: #12a67f }
  .limit .bar { fill: #98a2b3; fill-opacity: .16; stroke: #98a2b3; stroke-dasharray: 3 3 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6eaf0 }
    .note, .tick { fill: #98a2b3 }
    .store, .figure { fill: #b4bdcb }
    .own .label, .own .figure { fill: #3fd6ab }
    .limit .label, .limit .figure { fill: #8a94a6 }
    .grid { stroke: #2b3442 }
    .bar { fill: #5b6b88 }
    .own .bar { fill: #1fb58d }
  }
"""


def save(records: Sequence[Record], path: Path, *, note: str, versions: dict[str, str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(draw(records, note=note, versions=versions))


def draw(records: Sequence[Record], *, note: str, versions: dict[str, str]) -> str:
    """The chart of all systems that have a drain; `note` says under what conditions."""
    shown = [record for record in records if record.rates("drain") and not _is_side_figure(record)]
    top = _round_up(max((_drain(record) for record in shown), default=1.0))
    groups = _groups(shown)
    height = HEAD + sum(STORE_HEAD + ROW * len(group) for _, group in groups) + FOOT
    size = f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    about = 'role="img" aria-labelledby="title note"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {about}>',
        f"<style>{STYLE}</style>",
        '<text id="title" class="title" x="20" y="34">No-op tasks run per second</text>',
        f'<text id="note" class="note" x="20" y="56">{escape(note)}</text>',
        *_grid(top, height),
        *_rows(groups, top, versions),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _is_side_figure(record: Record) -> bool:
    return record.system.is_raw and record.system.name.endswith("-update")


def _groups(records: Sequence[Record]) -> list[tuple[str, list[Record]]]:
    """Stores in the table's order; in each the fastest first."""
    by_store = groupby(records, key=lambda record: record.system.store)
    return [(store, sorted(group, key=_drain, reverse=True)) for store, group in by_store]


def _grid(top: float, height: int) -> Iterator[str]:
    for part in range(5):
        x = BAR_BEGIN + (BAR_END - BAR_BEGIN) * part / 4
        y = HEAD - 8
        yield f'<line class="grid" x1="{x:.1f}" y1="{y}" x2="{x:.1f}" y2="{height - FOOT}"/>'
        yield f'<text class="tick" x="{x:.1f}" y="{height - 10}">{top * part / 4:,.0f}</text>'


def _rows(
    groups: Sequence[tuple[str, list[Record]]], top: float, versions: dict[str, str]
) -> Iterator[str]:
    y = HEAD
    for store, group in groups:
        title = escape(versions[store] + REMARKS.get(store, ""))
        yield f'<text class="store" x="20" y="{y + 18}">{title}</text>'
        y += STORE_HEAD
        for record in group:
            yield _bar(record, y, top)
            y += ROW


def _bar(record: Record, y: int, top: float) -> str:
    drain = _drain(record)
    length = max((BAR_END - BAR_BEGIN) * drain / top, 1.5)
    kind = "own" if record.system.is_own else "limit" if record.system.is_raw else "peer"
    middle = y + BAR / 2 + 4.5
    return (
        f'<g class="{kind}">'
        f'<text class="label" x="{LABEL_END}" y="{middle}">{escape(record.system.title)}</text>'
        f'<rect class="bar" x="{BAR_BEGIN}" y="{y}" width="{length:.1f}" height="{BAR}" rx="3"/>'
        f'<text class="figure" x="{BAR_BEGIN + length + 8:.1f}" y="{middle}">{drain:,.0f}</text>'
        "</g>"
    )


def _drain(record: Record) -> float:
    return record.median("drain") or 0.0


def _round_up(value: float) -> float:
    """The next number that divides well by four: 1, 2, 4, 6 or 8 times a power of ten."""
    power = 10 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 4, 6, 8, 10) if step * power >= value)
