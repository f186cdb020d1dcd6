"""Cuts an open range in two while its owner runs it: for an operator, or for an idle worker.

The source says where the middle of the remaining rows is, and whether the owner has passed it. The
cut is written only if the range is as it was seen; otherwise it is read again.
"""

from __future__ import annotations

import random

from windlass import telemetry
from windlass.database.database import Database
from windlass.database.number import Numbers
from windlass.source.contract import SweepSource, name_of
from windlass.source.key_text import decoded, encode_key
from windlass.sweep.engine.tools import Tools
from windlass.sweep.model import Range, next_to_split
from windlass.sweep.store import range as ranges

TRIES = 20
# A range that will end by itself within this time is not worth a cut.
NOT_WORTH_SECONDS = 2.0


def cut(database: Database, source: SweepSource, seen: Range, *, numbers: Numbers) -> bool:
    """Make two ranges of one, in the middle of the rows that are not reserved.

    False if there are fewer than two such rows, or if the owner was faster.
    """
    key = source.middle(decoded(seen.floor), decoded(seen.end))
    if key is None:
        return False
    middle = encode_key(key, what=name_of(source))
    number = numbers.take()[0]
    floor = seen.floor
    for _ in range(TRIES):
        found = database.read(lambda connection: ranges.get(connection, seen.id))
        if found is None or not found.is_open or found.end != seen.end:
            return False
        if found.floor not in (floor, middle):
            # The owner has moved on. It is still before the middle if rows lie between.
            if not source.read(decoded(found.floor), key, 1):
                return False
            floor = found.floor
        if _write(database, found, middle=middle, number=number):
            return True
    return False


def cut_longest(tools: Tools, name: str, source: SweepSource) -> bool:
    """Cut the range that will take longest, so that an idle worker can have half of it."""
    found = tools.database.read(lambda connection: ranges.listing(connection, name))
    now = tools.clock.now()
    worth = [
        each
        for each in found
        if each.batch is not None and not each.is_careful
        if not each.is_counted or each.left > each.speed(now) * NOT_WORTH_SECONDS
    ]
    # Of ranges whose number of rows is unknown, any may be the longest.
    uncounted = [each for each in worth if not each.is_counted]
    longest = random.choice(uncounted) if uncounted else next_to_split(worth)
    if longest is None or not cut(tools.database, source, longest, numbers=tools.numbers):
        return False
    telemetry.emit("range.stolen", sweep=name, range=longest.id)
    return True


def _write(database: Database, seen: Range, *, middle: str, number: int) -> bool:
    return database.write(
        lambda connection: ranges.split(connection, seen, middle=middle, number=number)
    )
