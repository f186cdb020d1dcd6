"""A worker that is alive by its row only, so that a test decides what is run and when."""

from windlass import App
from windlass.clock import ManualClock
from windlass.core.finish.store import MINUTE
from windlass.core.ring import store as ring_store
from windlass.core.ring.store import Kinds
from windlass.database.schema import stat

LONG = 365 * 24 * 60 * MINUTE


def serve(app: App, clock: ManualClock, *, number: int = 1) -> None:
    """Let a worker serve all kinds of the app, for a year."""
    app.prepare()
    now, names = clock.now(), list(app.registry.kinds)
    app.database.write(
        lambda connection: ring_store.join(
            connection,
            number=number,
            host="box",
            pid=number,
            kinds=Kinds(serves=names, declares=names),
            now=now - 60 * MINUTE,
            lease_until=now + LONG,
        )
    )


def worked(app: App, clock: ManualClock, kind: str, *, a_minute: int, milliseconds: int) -> None:
    """Write the statistics of a kind that ran so often in each of the last 10 minutes."""
    last = clock.now() // MINUTE
    rows = [
        {
            "minute": last - back,
            "kind": kind,
            "worker": 1,
            "done": a_minute,
            "failed": 0,
            "retried": 0,
            "milliseconds": a_minute * milliseconds,
        }
        for back in range(11)
    ]
    app.database.write(lambda connection: connection.execute(stat.insert(), rows))
