"""Workers of one ring, each moved by hand, a tick of one of its loops at a time."""

from typing import Any

from tests.core.ring.silent import mark_dead
from windlass import App
from windlass.app import FACES
from windlass.clock import SECOND, ManualClock
from windlass.core.fetch.claim import Only
from windlass.core.ring.ring import ASK_AGAIN_AFTER, GIVE_UP_AFTER, LONG_SECONDS, Mark
from windlass.core.run.ready import Run, State
from windlass.value.outcome import Outcome, Succeeded

DEAD_AFTER = 5 * SECOND
LEASE = 30 * SECOND


class Mate:
    """A worker as in a process of its own. It has joined; nothing else moves by itself."""

    def __init__(self, app: App, *, only: Only | None = None, **settings: Any) -> None:
        self.app = app
        self.clock = app.clock
        if only is None:
            self.worker = app.worker(**settings)
            self.worker.switchboard.obey()
        else:
            (kind,) = app.registry.kinds.values()
            assert app.fleet.single is not None
            self.worker = app._worker_for(app.fleet.single, kind, only)
        self.heartbeat, self.ring, self.in_flight = (
            self.worker.heartbeat,
            self.worker.ring,
            self.worker.in_flight,
        )
        self.runs: list[Run] = []
        self._mark = Mark(self.worker._site, self.in_flight, lease=app.settings.lease)
        self.heartbeat.join_ring()

    @property
    def id(self) -> int:
        return self.heartbeat.id

    @property
    def buckets(self) -> set[int]:
        """What it may read now."""
        return {number for run in self.ring.share.runs for number in run}

    def beat(self) -> None:
        self.heartbeat.tick()

    def fetcher(self) -> None:
        """Take and give up buckets, and take rows."""
        self.worker.fetcher.tick()

    def start(self) -> Run | None:
        """Let the next handler begin."""
        run = self.in_flight.advance(None, None, is_async=True)
        if run is not None:
            self.runs.append(run)
        return run

    def start_all(self) -> list[Run]:
        return list(iter(self.start, None))

    def take(self) -> list[Run]:
        """Look for rows until there are none, and let their handlers begin."""
        self.fetcher()
        began = self.start_all()
        while self.in_flight.capacity.room().kinds and (more := self._take_more()):
            began += more
        return began

    def _take_more(self) -> list[Run]:
        self.fetcher()
        return self.start_all()

    def end(self, run: Run, outcome: Outcome | None = None) -> bool:
        return self.in_flight.end(run, outcome or Succeeded())

    def flush(self) -> None:
        self.worker.finish.flush()

    def finish(self, run: Run, outcome: Outcome | None = None) -> bool:
        """Let a handler end, and write its outcome; whether it was accepted."""
        if not self.end(run, outcome):
            return False
        before = self.worker.finish.done
        self.flush()
        return self.worker.finish.done > before

    def mark(self) -> None:
        """Write down the claims of what runs long."""
        self._mark.tick()

    def run_long(self) -> None:
        """Let what runs go on until its claims are written down."""
        self.clock.advance(int(LONG_SECONDS * SECOND) + 1)
        self.mark()

    def offer(self) -> None:
        """Offer to others what there is no time for."""
        self.worker.fetcher._claims.help()

    def leave(self) -> None:
        """Go in good order, whatever still runs."""
        self.in_flight.drop_queued()
        self.in_flight.drop(list(self.in_flight.running))
        while self.in_flight.ended.waiting:
            self.flush()
        self.heartbeat.leave("stopped")

    @property
    def running(self) -> list[int]:
        """The rows whose handlers run here now."""
        return [run.task.id for run in self.runs if run.state is State.RUNNING]

    def be_marked_dead(self) -> int | None:
        now = self.clock.now()
        return mark_dead(self.app.database, FACES, number=self.id, now=now, why="silent")


def settle(*mates: Mate) -> None:
    """Let them agree on who owns what; takes about a second of their time."""
    for _ in range(4):
        for mate in mates:
            mate.beat()
            mate.worker.fetcher._claims.tend()
        pass_by(mates[0].clock, max(GIVE_UP_AFTER, ASK_AGAIN_AFTER) + 0.01)
    assert all(mate.ring.is_settled for mate in mates)


def pass_by(clock: ManualClock, seconds: float) -> None:
    clock.advance(int(seconds * SECOND))


def die(dead: Mate, *survivors: Mate) -> None:
    """Let a mate be silent for so long that the others mark it dead."""
    for _ in range(12):
        pass_by(dead.clock, 1.0)
        for mate in survivors:
            mate.beat()
    if not survivors:
        assert dead.be_marked_dead() is not None
