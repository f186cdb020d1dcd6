"""Buckets: stable, even, and 256 of them."""

from collections import Counter

import pytest

from windlass.value.bucket import BUCKETS, bucket_of


@pytest.mark.parametrize(("name", "bucket"), [("1", 131), ("order-7", 9), ("", 0), ("鍵", 108)])
def test_the_bucket_of_a_name_never_changes(name, bucket):
    assert bucket_of(name) == bucket


def test_ids_are_spread_evenly_and_not_by_size():
    found = Counter(bucket_of(str(number)) for number in range(1, 25_601))

    assert set(found) == set(range(BUCKETS))
    assert min(found.values()) > 50
    assert max(found.values()) < 150
    assert len({bucket_of(str(number)) for number in range(100)}) > 60
