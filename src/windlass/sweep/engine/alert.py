"""Alerts about sweeps: sources that cannot be read, failed items, stragglers."""

from __future__ import annotations

from windlass import telemetry
from windlass.core.alert.store import write_alert
from windlass.database.connection import Connection
from windlass.database.database import first_line
from windlass.database.number import Numbers
from windlass.sweep.engine.tools import Tools
from windlass.sweep.model import Range, RoundView
from windlass.sweep.store import sweep as store


def alert_of_trouble(tools: Tools, name: str, problem: BaseException) -> None:
    """Write into the row of a sweep why it cannot continue; alert people if that is new."""
    text = first_line(problem)

    def work(connection: Connection) -> bool:
        if not store.note_error(connection, name, text):
            return False
        number = tools.numbers.take(inside=connection)[0]
        words = f"sweep {name!r} cannot read its source: {text}"
        now = tools.clock.now()
        write_alert(connection, number, what="source", kind=name, text=words, now=now)
        return True

    if tools.database.write(work):
        telemetry.emit("sweep.failed", sweep=name, error=text)


def alert_of_failed_items(
    connection: Connection, numbers: Numbers, name: str, *, over: RoundView, now: int
) -> None:
    """Alert people of the failed items of a round, in the transaction that ends the round."""
    if over.failed:
        text = (
            f"round {over.round} of sweep {name!r} ended with {over.failed} failed items, "
            f"{over.done} were done; see: windlass sweep failures {name}"
        )
        number = numbers.take(inside=connection)[0]
        write_alert(connection, number, what="failures", kind=name, text=text, now=now)


def alert_of_straggler(tools: Tools, found: Range) -> None:
    """Alert people of a range that will end long after the others."""
    text = (
        f"range {found.id} of sweep {found.sweep!r} will end long after the others; idle workers "
        f"take half of it; see: windlass sweep show {found.sweep}"
    )

    def work(connection: Connection) -> None:
        number = tools.numbers.take(inside=connection)[0]
        now = tools.clock.now()
        write_alert(connection, number, what="straggler", kind=found.sweep, text=text, now=now)

    tools.database.write(work)
    telemetry.emit("range.straggles", sweep=found.sweep, range=found.id)
