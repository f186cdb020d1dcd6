"""Nodes that are about to run get the results that their arguments stand for."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from windlass.core.face import Resolved
from windlass.database.database import Database
from windlass.errors import BadFlow
from windlass.flow.model.node import Blank, Results, filled, is_to_fill, read_blank
from windlass.flow.store import slot
from windlass.value.outcome import Skip
from windlass.value.task import Claimed


def resolve(database: Database, tasks: Sequence[Claimed]) -> Resolved:
    """The tasks with their arguments filled in, by one read for all of them.

    A node whose condition does not hold, or whose arguments cannot be filled in, is refused with
    the error; it does not disturb the others.
    """
    blanks: dict[int, Blank] = {}
    refused: dict[int, Exception] = {}
    for task in tasks:
        if task.flow_id is not None and is_to_fill(task.payload):
            try:
                blanks[task.id] = read_blank(task.payload)
            except Exception as problem:
                refused[task.id] = _unfit(problem)
    if not blanks:
        return Resolved(tasks, refused)
    wanted = {needed for blank in blanks.values() for needed in blank.needs}
    dialect = database.dialect
    found = database.read(lambda connection: slot.results(connection, dialect, wanted))
    results, payloads = Results(found), dict[int, str]()
    for number, blank in blanks.items():
        try:
            payloads[number] = filled(blank, results)
        except Skip as skip:
            refused[number] = skip
        except Exception as problem:
            refused[number] = _unfit(problem)
    resolved = [
        replace(task, payload=payloads[task.id]) if task.id in payloads else task for task in tasks
    ]
    return Resolved(resolved, refused)


def _unfit(problem: Exception) -> BadFlow:
    why = f"{type(problem).__name__}: {problem}"
    return BadFlow(f"its arguments cannot be filled in: {why}")
