"""A worker that is moved by hand, and whose rows of a lane follow each other in chains."""

from windlass import App
from windlass.core.run.ready import Run
from windlass.value.outcome import SUCCESS, Outcome


class Stepper:
    """A worker whose loops tick when it is told to, and whose runs end when they are told to.

    Its kinds count as quick, so that the rows behind the first one of a lane are read with it.
    """

    def __init__(self, app: App, *, concurrency: int = 64) -> None:
        self.worker = app.worker(concurrency=concurrency)
        self.in_flight = self.worker.in_flight
        self.in_flight._on_queued = lambda _is_async: None
        self.worker.switchboard.obey()
        self.worker.heartbeat.join_ring()

    def fetch(self) -> None:
        """Settle the buckets, and read what could start."""
        for load in self.in_flight.loads.values():
            load.seconds_of_a_run, load.per_second = 0.001, 2_000.0
        self.worker.fetcher.tick()

    def look(self) -> None:
        """Fetch, also what was enqueued a moment ago."""
        self.worker.fetcher.look_now()
        self.fetch()

    def start(self) -> Run | None:
        return self.in_flight.advance(None, None, is_async=False)

    def start_all(self) -> list[Run]:
        started = []
        while (run := self.start()) is not None:
            started.append(run)
        return started

    def end(self, run: Run | None, outcome: Outcome = SUCCESS) -> None:
        assert run is not None
        assert self.in_flight.end(run, outcome)

    def write(self) -> None:
        """Write the outcomes of what has ended."""
        self.worker.finish.flush()

    def run_chain(self) -> list[int]:
        """Start and end row after row, until none follows; nothing is read or written."""
        ran = []
        while (run := self.start()) is not None:
            assert self.start() is None, "two rows of the lane run at once"
            ran.append(run.number)
            self.end(run)
        return ran

    def run_all(self) -> list[int]:
        """Read, run and write until nothing is left to start."""
        ran: list[int] = []
        while True:
            self.look()
            chain = self.run_chain()
            self.write()
            if not chain:
                return ran
            ran += chain

    def obey(self) -> None:
        """Hear which kinds are paused."""
        self.worker.switchboard.obey()

    def beat(self) -> None:
        """Send a heartbeat, and hear who else is there."""
        self.worker.heartbeat.tick()

    def leave(self) -> None:
        self.in_flight.drop_all()
        self.worker.finish.flush_all()
        self.worker.heartbeat.leave("the test is over")
