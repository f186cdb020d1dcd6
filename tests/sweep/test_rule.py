"""The rules of sweeps: tiles, splits, stragglers, losses, and how far a round is."""

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass import BadDeclaration, BadInput, Keys, Table
from windlass.clock import SECOND
from windlass.source.contract import encode_key
from windlass.sweep.declare import check_order, check_ranges
from windlass.sweep.model import (
    EMPTY_ROUND,
    SHORTEST_ROUND,
    Range,
    RangeOrder,
    audit,
    described,
    estimate,
    has_same_keys,
    in_order,
    lose,
    may_begin_at,
    next_round_at,
    next_to_merge,
    next_to_split,
    range_view,
    stragglers,
    tiles,
)
from windlass.value.status import Status

NOW = 1_000 * SECOND
NUMBERS = count(1)


def make(begin=None, end=None, **values):
    """A range over whole numbers, untouched unless something else is said."""
    begin, end = (None if key is None else encode_key(key) for key in (begin, end))
    usual = Range(
        id=next(NUMBERS),
        sweep="offer",
        round=1,
        begin=begin,
        end=end,
        breakpoint=begin,
        read_to=begin,
        status=Status.WAITING,
        batch=None,
        worker=None,
        done=0,
        failed=0,
        repeated=0,
        rows=100,
        per_second=0.0,
        lost=0,
        lost_at=None,
        again_to=None,
        is_careful=False,
        saved_at=None,
    )
    return usual._replace(**values)


def running(begin=None, end=None, **values):
    return make(
        begin,
        end,
        **{"status": Status.RUNNING, "batch": 7, "worker": 3, "saved_at": NOW, **values},
    )


def cut(keys):
    return [make(*edge) for edge in zip([None, *keys], [*keys, None], strict=True)]


@given(st.sets(st.integers(), max_size=20), st.randoms())
def test_ranges_that_are_cut_at_keys_tile_the_key_space_in_whatever_order_they_come(keys, random):
    ranges = cut(sorted(keys))
    shuffled = random.sample(ranges, len(ranges))

    assert audit(shuffled).ok
    assert in_order(shuffled) == ranges


@given(st.sets(st.integers(), min_size=1, max_size=20), st.data())
def test_a_range_that_is_missing_or_doubled_or_bent_is_found(keys, data):
    ranges = cut(sorted(keys))
    place = data.draw(st.integers(0, len(ranges) - 1))
    victim = ranges[place]

    missing = [each for each in ranges if each is not victim]
    doubled = [*ranges, victim._replace(id=next(NUMBERS))]
    bent = [
        each._replace(end=encode_key(max(keys) + 7)) if each is victim else each for each in ranges
    ]

    assert not audit(missing).ok
    assert not audit(doubled).ok
    assert not audit(bent).ok


def test_a_round_without_ranges_has_nothing_to_find():
    assert audit([]).ok


def test_ranges_in_a_circle_are_found():
    assert not audit([make(None, None), make(1, 2), make(2, 1)]).ok


def test_a_range_that_is_done_has_done_all_of_it():
    done = make(None, 5, status=Status.SUCCEEDED, breakpoint="4", read_to="4")
    unread = make(5, None, status=Status.SUCCEEDED, breakpoint="7", read_to="9")

    found = audit([done, unread])

    assert len(found.problems) == 2
    assert "its breakpoint is not its end" in found.problems[0]
    assert "not all it read" in found.problems[1]


def test_an_empty_range_is_found():
    assert "is empty" in audit([make(None, 5), make(5, 5), make(5, None)]).problems[0]


@given(st.lists(st.integers().map(encode_key), max_size=20), st.integers(0, 10**9))
def test_bounds_make_tiles_that_hold_all_rows_together(bounds, total):
    made = tiles(bounds, total)

    assert len(made) == len(set(bounds)) + 1
    assert (made[0].begin, made[-1].end) == (None, None)
    assert sum(tile.rows for tile in made) >= total
    assert len({tile.rows for tile in made}) == 1


def test_the_range_with_the_most_left_is_split_next():
    small = running(None, 5, rows=100, done=90)
    large = running(5, 9, rows=100, done=10)
    ended = make(9, None, rows=1_000, status=Status.SUCCEEDED)

    assert next_to_split([small, large, ended]) is large
    assert next_to_split([small, large, ended], refused=[large.id]) is small
    assert next_to_split([ended]) is None


def test_only_untouched_neighbours_are_merged_and_the_smallest_first():
    first, second, third = make(None, 5, rows=10), make(5, 9, rows=500), make(9, 12, rows=7)
    fourth, last = make(12, 20, rows=7), running(20, None)

    assert next_to_merge([last, third, first, fourth, second]) == (third, fourth)
    assert next_to_merge([first, second], refused=[first.id]) is None
    assert next_to_merge([make(None, 5), running(5, None)]) is None
    assert next_to_merge([make(None, 5, breakpoint="3", read_to="3"), make(5, None)]) is None
    assert next_to_merge([make(None, 5, status=Status.SUCCEEDED), make(5, None)]) is None


def test_a_straggler_needs_much_longer_than_the_others():
    quick = [running(rows=1_000, done=900, per_second=10.0) for _ in range(3)]
    slow = running(rows=1_000, done=0, per_second=10.0)

    assert stragglers([*quick, slow], NOW) == {slow.id}
    assert stragglers([quick[0], slow], NOW) == {slow.id}
    assert stragglers([slow], NOW) == set()
    assert stragglers([*quick, slow._replace(saved_at=NOW - 60 * SECOND)], NOW) == set()


def test_ranges_that_share_a_rate_unevenly_are_no_stragglers():
    favoured = [running(rows=4_000, done=300, per_second=48.0) for _ in range(2)]
    others = [running(rows=4_000, done=20, per_second=3.8) for _ in range(2)]
    waiting = [running(rows=4_000, done=20, per_second=2.9) for _ in range(20)]

    assert stragglers([*favoured, *others, *waiting], NOW) == set()


def test_a_range_that_was_not_heard_of_lately_has_no_speed():
    assert running(per_second=5.0).speed(NOW) == 5.0
    assert running(per_second=5.0, saved_at=NOW - 11 * SECOND).speed(NOW) == 0.0
    assert make(per_second=5.0, saved_at=NOW).speed(NOW) == 0.0


def test_progress_is_by_rows_and_never_all_before_the_end():
    half = estimate([running(done=40, failed=10), running(done=50)], total=200, rate=10.0)
    more = estimate([running(done=500)], total=100, rate=10.0)
    over = estimate([make(status=Status.SUCCEEDED)], total=100, rate=0.0)

    assert (half.percent, half.eta_seconds) == (50.0, 10.0)
    assert 99 < more.percent < 100
    assert (over.percent, over.eta_seconds) == (100.0, 0.0)
    assert estimate([], total=None, rate=1.0).percent == 0.0
    assert estimate([make()], total=None, rate=0.0).eta_seconds is None


def test_the_next_round_is_due_when_it_was_asked_for():
    assert next_round_at(ended_at=NOW, redo=None) is None
    assert next_round_at(ended_at=NOW, redo=0) == NOW
    assert next_round_at(ended_at=NOW, redo=4 * SECOND) == NOW + 4 * SECOND


def test_rounds_do_not_follow_each_other_in_no_time():
    assert may_begin_at(started_at=None, rows=0) == 0
    assert may_begin_at(started_at=NOW, rows=5) == NOW + SHORTEST_ROUND
    assert may_begin_at(started_at=NOW, rows=0) == NOW + EMPTY_ROUND


def test_a_range_that_was_lost_for_the_first_time_is_read_again_from_its_breakpoint():
    loss = lose(running(None, 90, breakpoint="10", read_to="30"), max_lost=3)

    assert (loss.lost, loss.lost_at, loss.again_to) == (1, "10", "30")
    assert not loss.is_careful
    assert not loss.is_poison


def test_a_second_loss_at_the_same_breakpoint_makes_its_items_run_one_by_one():
    abandoned = running(
        None, 90, breakpoint="10", read_to="20", lost=1, lost_at="10", again_to="30"
    )

    loss = lose(abandoned, max_lost=3)

    assert (loss.lost, loss.again_to, loss.is_careful) == (2, "30", True)
    assert not loss.is_poison


def test_progress_between_two_losses_forgets_the_first():
    abandoned = running(None, 90, breakpoint="25", read_to="60", lost=2, lost_at="10")

    loss = lose(abandoned, max_lost=3)

    assert (loss.lost, loss.lost_at, loss.is_careful) == (1, "25", False)


def test_what_flies_alone_when_its_worker_dies_again_is_poison():
    careful = {"lost": 2, "lost_at": "10", "again_to": "30", "is_careful": True}
    alone = running(None, 90, breakpoint="12", read_to="13", **careful)
    between = running(None, 90, breakpoint="12", read_to="12", **careful)

    assert lose(alone, max_lost=3).is_poison
    assert not lose(between, max_lost=3).is_poison
    assert lose(between, max_lost=3).is_careful


def test_nothing_is_careful_about_a_range_of_which_nothing_was_read():
    abandoned = running(None, 90, lost=5, lost_at=None)

    assert not lose(abandoned, max_lost=3).is_careful


@pytest.mark.parametrize("given", [0, -1, 4_097, True, 1.5, "30", None])
def test_a_number_of_ranges_that_makes_no_sense_is_refused(given):
    with pytest.raises(BadInput, match="give a number from 1 to 4096"):
        check_ranges("offer", given)


def test_an_order_that_nobody_knows_is_refused():
    assert check_order("desc") is RangeOrder.DESC
    with pytest.raises(BadDeclaration, match="'asc', 'desc', 'random'"):
        check_order("newest")


def test_people_see_keys_and_not_their_texts():
    view = range_view(running((1, "a"), (2, "b"), done=100, per_second=2.0, rows=400), NOW, set())

    assert (view.begin, view.end, view.owner, view.rate) == ((1, "a"), (2, "b"), 3, 2.0)
    assert view.percent == 25.0
    assert range_view(make(None, None), NOW, set()).owner is None


def test_only_other_keys_make_another_source():
    numbers, more = described(Keys(1, 5)), described(Keys(1, 9))
    by_id = described(Table("sqlite:///a.db", "article", key="id"))
    by_code = described(Table("sqlite:///a.db", "article", key="code"))
    by_both = described(Table("sqlite:///a.db", "article", key=("id", "code")))

    assert has_same_keys(numbers, more)
    assert has_same_keys(None, by_id)
    assert not has_same_keys(numbers, by_id)
    assert not has_same_keys(by_id, by_code)
    assert not has_same_keys(by_id, by_both)
