"""A worker in a walk, whose loops tick one at a time."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.simulation.stage import Stage
from windlass.app import FACES
from windlass.core.fetch.claim import Only
from windlass.core.ring.ring import Mark
from windlass.core.run.ready import Run, State
from windlass.core.shard.shard import Shard
from windlass.database.database import Numbers
from windlass.worker.worker import Worker, WorkerSettings


class Actor:
    """A worker, as a process of its own."""

    def __init__(self, stage: Stage, slot: int, kinds: list[str], only: Only | None = None) -> None:
        app = stage.app
        database, numbers = app.database, Numbers(app.database)
        # Nobody else rings, and nobody else has its numbers.
        shard = Shard(1, database, stage.clock, faces=FACES, max_payload=app.settings.max_payload)
        shard.numbers = numbers
        settings = WorkerSettings(
            concurrency=stage.concurrency,
            lease=app.settings.lease,
            dead_after=app.settings.dead_after,
        )
        self.slot = slot
        self.worker = Worker(
            shard,
            app.registry,
            app.registry.chosen(kinds),
            settings,
            only=only,
        )
        self.is_visitor = only is not None
        self.serves_all = len(kinds) == len(app.registry.kinds)
        self.heartbeat, self.ring = self.worker.heartbeat, self.worker.ring
        self.in_flight, self.finish = self.worker.in_flight, self.worker.finish
        self.in_flight._on_queued = lambda _is_async: None
        # In an order that is the same in every process.
        self.ring._kinds = dict.fromkeys(kinds)
        self.mark = Mark(self.worker._site, self.in_flight, lease=settings.lease)
        self.runs: list[Run] = []
        self.busy: set[str] = set()
        self.is_here = True
        self.is_paused = False

    @property
    def is_writing(self) -> bool:
        """Whether one of its threads writes outcomes or marks."""
        return bool(self.in_flight.writing._is_owned())

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
