"""Whether the program has set up OpenTelemetry; nothing of it is imported before that.

Without it, a question costs a look into `sys.modules`. The providers that the API itself brings
record nothing, and count as none.
"""

from __future__ import annotations

from sys import modules
from typing import TYPE_CHECKING

from windlass.core.trace.fence import FENCE
from windlass.value.payload import Carrier
from windlass.value.task import RESERVED

if TYPE_CHECKING:
    from windlass.core.trace.recorder import Recorder, Sending

Providers = tuple[object, object]

# Imported by the API of traces and by that of metrics. Without it, nothing is traced.
SIGN = "opentelemetry.context"
_NONE: Providers = (None, None)


class Found:
    """The providers that were found last, and what records with them."""

    last: tuple[Providers, Recorder | None] = (_NONE, None)


def recorder() -> Recorder | None:
    """What records spans and metrics now; None if the program has set no provider."""
    return None if SIGN not in modules else _recorder()


def sending_of(kind: str, count: int) -> Sending | None:
    """What is recorded around an enqueue of `count` tasks; None for nothing, or for our own."""
    if SIGN not in modules or kind.startswith(RESERVED):
        return None
    traced = _recorder()
    return None if traced is None else traced.send(kind, count)


def span_ids() -> tuple[str, str] | None:
    """The ids of the current trace and span, as logs show them; None if nothing is traced."""
    traced = recorder()
    return None if traced is None else traced.span_ids()


def carried_from_here() -> Carrier | None:
    """The current context, for a child process; None if nothing is traced."""
    if recorder() is None:
        return None
    from opentelemetry import propagate

    carrier: Carrier = {}
    try:
        propagate.inject(carrier)
    except Exception as problem:
        FENCE.report(problem)
    return carrier or None


def carried_to_here(carrier: Carrier) -> None:
    """Let the context of the caller be the current one; in a `contextvars` context of its own."""
    try:
        from opentelemetry import context, propagate

        context.attach(propagate.extract(carrier))
    except Exception as problem:
        FENCE.report(problem)


def _recorder() -> Recorder | None:
    try:
        providers = (
            _real("opentelemetry.trace", "_TRACER_PROVIDER", "get_tracer_provider"),
            _real("opentelemetry.metrics._internal", "_METER_PROVIDER", "get_meter_provider"),
        )
        seen, found = Found.last
        if providers[0] is seen[0] and providers[1] is seen[1]:
            return found
        made = None
        if providers != _NONE:
            from windlass.core.trace.recorder import make_recorder

            made = make_recorder(*providers)
        Found.last = (providers, made)
    except Exception as problem:
        FENCE.report(problem)
        return None
    return made


def _real(home: str, kept: str, get: str) -> object:
    """The provider that the program has set; None if there is none."""
    module = modules.get(home)
    if module is None or getattr(module, kept, module) is None:
        # Only a look: to ask for a provider that was not set takes microseconds.
        return None
    ask = getattr(module, get, None)
    if ask is None:
        # Another thread is importing it.
        return None
    provider: object = ask()
    is_own = type(provider).__module__.startswith(("opentelemetry.trace", "opentelemetry.metrics"))
    return None if is_own else provider
