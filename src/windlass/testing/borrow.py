"""An app that was declared for real databases, on other ones for the length of a test."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from windlass.app import FACES, App
from windlass.clock import Clock
from windlass.core.shard.fleet import make_fleet


@contextmanager
def borrowed(app: App, databases: Sequence[str], clock: Clock | None) -> Iterator[App]:
    """`app` on these databases and by this clock; afterwards it is as it was.

    Its members are told by the databases meanwhile: a test needs neither etcd nor ZooKeeper. What
    it remembered of runs and templates, it forgets.
    """
    settings, database, own_clock = app.settings, app.database, app.clock
    lent = make_fleet(
        databases,
        clock=clock,
        faces=FACES,
        max_payload=settings.max_payload,
        idle_milliseconds=database.dialect.idle_milliseconds,
    ).shards
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
