"""Keys as text: the same key comes back, whatever it is, and each has a text of its own."""

from datetime import UTC, date, datetime
from decimal import Decimal
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass import BadKey
from windlass.source.contract import LONGEST_KEY, decode_key, decoded, encode_key, encoded, shown

storable = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=50)
single = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    storable,
    st.uuids(),
    st.datetimes(),
    st.datetimes(timezones=st.just(UTC)),
    st.dates(),
    st.decimals(allow_nan=False, allow_infinity=False),
    st.binary(max_size=50),
)
keys = st.one_of(single, st.lists(single, min_size=1, max_size=3).map(tuple))


@given(keys)
def test_a_key_comes_back_as_it_was(key):
    back = decode_key(encode_key(key))

    assert back == key
    assert type(back) is type(key)


@given(keys, keys)
def test_two_keys_have_the_same_text_only_if_they_are_the_same(one, other):
    is_same = type(one) is type(other) and repr(one) == repr(other)

    assert (encode_key(one) == encode_key(other)) == is_same


def test_no_key_is_an_open_end():
    assert encoded(None) is None
    assert decoded(None) is None
    assert decoded(encoded(7)) == 7


@pytest.mark.parametrize(
    "key", [None, True, 1.5, (), (1, None), object(), "a\x00b", "\ud800", "x" * LONGEST_KEY]
)
def test_what_cannot_be_a_key_is_refused_by_name(key):
    with pytest.raises(BadKey, match="article"):
        encode_key(key, what="article")


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (7, "7"),
        ("a b", "a b"),
        ((1, "x"), "1, x"),
        (b"\x01\xff", "01ff"),
        (UUID(int=7), "00000000-0000-0000-0000-000000000007"),
        (date(2026, 1, 2), "2026-01-02"),
        (datetime(2026, 1, 2, 3, tzinfo=UTC), "2026-01-02 03:00:00+00:00"),
        (Decimal("1.50"), "1.50"),
    ],
)
def test_people_see_a_key_without_quotes(key, text):
    assert shown(key) == text
