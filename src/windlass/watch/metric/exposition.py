"""How samples are exposed: as metrics of the Prometheus client, and as its text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from windlass.errors import WindlassError
from windlass.value.metric import MetricValue
from windlass.watch.metric.table import METRICS, Metric

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric as Family
    from prometheus_client.registry import Collector, CollectorRegistry

NOT_INSTALLED = (
    "metrics need prometheus-client, which is not installed; run: pip install 'windlass[metrics]'"
)

Read = Callable[[], Iterable[MetricValue]]


class Exposition(NamedTuple):
    """A page of metrics, and its media type."""

    text: str
    media_type: str


def is_installed() -> bool:
    """Whether metrics can be exposed."""
    try:
        import prometheus_client
    except ImportError:
        return False
    return bool(prometheus_client)


def need_client() -> None:
    """Raise if metrics cannot be exposed."""
    if not is_installed():
        raise WindlassError(NOT_INSTALLED)


def collector(*reads: Read) -> Collector:
    """A collector whose samples are read each time that it is asked."""
    need_client()
    from prometheus_client.registry import Collector

    class WindlassCollector(Collector):
        """The metrics of an app."""

        def collect(self) -> Iterator[Family]:
            yield from _families([sample for read in reads for sample in read()])

        def describe(self) -> Iterator[Family]:
            """Nothing: a registry would otherwise read the database when it registers this."""
            return iter(())

    return WindlassCollector()


def expose(samples: Iterable[MetricValue]) -> Exposition:
    """The samples as the page that Prometheus reads."""
    need_client()
    from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
    from prometheus_client.registry import CollectorRegistry

    found = list(samples)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector(lambda: found))
    return Exposition(generate_latest(registry).decode(), CONTENT_TYPE_LATEST)


def default_registry() -> CollectorRegistry:
    """The registry that the Prometheus client uses if no other is named."""
    need_client()
    from prometheus_client import REGISTRY

    return REGISTRY


def _families(samples: Iterable[MetricValue]) -> Iterator[Family]:
    """The samples by metric, in the order of the table."""
    by_name: dict[str, list[MetricValue]] = {}
    for sample in samples:
        by_name.setdefault(sample.name, []).append(sample)
    for name, metric in METRICS.items():
        if name in by_name:
            yield _family(metric, by_name[name])


def _family(metric: Metric, samples: Iterable[MetricValue]) -> Family:
    from prometheus_client.metrics_core import (
        CounterMetricFamily,
        GaugeMetricFamily,
        HistogramMetricFamily,
    )

    if metric.type == "histogram":
        histogram = HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
        bounds = [*(f"{bound:g}" for bound in metric.bounds), "+Inf"]
        for sample in samples:
            counts = accumulate(sample.counts or ())
            buckets = [(bound, float(count)) for bound, count in zip(bounds, counts, strict=True)]
            histogram.add_metric(sample.labels, buckets, sample.value)
        return histogram
    made = CounterMetricFamily if metric.type == "counter" else GaugeMetricFamily
    family = made(metric.name, metric.help, labels=metric.labels)
    for sample in samples:
        family.add_metric(sample.labels, sample.value)
    return family
