"""Histograms that count by group, and samples that processes add up."""

from hypothesis import given
from hypothesis import strategies as st

from windlass.value.metric import CALL_BOUNDS, RUN_BOUNDS, Distribution, MetricValue

VALUES = st.lists(st.one_of(st.floats(0, 10_000), st.sampled_from(RUN_BOUNDS)), max_size=200)


@given(VALUES)
def test_values_counted_together_are_in_the_buckets_of_values_counted_one_by_one(values):
    together, apart = Distribution(RUN_BOUNDS), Distribution(RUN_BOUNDS)

    together.observe_all(list(values))
    for value in values:
        apart.observe(value)

    assert together.counts == apart.counts
    assert sum(together.counts) == len(values)


@given(VALUES)
def test_a_bucket_has_the_values_up_to_its_bound(values):
    histogram = Distribution(RUN_BOUNDS)

    histogram.observe_all(list(values))

    for place, bound in enumerate(RUN_BOUNDS):
        up_to = sum(histogram.counts[: place + 1])
        assert up_to == sum(value <= bound for value in values)


def test_bounds_grow():
    assert sorted(set(RUN_BOUNDS)) == list(RUN_BOUNDS)
    assert sorted(set(CALL_BOUNDS)) == list(CALL_BOUNDS)


def test_samples_of_two_processes_add_up():
    one = MetricValue("seconds", ("mail",), 1.5, [1, 2])
    other = MetricValue("seconds", ("mail",), 0.5, [0, 3])

    assert one.plus(other) == MetricValue("seconds", ("mail",), 2.0, [1, 5])
