"""Makes the consumer of a queue from the declarations of an app."""

from __future__ import annotations

from windlass.core.task.kind import Kind, Registry
from windlass.errors import BadInput, Unknown
from windlass.queue.engine.carrier.consumer import TaskConsumer
from windlass.queue.model.queue import Queue
from windlass.value.duration import Duration, parse_duration

DEFAULT_CONCURRENCY = 10


def make_consumer(
    registry: Registry,
    name: str,
    *,
    concurrency: int = DEFAULT_CONCURRENCY,
    grace: Duration = "30s",
) -> TaskConsumer:
    """A consumer of the queue of that name; `await consumer.run()` runs it until `stop`."""
    if isinstance(concurrency, bool) or not isinstance(concurrency, int) or concurrency < 1:
        raise BadInput(f"concurrency={concurrency!r} is not a number from 1 on")
    return TaskConsumer(
        queue_named(registry, name),
        carried_kinds(registry, name),
        registry.hooks,
        meter=registry.meter,
        concurrency=concurrency,
        grace=parse_duration(grace, what="grace", zero=True),
    )


def carried_kinds(registry: Registry, name: str) -> dict[str, Kind]:
    """The kinds that are carried by the queue of that name."""
    kinds = registry.kinds.items()
    return {
        each: kind for each, kind in kinds if isinstance(kind.via, Queue) and kind.via.name == name
    }


def queue_named(registry: Registry, name: str) -> Queue:
    """The queue of that name by which an app carries tasks."""
    queues = {kind.via for kind in registry.kinds.values() if isinstance(kind.via, Queue)}
    found = [queue for queue in queues if queue.name == name]
    if not found:
        known = ", ".join(sorted({queue.name for queue in queues})) or "none"
        raise Unknown(
            f"no kind of this app is carried by a queue {name!r}; declare one with "
            f"via=Queue(url, {name!r}); queues of its kinds: {known}"
        )
    if len(found) > 1:
        where = ", ".join(sorted(queue.address for queue in found))
        raise BadInput(f"several brokers have a queue {name!r} of this app: {where}; rename one")
    return found[0]
