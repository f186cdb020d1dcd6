"""Metrics of what is sent and processed, by kind, in the instruments of the conventions.

Counts of runs are added up here and read when they are collected: a call of the SDK for each run
would cost as much as a short handler.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache

from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation

from windlass.core.trace import name as names

MOST_SETS = 2_000


@lru_cache(MOST_SETS)
def _attributes(operation: str, kind: str, error: str | None) -> dict[str, str]:
    found = {
        names.SYSTEM: names.WINDLASS,
        names.OPERATION: operation,
        names.DESTINATION: kind,
    }
    return found if error is None else found | {names.ERROR_TYPE: error}


class Meters:
    """The instruments of one meter provider."""

    def __init__(self, provider: MeterProvider, version: str) -> None:
        meter = provider.get_meter("windlass", version)
        self._lock = threading.Lock()
        self._consumed: Counter[tuple[str, str | None]] = Counter()
        self._sent = meter.create_counter(
            names.SENT_MESSAGES, unit="{message}", description="Tasks that were enqueued."
        )
        self._send_seconds = meter.create_histogram(
            names.SEND_SECONDS, unit="s", description="How long an enqueue takes."
        )
        meter.create_observable_counter(
            names.CONSUMED_MESSAGES,
            callbacks=[self._count],
            unit="{message}",
            description="Runs of handlers.",
        )
        self._process_seconds = meter.create_histogram(
            names.PROCESS_SECONDS, unit="s", description="How long a handler runs."
        )

    def sent(self, kind: str, *, count: int, seconds: float, error: str | None) -> None:
        """An enqueue has ended; nothing was sent if it failed."""
        attributes = _attributes(names.SEND, kind, error)
        self._send_seconds.record(seconds, attributes)
        self._sent.add(count, attributes)

    def processed(self, kind: str, *, seconds: float, error: str | None) -> None:
        """A run has ended."""
        self._process_seconds.record(seconds, _attributes(names.PROCESS, kind, error))
        with self._lock:
            self._consumed[kind, error] += 1

    def _count(self, _options: CallbackOptions) -> Iterable[Observation]:
        with self._lock:
            counted = dict(self._consumed)
        return [
            Observation(count, _attributes(names.PROCESS, kind, error))
            for (kind, error), count in counted.items()
        ]
