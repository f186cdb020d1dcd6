"""Cuts open ranges in two while their owners run them: for an operator, or for an idle worker.

The source says where the middle of the remaining rows is, and whether the owner has passed it. The
cut is written only if the range is as it was seen; otherwise it is read again.
"""

from __future__ import annotations

import random
from functools import partial

from windlass import telemetry
from windlass.core.face import Site
from windlass.core.shard.shard import Shard
from windlass.core.task.kind import Kind
from windlass.source.contract import SweepSource, decoded, encode_key, name_of
from windlass.sweep.model import (
    Range,
    name_of_rows,
    next_to_merge,
    next_to_split,
    terms_of,
)
from windlass.sweep.store import range as ranges

TRIES = 20
# A range that will end by itself within this time is not worth a cut.
NOT_WORTH_SECONDS = 2.0


def split_into(shard: Shard, kind: Kind, count: int) -> int:
    """Cut or merge ranges until there are `count`, or nothing more can be done; how many then."""
    refused: set[int] = set()
    while True:
        found = shard.database.read(
            lambda connection: ranges.listing(connection, name_of_rows(kind))
        )
        if len(found) > count:
            has_changed = _merge_smallest(shard, found, refused)
        else:
            has_changed = len(found) < count and _cut_largest(shard, kind, found, refused)
        if not has_changed:
            return len(found)


def _cut_largest(shard: Shard, kind: Kind, found: list[Range], refused: set[int]) -> bool:
    """Cut the largest range, or refuse it if that fails; False if none is left to cut."""
    largest = next_to_split(found, refused=refused)
    if largest is not None and not cut(shard, terms_of(kind).source, largest):
        refused.add(largest.id)
    return largest is not None


def _merge_smallest(shard: Shard, found: list[Range], refused: set[int]) -> bool:
    """Merge the smallest neighbours, or refuse them if that fails; False if there are none."""
    pair = next_to_merge(found, refused=refused)
    if pair is None:
        return False
    if not shard.database.write(lambda connection: ranges.merge(connection, *pair)):
        refused.add(pair[0].id)
    return True


def cut(site: Site | Shard, source: SweepSource, seen: Range) -> bool:
    """Make two ranges of one, in the middle of the rows that are not reserved.

    False if there are fewer than two such rows, or if the owner was faster.
    """
    key = source.middle(decoded(seen.floor), decoded(seen.end))
    if key is None:
        return False
    middle = encode_key(key, what=name_of(source))
    number = site.numbers.take()[0]
    floor = seen.floor
    for _ in range(TRIES):
        found = site.database.read(lambda connection: ranges.get(connection, seen.id))
        if found is None or not found.is_open or found.end != seen.end:
            return False
        if found.floor not in (floor, middle):
            # The owner has moved on. It is still before the middle if rows lie between.
            if not source.read(decoded(found.floor), key, 1):
                return False
            floor = found.floor
        if site.database.write(partial(ranges.split, seen=found, middle=middle, number=number)):
            return True
    return False


def cut_longest(site: Site, name: str, source: SweepSource) -> bool:
    """Cut the range that will take longest, so that an idle worker can have half of it."""
    found = site.database.read(lambda connection: ranges.listing(connection, name))
    now = site.clock.now()
    worth = [
        each
        for each in found
        if each.batch is not None and not each.is_careful
        if not each.is_counted or each.left > each.speed(now) * NOT_WORTH_SECONDS
    ]
    # Of ranges whose number of rows is unknown, any may be the longest.
    uncounted = [each for each in worth if not each.is_counted]
    longest = random.choice(uncounted) if uncounted else next_to_split(worth)
    if longest is None or not cut(site, source, longest):
        return False
    telemetry.emit("range.stolen", sweep=name, range=longest.id)
    return True
