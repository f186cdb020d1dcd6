"""Traces of deleted rows: which ids were in the table, for a caller who does not know it.

A trace is one row for many ids: the first, the last, and all of them as offsets from the first,
between commas. Without offsets, every id from the first to the last may have been forgotten.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import groupby

import msgspec

from windlass.clock import SECOND
from windlass.value.shard import place_of

# Far longer than the tries of one call can take.
KEEP_TRACES = 300 * SECOND


class Gone(msgspec.Struct, frozen=True, gc=False):
    """One trace. The ids of different shards are never in one."""

    first_id: int
    last_id: int
    gone_at: int
    ids: str | None


def traces_of(ids: Iterable[int], *, now: int) -> list[Gone]:
    """The traces that rows with these ids leave."""
    traces: list[Gone] = []
    for _, group in groupby(sorted(set(ids)), key=place_of):
        same = list(group)
        first = same[0]
        offsets = ",".join([str(number - first) for number in same])
        traces.append(Gone(first, same[-1], now, f",{offsets},"))
    return traces


def is_any_in(ids: Collection[int], trace: Gone) -> bool:
    """Whether one of `ids` left this trace."""
    if trace.ids is None:
        return False
    offsets = set(trace.ids.split(","))
    return any(str(number - trace.first_id) in offsets for number in ids)


def is_any_forgotten(ids: Collection[int], trace: Gone) -> bool:
    """Whether one of `ids` may have left a trace that is deleted."""
    return trace.ids is None and any(trace.first_id <= each <= trace.last_id for each in ids)
