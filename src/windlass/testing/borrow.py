"""An app that was declared for real databases, on other ones for the length of a test."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta

from windlass.app import App
from windlass.clock import Clock


@contextmanager
def borrowed(app: App, databases: Sequence[str], clock: Clock | None) -> Iterator[App]:
    """`app` on these databases and by this clock; afterwards it is as it was.

    Meanwhile the databases say which workers are alive: a test needs neither etcd nor ZooKeeper.
    The app forgets what it remembered of runs and templates.
    """
    settings, database, own_clock = app.settings, app.database, app.clock
    lent = App(
        *databases,
        clock=clock,
        lease=timedelta(microseconds=settings.lease),
        dead_after=timedelta(microseconds=settings.dead_after),
        max_payload=settings.max_payload,
    ).fleet.shards
    own = app.fleet.exchange(lent)
    app.settings = replace(settings, members=None)
    app.database, app.clock = lent[0].database, lent[0].clock
    _forget(app)
    try:
        yield app
    finally:
        app.close()
        app.fleet.exchange(own)
        app.settings, app.database, app.clock = settings, database, own_clock
        _forget(app)


def _forget(app: App) -> None:
    app.control.forget()
    app.registry.templates.clear()
