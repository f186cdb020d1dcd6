"""An app whose watcher looks by hand, on a manual clock."""

from contextlib import closing, contextmanager
from typing import Any

from windlass import App
from windlass.clock import SECOND, ManualClock
from windlass.core.face import Site
from windlass.watch.engine.deliver import DELIVER
from windlass.watch.engine.watcher import TURN, Watcher, watcher_at

MINUTE = 60 * SECOND
HOUR = 60 * MINUTE


class Lookout:
    """Looks, and tells which alerts are open."""

    def __init__(self, app: App, clock: ManualClock) -> None:
        self.app = app
        self.clock = clock

    def watcher(self) -> Watcher:
        (shard,) = self.app.fleet.shards
        return watcher_at(Site.at(shard, self.app.registry), self.app.own_kinds[DELIVER])

    def look(self, *, after: int = TURN) -> bool:
        """Look once; `after` is how much later that is."""
        self.app.prepare()
        self.clock.advance(after)
        return self.app.database.write(self.watcher().look)

    def open(self, *what: str) -> list[tuple[str, str | None]]:
        found = [(each.what, each.kind) for each in self.app.alerts() if each.is_open]
        return sorted(each for each in found if not what or each[0] in what)

    def one(self, what: str):
        (found,) = (each for each in self.app.alerts() if each.what == what)
        return found


@contextmanager
def looking_out(url: str, **options: Any):
    clock = ManualClock()
    with closing(App(url, clock=clock, **options)) as app:
        yield Lookout(app, clock)
