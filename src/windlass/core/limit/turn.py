"""A single start at the rate of its kind, for callers that run a row themselves."""

from __future__ import annotations

import time
from collections.abc import Callable

from windlass.clock import SECOND
from windlass.core.limit import store as limit_store
from windlass.database.connection import Connection
from windlass.database.database import Database
from windlass.value.rate import HORIZON

LONGEST_SLEEP = 1.0


def wait_for_turn(
    database: Database,
    kind: str,
    *,
    per_second: float,
    deadline: float,
    meanwhile: Callable[[], None] = lambda: None,
) -> bool:
    """Reserve one start and wait for its moment; False if that is after `deadline`.

    `deadline` is monotonic. `meanwhile` is called from time to time.
    """

    def reserve(connection: Connection) -> limit_store.Measured:
        return limit_store.reserve_starts(
            connection, database.dialect, kind, per_second=per_second, most=1
        )

    while True:
        measured = database.write(reserve)
        reserved = measured.reserved.shifted(measured.monotonic - measured.now)
        # If all moments that can be reserved are taken, ask again when there are more.
        at = reserved.next_at - HORIZON if reserved.grant is None else reserved.grant.begin
        if not _sleep_until(at / SECOND, deadline, meanwhile):
            return False
        if reserved.grant is not None:
            return True


def _sleep_until(moment: float, deadline: float, meanwhile: Callable[[], None]) -> bool:
    """Sleep until a monotonic moment; False if that is after `deadline`."""
    while (left := moment - time.monotonic()) > 0:
        if moment > deadline:
            return False
        time.sleep(min(left, LONGEST_SLEEP))
        meanwhile()
    return True
