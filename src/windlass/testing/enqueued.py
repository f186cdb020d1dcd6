"""The waiting tasks of an app, for tests."""

from __future__ import annotations

from windlass.app import App
from windlass.operate.task import enqueued as operate
from windlass.operate.task.enqueued import Enqueued

__all__ = ["Enqueued", "enqueued", "require_enqueued"]


def enqueued(app: App, kind: object, /, **arguments: object) -> list[Enqueued]:
    """The waiting tasks of a kind that have at least these arguments, oldest first.

    `kind` is a declared task or its name. Tasks that are due later are among them; tasks that have
    run are not.
    """
    return operate.enqueued(app.fleet, operate.kind_of(app.registry, kind), arguments)


def require_enqueued(app: App, kind: object, arguments: dict[str, object]) -> Enqueued:
    """The first of them, or an AssertionError that shows what waits instead."""
    __tracebackhide__ = True
    return operate.require_enqueued(app.fleet, operate.kind_of(app.registry, kind), arguments)
