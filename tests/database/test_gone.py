"""Traces: what is in one, and what is not."""

import random

from windlass.database.gone import Gone, is_any_forgotten, is_any_in, traces_of
from windlass.value.shard import first_number


def test_a_trace_tells_exactly_the_ids_that_left_it():
    chance = random.Random(7)
    for _ in range(300):
        among = range(first := chance.randrange(1, 10**9), first + chance.choice((10, 300, 10**6)))
        ids = set(chance.sample(among, chance.randint(1, 10)))

        (trace,) = traces_of(ids, now=5)

        assert (trace.first_id, trace.last_id, trace.gone_at) == (min(ids), max(ids), 5)
        near = {number + step for number in ids for step in (-100, -10, -1, 0, 1, 10, 100)}
        assert {number for number in near if is_any_in([number], trace)} == ids


def test_the_ids_of_two_shards_are_in_two_traces():
    ids = [5, first_number(1), first_number(1) + 3, first_number(30) + 9]

    traces = traces_of(ids, now=1)

    assert [(trace.first_id, trace.last_id) for trace in traces] == [
        (5, 5),
        (first_number(1), first_number(1) + 3),
        (first_number(30) + 9, first_number(30) + 9),
    ]
    assert all(any(is_any_in([number], trace) for trace in traces) for number in ids)


def test_nothing_leaves_no_trace():
    assert traces_of([], now=1) == []


def test_a_trace_without_ids_forgets_all_between_its_ends():
    trace = Gone(10, 20, 1, None)

    assert [is_any_forgotten([number], trace) for number in (9, 10, 20, 21)] == [
        False,
        True,
        True,
        False,
    ]
    assert not is_any_in([15], trace)
