"""The command `windlass consumer`."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from windlass.cli.load import AppArgument, end_quietly, load_app
from windlass.cli.process import (
    GraceOption,
    HealthOption,
    LogOption,
    MetricsOption,
    MetricsTokenOption,
    ProcessesOption,
    Served,
    begin_logs,
    leave,
    run_until_signal,
    supervise,
)
from windlass.cli.supervise import Supervisor
from windlass.errors import BadInput
from windlass.fork import CHILD

QueueArgument = Annotated[
    str, typer.Argument(metavar="QUEUE", help="The name of the queue, as in via=Queue(url, name).")
]
ConcurrencyOption = Annotated[
    int, typer.Option("--concurrency", min=1, max=10_000, help="Tasks at a time in each process.")
]


def consumer(
    app: AppArgument,
    queue: QueueArgument,
    concurrency: ConcurrencyOption = 10,
    processes: ProcessesOption = 1,
    grace: GraceOption = None,
    health: HealthOption = None,
    metrics: MetricsOption = None,
    metrics_token: MetricsTokenOption = None,
    as_json: LogOption = False,
) -> None:
    """Run the tasks that workers carry by a queue, without a database, until SIGTERM."""
    end_quietly()
    loaded = load_app(app)
    from windlass.queue.operate.carrier import make_consumer

    console = begin_logs(as_json=as_json)
    served = Served(health, metrics, metrics_token or None)
    measured = served.measure(loaded)
    made = make_consumer(
        loaded.registry, queue, concurrency=concurrency, grace="30s" if grace is None else grace
    )
    if made.queue.scheme == "memory":
        raise BadInput(f"{made.queue!r} is in the memory of one process; use RabbitMQ or Redis")
    if processes > 1 and CHILD not in os.environ:
        supervisor = Supervisor(sys.argv[1:], processes=processes)
        served.start(fatal=lambda: None, trouble=supervisor.trouble, samples=supervisor.samples)
        sys.exit(supervise(supervisor, None, console))
    if CHILD not in os.environ:
        served.start(fatal=lambda: made.fatal, trouble=made.trouble, samples=measured)
    samples = None if metrics is None else measured
    leave(run_until_signal(made, loaded, console, samples, due=lambda: "-"))
