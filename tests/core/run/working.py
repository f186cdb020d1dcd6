"""Workers of this process, each on a thread with an event loop of its own, and what they tell."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import select, text

from tests.wait import eventually
from windlass import App, telemetry
from windlass.database.schema import switch
from windlass.telemetry import Event
from windlass.worker.worker import Worker


@contextmanager
def working(app: App, **settings: Any) -> Iterator[Worker]:
    """A worker that runs until the block ends; what ends it otherwise is raised there."""
    worker = app.worker(**settings)
    problems: list[BaseException] = []

    def work() -> None:
        try:
            asyncio.run(worker.run())
        except BaseException as problem:  # noqa: BLE001
            problems.append(problem)

    thread = threading.Thread(target=work, name="shift")
    thread.start()
    try:
        eventually(
            lambda: problems or worker.in_flight.owner is not None, what="a worker that joined"
        )
        yield worker
    finally:
        worker.stop()
        thread.join(30)
    assert not thread.is_alive()
    for problem in problems:
        raise problem


@contextmanager
def listening(*names: str) -> Iterator[list[Event]]:
    """The events of these names, while the block lasts."""
    heard: list[Event] = []

    def listen(event: Event) -> None:
        if event.name in names:
            heard.append(event)

    unsubscribe = telemetry.subscribe(listen)
    try:
        yield heard
    finally:
        unsubscribe()


def sql(app: App, statement: str, **values: object) -> None:
    """Somebody writes into the database without Windlass."""
    app.prepare()
    with app.database.engine.begin() as connection:
        connection.execute(text(statement), values)


def switch_of(app: App, kind: str) -> dict[str, Any] | None:
    """The switch row of a kind, if there is one."""
    query = select(switch).where(switch.c.kind == kind)
    found = app.database.read(lambda connection: connection.execute(query).mappings().first())
    return None if found is None else dict(found)
