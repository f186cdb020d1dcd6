"""Metrics of an app, for Prometheus: what this process did, and what the databases say."""

from __future__ import annotations

from windlass.watch.metric import exposition, process
from windlass.watch.metric.database import DatabaseMetrics, Watched
from windlass.watch.metric.exposition import NOT_INSTALLED, Exposition, is_installed

__all__ = ["NOT_INSTALLED", "AppMetrics", "is_installed"]


class AppMetrics:
    """The page of metrics of an app. What this process does is counted from now on."""

    def __init__(self, app: Watched) -> None:
        self._app = app
        self._database = DatabaseMetrics(app)
        if is_installed():
            process.measure(app.registry)

    def page(self) -> Exposition:
        """What is known now; what the databases say may be a few seconds old."""
        return exposition.expose([*process.samples(self._app.registry), *self._database.samples()])
