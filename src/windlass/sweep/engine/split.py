"""Cutting an open range in two, also while its owner goes on: by an operator, or by an idle worker.

The source says where the middle of what is left lies, and whether the owner has passed it since.
What was looked at must still be so when the cut is written; if it is not, one looks again.
"""

from __future__ import annotations

from windlass.database.database import Database
from windlass.database.number import Numbers
from windlass.source.contract import SweepSource
from windlass.sweep.engine.reader import name_of
from windlass.sweep.model import Range
from windlass.sweep.store import range as ranges
from windlass.value.key import decoded, encode_key

TRIES = 20


def cut(database: Database, numbers: Numbers, source: SweepSource, seen: Range) -> bool:
    """Make two ranges of one, in the middle of the rows that nobody has reserved.

    False if there are fewer than two such rows, or its owner was quicker.
    """
    key = source.middle(decoded(seen.floor), decoded(seen.end))
    if key is None:
        return False
    middle = encode_key(key, what=name_of(source))
    number = numbers.take()[0]
    floor = seen.floor
    for _ in range(TRIES):
        found = database.read(lambda connection: ranges.look(connection, seen.id))
        if found is None or not found.is_open or found.end != seen.end:
            return False
        if found.floor not in (floor, middle):
            # The owner has gone on. If there are rows from there to the middle, it is before it.
            if not source.read(decoded(found.floor), key, 1):
                return False
            floor = found.floor
        if _write(database, found, middle, number):
            return True
    return False


def _write(database: Database, seen: Range, middle: str, number: int) -> bool:
    return database.write(
        lambda connection: ranges.split(connection, seen, middle=middle, number=number)
    )
