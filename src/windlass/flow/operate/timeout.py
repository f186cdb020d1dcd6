"""The kind of task that ends a flow run after its timeout; every worker runs it.

The start of a run writes this task in its own transaction, due at the end of the timeout. A retry
of a run that has ended gives it the whole timeout again, by another task: a task that is due before
the timeout of the present try is over does nothing.
"""

from __future__ import annotations

from windlass.clock import SECOND
from windlass.core.task.kind import Kind, make_kind
from windlass.core.task.option import Options
from windlass.errors import UnknownFlow
from windlass.flow.model.node import TIMEOUT
from windlass.flow.operate.run import FlowRun, RunFinder
from windlass.value.duration import format_duration

# The clocks of the worker that started a run and of this one may differ by this much.
SKEW = SECOND


def timeout_kind(finder: RunFinder) -> Kind:
    """The kind of the tasks that end flow runs, in whichever shard these are."""

    def end(run: int) -> None:
        try:
            shard, found = finder.find(run)
        except UnknownFlow:
            return  # It has ended, and was pruned.
        head = found.head
        if found.status.is_final or head is None or head.timeout is None:
            return
        ends_at = found.begun_at(head) + head.timeout
        if shard.clock.now() >= ends_at - SKEW:
            FlowRun(finder, run).time_out(f"timed out after {format_duration(head.timeout)}")

    # It is tried until it succeeds.
    return make_kind(end, Options(name=TIMEOUT, priority=1, retries=1_000, backoff="10s"))
