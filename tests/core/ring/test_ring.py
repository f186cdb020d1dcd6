"""The ring: arcs tile it, shares are even, and everyone computes the same."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass import BadInput
from windlass.ring import arcs, assign, spread, tokens_of
from windlass.value.bucket import BUCKETS

END = 2**32

TOKENS = st.sets(st.integers(0, END - 1), min_size=1, max_size=40)
NUMBERS = st.integers(-(2**63), 2**63)
MEMBERS = st.one_of(
    st.sets(NUMBERS, min_size=1, max_size=300),
    st.sets(st.text(max_size=20), min_size=1, max_size=60),
)


def test_each_token_owns_from_the_previous_one_to_itself_and_the_smallest_the_wrap_around():
    assert arcs({200, 300, 500, 800}) == {
        200: [(800, END), (0, 200)],
        300: [(200, 300)],
        500: [(300, 500)],
        800: [(500, 800)],
    }


def test_when_one_leaves_the_next_owns_its_arc_too():
    before, after = arcs({200, 300, 500, 800}), arcs({200, 500, 800})

    assert after == {**{token: before[token] for token in (200, 800)}, 500: [(200, 500)]}


def test_those_who_join_take_from_the_next_one_only():
    before, after = arcs({200, 300, 500, 800}), arcs({200, 300, 400, 500, 800, 900})

    assert after[400] == [(300, 400)]
    assert after[500] == [(400, 500)]
    assert after[900] == [(800, 900)]
    assert after[200] == [(900, END), (0, 200)]
    assert {after[token] == before[token] for token in (300, 800)} == {True}


@pytest.mark.parametrize("token", [0, 200, END - 1])
def test_a_token_that_is_alone_owns_everything(token):
    assert arcs([token]) == {token: [(0, END)]}


def test_a_ring_of_nobody_is_empty():
    assert (arcs([]), spread(0), assign([]), tokens_of([])) == ({}, [], {}, {})


def test_a_token_of_zero_owns_the_end_of_the_ring():
    assert arcs({0, 500}) == {0: [(500, END)], 500: [(0, 500)]}


@given(TOKENS)
def test_arcs_tile_the_ring(tokens):
    owned = arcs(tokens)

    pieces = sorted(piece for arc in owned.values() for piece in arc)

    assert owned.keys() == tokens
    assert (pieces[0][0], pieces[-1][1]) == (0, END)
    assert all(begin < end for begin, end in pieces)
    assert all(before[1] == after[0] for before, after in pairwise(pieces))


@given(TOKENS, st.integers(0, END - 1))
def test_a_point_belongs_to_the_next_token_after_it(tokens, point):
    owned = arcs(tokens)

    (owner,) = [
        token for token, arc in owned.items() if any(begin <= point < end for begin, end in arc)
    ]

    assert owner == min((token for token in tokens if token > point), default=min(tokens))


@given(TOKENS, st.randoms())
def test_arcs_mind_neither_order_nor_repetition(tokens, chance):
    shuffled = [*tokens, *tokens]
    chance.shuffle(shuffled)

    assert arcs(shuffled) == arcs(tokens)


@given(st.integers(1, 2000))
def test_spread_tokens_lie_evenly(n):
    tokens = spread(n)

    distances = [end - begin for begin, end in pairwise([*tokens, END])]

    assert len(set(tokens)) == n
    assert (tokens[0], tokens) == (0, sorted(tokens))
    assert max(distances) - min(distances) <= 1


@given(MEMBERS, st.integers(1, 1000))
def test_shares_are_contiguous_cover_everything_and_differ_by_at_most_one(members, buckets):
    shares = assign(members, buckets)

    sizes = [len(share) for share in shares.values()]

    assert shares.keys() == members
    assert [bucket for share in shares.values() for bucket in share] == list(range(buckets))
    assert max(sizes) - min(sizes) <= 1
    assert {share.step for share in shares.values()} == {1}


@given(MEMBERS, st.randoms())
def test_everyone_computes_the_same_whatever_the_order(members, chance):
    shuffled = [*members, *members]
    chance.shuffle(shuffled)

    assert list(assign(shuffled).items()) == list(assign(members).items())
    assert tokens_of(shuffled) == tokens_of(members)


@given(MEMBERS)
def test_a_bucket_belongs_to_whoever_owns_its_last_point(members):
    shares, tokens = assign(members), tokens_of(members)
    owned = arcs(tokens.values())

    for member, share in shares.items():
        arc = owned[tokens[member]]
        inside = [
            bucket
            for bucket in range(BUCKETS)
            if any(begin < (bucket + 1) << 24 <= end for begin, end in arc)
        ]
        assert inside == list(share)


@given(st.sets(NUMBERS, min_size=1, max_size=32), NUMBERS)
def test_whoever_joins_or_leaves_changes_nobodys_place_and_moves_half_of_it_at_most(others, one):
    without, within = assign(others - {one} or {one + 1}), assign(others | {one, one + 1})
    one_by_one = [assign({*without, one}), within]

    for before, after in pairwise([without, *one_by_one]):
        moved = sum(len(set(before[member]) - set(after[member])) for member in before)
        assert [member for member in after if member in before] == list(before)
        assert moved <= BUCKETS / 2 + len(after)


def test_the_order_of_workers_is_that_of_their_hashes_and_never_changes():
    assert list(assign(range(1, 9))) == [2, 6, 7, 3, 1, 5, 4, 8]
    assert list(assign(["b", "a", "c"])) == ["c", "b", "a"]
    assert assign([7, "7"]) == {7: range(128), "7": range(128, 256)}


def test_with_more_members_than_buckets_some_have_none():
    shares = assign(range(10), buckets=4)

    assert sorted(len(share) for share in shares.values()) == [0] * 6 + [1] * 4


@pytest.mark.parametrize("token", [-1, END, 1.5, "200", None, True])
def test_what_is_not_a_token_is_refused_by_name(token):
    with pytest.raises(BadInput, match=r"is not a token; give a number from 0 to 2\*\*32 - 1"):
        arcs([200, token])


@pytest.mark.parametrize("n", [-1, END + 1, 1.5, "3", None, True])
def test_a_number_of_tokens_that_cannot_be_is_refused(n):
    with pytest.raises(BadInput, match=r"cannot spread .* tokens"):
        spread(n)


@pytest.mark.parametrize("member", [None, 1.5, (1,), b"a", True])
def test_what_is_not_a_member_is_refused_by_name(member):
    with pytest.raises(BadInput, match="cannot be a member of a ring"):
        assign([7, member])


@pytest.mark.parametrize("buckets", [0, -1, 1.5, "256", None, True])
def test_a_number_of_buckets_that_cannot_be_is_refused(buckets):
    with pytest.raises(BadInput, match=r"cannot divide .* buckets"):
        assign([1, 2], buckets)
