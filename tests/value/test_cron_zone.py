"""Schedules where the clocks change, in every time zone from 2000 to 2040."""

import itertools
from datetime import UTC, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from windlass.clock import from_datetime
from windlass.value.cron import Schedule

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
# A name such as "localtime" depends on the machine.
ZONES = sorted(name for name in available_timezones() if "/" in name)
YEARS = range(2000, 2041)


def field(first, last, named=None):
    """Fields of a cron expression, with the numbers that they match."""
    numbers = st.integers(first, last if named is None else named)
    every = frozenset(range(first, last + 1))
    steps = st.sampled_from([2, 5, 7, 15])
    return st.one_of(
        st.just(("*", every)),
        steps.map(lambda step: (f"*/{step}", frozenset(sorted(every)[::step]))),
        numbers.map(lambda number: (str(number), frozenset([number]))),
        st.frozensets(numbers, min_size=2, max_size=4).map(
            lambda found: (",".join(map(str, sorted(found))), found)
        ),
        st.tuples(numbers, numbers)
        .map(sorted)
        .map(lambda ends: ("{}-{}".format(*ends), frozenset(range(ends[0], ends[1] + 1)))),
    )


FIELDS = st.tuples(field(0, 59), st.one_of(field(0, 23), field(0, 23, named=3)), field(1, 31))


def offset(moment, zone):
    return moment.astimezone(zone).utcoffset()


@cache
def changes_of_clocks(name, year):
    """The moments of a year at which the clocks of a zone change."""
    zone, found = ZoneInfo(name), []
    moment, end = datetime(year, 1, 1, tzinfo=UTC), datetime(year + 1, 1, 1, tzinfo=UTC)
    while moment < end:
        later = min(moment + DAY, end)
        if offset(moment, zone) != offset(later, zone):
            before, after = moment, later
            while after - before > MINUTE:
                middle = before + (after - before) // 2
                if offset(middle, zone) == offset(later, zone):
                    after = middle
                else:
                    before = middle
            found.append(after.replace(second=0, microsecond=0))
        moment = later
    return found


class Clocks:
    """What a schedule should do: looks at every minute near a change of the clocks."""

    def __init__(self, zone, fields):
        self.zone = ZoneInfo(zone)
        self.minutes, self.hours, self.days = (numbers for _, numbers in fields)
        minute, hour, day = (text for text, _ in fields)
        self.schedule = Schedule(f"{minute} {hour} {day} * *", zone)
        self.is_fixed = not minute.startswith("*") and not hour.startswith("*")

    def matches(self, local):
        return local.minute in self.minutes and local.hour in self.hours and local.day in self.days

    def is_turn(self, moment):
        local = moment.astimezone(self.zone)
        if not self.is_fixed:
            return self.matches(local)
        if self.matches(local) and local.fold == 0:
            return True
        before = (moment - MINUTE).astimezone(self.zone).replace(tzinfo=None)
        skipped = local.replace(tzinfo=None, fold=0) - before - MINUTE
        return any(
            self.matches(before + MINUTE * (1 + count)) for count in range(skipped // MINUTE)
        )

    def turns(self, begin, end):
        moments = (begin + MINUTE * count for count in range((end - begin) // MINUTE))
        return [from_datetime(moment) for moment in moments if self.is_turn(moment)]


def check(clocks, begin, end):
    """From each turn, and from `begin`, the schedule finds the next turn and the last."""
    schedule, expected = clocks.schedule, clocks.turns(begin + MINUTE, end)

    moment = from_datetime(begin)
    for turn in expected:
        assert schedule.next_after(moment) == turn
        assert schedule.next_after(turn - 1) == turn
        moment = turn
    assert schedule.next_after(moment) >= from_datetime(end)
    for turn, following in itertools.pairwise(expected[:3]):
        assert schedule.around(turn) == schedule.around(following - 1) == (turn, following)


@given(st.sampled_from(ZONES), st.sampled_from(YEARS), FIELDS, st.data())
@settings(max_examples=200)
def test_a_turn_is_the_next_matching_minute_wherever_the_clocks_change(zone, year, fields, data):
    changes = changes_of_clocks(zone, year) or [datetime(year, 7, 1, tzinfo=UTC)]
    change = data.draw(st.sampled_from(changes))
    minutes = data.draw(st.integers(-150, 90))

    begin = change + MINUTE * minutes

    check(Clocks(zone, fields), begin, begin + 4 * HOUR)


@given(st.sampled_from(ZONES), st.sampled_from(YEARS), FIELDS, st.integers(0, 366 * 86_400 * 10**6))
@settings(max_examples=300)
def test_a_turn_is_always_later_than_the_moment_before_it(zone, year, fields, elapsed):
    schedule = Clocks(zone, fields).schedule
    moment = from_datetime(datetime(year, 1, 1, tzinfo=UTC)) + elapsed

    for _ in range(5):
        later = schedule.next_after(moment)
        assert later > moment
        last, following = schedule.around(moment)
        assert last <= moment < following == later
        moment = later


EVERY = ("*", frozenset(range(60)))


def only(*numbers):
    return (",".join(map(str, numbers)), frozenset(numbers))


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_turns_are_right_at_every_change_of_clocks_of_every_zone():
    seen = set()
    for zone, year in itertools.product(ZONES, YEARS):
        for change in changes_of_clocks(zone, year):
            known = ZoneInfo(zone)
            alike = (change, offset(change - MINUTE, known), offset(change, known))
            if alike in seen:
                continue
            seen.add(alike)
            hour = change.astimezone(known).hour
            hours = only(*sorted({(hour - 1) % 24, hour, (hour + 1) % 24}))
            for fields in (
                (("*/7", frozenset(range(0, 60, 7))), EVERY, EVERY),
                (only(0, 1, 30, 59), EVERY, EVERY),
                (("*/5", frozenset(range(0, 60, 5))), hours, EVERY),
                (only(0, 1, 30, 59), hours, EVERY),
                (only(30), only(hour), only(change.astimezone(known).day)),
            ):
                check(Clocks(zone, fields), change - 90 * MINUTE, change + 90 * MINUTE)
    assert len(seen) > 1_000
