"""A worker in a walk, whose loops tick one at a time."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.simulation.stage import Stage
from windlass.engine.mark import Mark
from windlass.engine.shelf import Run, State
from windlass.engine.wake import Bell
from windlass.engine.worker import Only, Worker, WorkerSettings
from windlass.store.number import Numbers


class Actor:
    """A worker, as a process of its own."""

    def __init__(self, stage: Stage, slot: int, kinds: list[str], only: Only | None = None) -> None:
        app = stage.app
        database, numbers = app.database, Numbers(app.database)
        settings = WorkerSettings(
            concurrency=3, lease=app.settings.lease, dead_after=app.settings.dead_after
        )
        self.slot = slot
        self.worker = Worker(
            database,
            app.registry,
            app.registry.chosen(kinds),
            stage.clock,
            numbers,
            Bell(database),
            settings,
            only=only,
        )
        self.is_visitor = only is not None
        self.serves_all = len(kinds) == len(app.registry.kinds)
        self.life, self.ring = self.worker.life, self.worker.ring
        self.hold, self.finish = self.worker.hold, self.worker.finish
        self.hold.on_queued = lambda _is_async: None
        # In an order that is the same in every process.
        self.ring._kinds = dict.fromkeys(kinds)
        self.mark = Mark(database, self.hold, stage.clock, numbers, lease=settings.lease)
        self.runs: list[Run] = []
        self.busy: set[str] = set()
        self.is_here = True
        self.is_paused = False

    @property
    def is_writing(self) -> bool:
        """Whether one of its threads has the desk."""
        return bool(self.hold.desk._is_owned())

    @property
    def running(self) -> list[Run]:
        self.runs = [run for run in self.runs if run.state is State.RUNNING]
        return self.runs

    @contextmanager
    def at(self, *loops: str) -> Iterator[None]:
        """Let these loops be under way while the block lasts."""
        self.busy.update(loops)
        try:
            yield
        finally:
            self.busy.difference_update(loops)
