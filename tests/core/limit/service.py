"""A service that is down, a kind that calls it, and what its breaker says."""

from typing import Any

from tests.core.run.working import switch_of
from tests.table import tasks
from windlass import App, Status, Task
from windlass.core.run.ready import Run
from windlass.value.breaker import BreakerState
from windlass.value.outcome import Outcome
from windlass.worker.worker import Worker


class Service:
    """The other side, which is down until it is mended."""

    def __init__(self) -> None:
        self.is_down = True
        self.calls = 0

    def call(self) -> None:
        self.calls += 1
        if self.is_down:
            raise ConnectionError("the service is down")


def declare(app: App, service: Service, **options: Any) -> Task:
    """A kind `work` that calls the service, with a breaker."""
    settings = {"breaker": "3 in a row, 1m", "keep_failed": "1d", **options}

    @app.task(name="work", **settings)
    def work() -> None:
        service.call()

    return work


def fail(app: App, work: Task, times: int = 3) -> None:
    """Let that many tasks run, one after the other."""
    for _ in range(times):
        work.enqueue()
        app.drain()


def state(app: App, kind: str = "work") -> BreakerState:
    row = switch_of(app, kind)
    return BreakerState.CLOSED if row is None else BreakerState(row["breaker"])


def waiting(app: App) -> int:
    """How many tasks of the kind wait."""
    return len(tasks(app, kind="work", status=Status.WAITING))


def alerts(app: App) -> list[tuple[str, str | None]]:
    """What alerts there are and of which kind, oldest first."""
    return [(alert.what, alert.kind) for alert in reversed(app.alerts())]


def begin(app: App) -> Worker:
    """A worker that has joined and knows the switches, to be moved by hand."""
    worker = app.worker()
    worker.switchboard.obey()
    worker.heartbeat.join_ring()
    return worker


def end_next(worker: Worker, outcome: Outcome) -> Run:
    """Run the next async task of a worker that is moved by hand."""
    run = worker.in_flight.advance(None, None, is_async=True)
    assert run is not None
    worker.in_flight.end(run, outcome)
    return run
