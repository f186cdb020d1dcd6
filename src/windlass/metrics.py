"""Metrics for Prometheus: what this process did, and what the database says.

    windlass.metrics.register(app)

The metrics of Windlass are then among those that your process exposes with `prometheus_client`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from windlass.watch.metric import exposition, process
from windlass.watch.metric.database import DatabaseMetrics

if TYPE_CHECKING:
    from prometheus_client.registry import Collector, CollectorRegistry

    from windlass.app import App

__all__ = ["register"]


def register(
    app: App, registry: CollectorRegistry | None = None, *, database: bool = False
) -> Collector:
    """Count what this process does, and expose it in `registry`, by default the client's own.

    Call it before workers are made. With `database`, also expose what the database says; the
    console does that already. Returns the collector, for `registry.unregister`.
    """
    exposition.need_client()
    process.measure(app.registry)
    reads = [lambda: process.samples(app.registry)]
    if database:
        # An error would take the other metrics of the process away.
        reads.append(DatabaseMetrics(app).samples_if_known)
    made = exposition.collector(*reads)
    (exposition.default_registry() if registry is None else registry).register(made)
    return made
