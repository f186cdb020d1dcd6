"""Routing: every key has one home, and a shard that comes or goes moves only its own keys."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass import BadDatabase
from windlass.value.shard import (
    MOST_SHARDS,
    Past,
    Roster,
    first_number,
    first_roster,
    home_of,
    place_of,
)

rings = st.lists(
    st.text("0123456789abcdef", min_size=16, max_size=16), min_size=2, max_size=6, unique=True
)
keys = st.text(min_size=1, max_size=40)


def roster_of(names, used=None) -> Roster:
    return first_roster({ring: f"sqlite:///{ring}.db" for ring in names}, used=used)


@given(rings, keys, st.randoms())
def test_everyone_names_the_same_home_whatever_the_order_of_the_list(names, key, random):
    shuffled = list(names)
    random.shuffle(shuffled)

    assert home_of(names, "mail", key) == home_of(shuffled, "mail", key)
    assert roster_of(names).home("mail", key) == roster_of(shuffled).home("mail", key)


@given(rings, keys)
def test_a_shard_that_joins_takes_keys_and_moves_no_other(names, key):
    *before, new = names

    after = home_of(names, "mail", key)

    assert after in (new, home_of(before, "mail", key))


@given(rings, keys)
def test_a_shard_that_drains_moves_its_own_keys_and_no_other(names, key):
    roster = roster_of(names)
    home = roster.home("mail", key)

    for ring in names:
        drained = roster.drained(ring)
        if ring == home:
            assert drained.home("mail", key) != ring
            assert drained.earlier("mail", key) == [ring]
        else:
            assert drained.home("mail", key) == home
            assert drained.earlier("mail", key) == []


@given(rings, keys, st.lists(st.tuples(st.sampled_from("dos"), st.integers(0, 5)), max_size=8))
def test_wherever_a_key_was_written_it_is_looked_for_until_it_was_moved(names, key, changes):
    roster = roster_of(names)
    # Where the key was written under each roster, unless its shard was emptied since.
    written = {roster.home("mail", key)}

    for what, index in changes:
        ring = names[index % len(names)]
        if what == "d" and roster.layout != (ring,):
            roster = roster.drained(ring)
        elif what == "o":
            roster = roster.opened(ring)
        elif what == "s":
            roster = roster.settled(ring)
            # Moving leaves in a shard what belongs there.
            if ring in written and ring != roster.home("mail", key):
                written.discard(ring)
        written.add(roster.home("mail", key))

        looked = {roster.home("mail", key), *roster.earlier("mail", key)}
        assert written <= looked
        assert looked <= roster.needed


def test_keys_are_spread_evenly():
    names = [f"{number:016x}" for number in range(4)]

    homes = [home_of(names, "mail", f"order-{number}") for number in range(4_000)]

    assert all(850 < homes.count(name) < 1_150 for name in names)


def test_the_kind_is_part_of_the_key():
    names = [f"{number:016x}" for number in range(8)]

    assert len({home_of(names, f"kind-{number}", "windlass:cron") for number in range(100)}) == 8


def test_numbers_of_two_places_never_meet_and_stay_exact_in_json():
    last = MOST_SHARDS - 1

    assert [place_of(first_number(place)) for place in (0, 1, last)] == [0, 1, last]
    assert place_of(first_number(1) - 1) == 0
    assert first_number(last + 1) - 1 < 2**53


def test_a_place_is_never_given_out_again():
    roster = roster_of(["a", "b"]).drained("b").settled("b")

    joined = roster.joined("c", "sqlite:///c.db")

    assert {ring: peer.place for ring, peer in joined.peers.items()} == {"a": 0, "b": 1, "c": 2}
    assert joined.layout == ("a", "c")


def test_a_database_with_tasks_keeps_its_place_and_its_keys_are_looked_for_there():
    roster = roster_of(["a", "b"], used="b")

    assert roster.peers["b"].place == 0
    assert roster.past == (Past(("b",), ("b",)),)
    moved = next(f"k{n}" for n in range(100) if roster.home("mail", f"k{n}") == "a")
    stays = next(f"k{n}" for n in range(100) if roster.home("mail", f"k{n}") == "b")
    assert roster.earlier("mail", moved) == ["b"]
    assert roster.earlier("mail", stays) == []


def test_more_shards_than_there_are_places_are_refused():
    roster = roster_of([f"{number:016x}" for number in range(MOST_SHARDS)])

    with pytest.raises(BadDatabase, match="at most 31"):
        roster.joined("new", "sqlite:///new.db")
    with pytest.raises(BadDatabase, match="at most 31"):
        roster_of([f"{number:016x}" for number in range(MOST_SHARDS + 1)])


def test_the_last_shard_that_takes_rows_cannot_be_drained():
    roster = roster_of(["a", "b"]).drained("a")

    with pytest.raises(BadDatabase, match="only shard"):
        roster.drained("b")
