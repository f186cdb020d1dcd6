"""Time-of-day windows: how they are written, and when they open and close."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from windlass.clock import from_datetime, to_datetime
from windlass.errors import BadWindow
from windlass.value.calendar.window import Part, parse_window

BERLIN = "Europe/Berlin"
NEW_YORK = "America/New_York"
ZONES = [
    *["UTC", BERLIN, NEW_YORK, "Asia/Shanghai", "Asia/Kathmandu", "Asia/Gaza"],
    *["Australia/Lord_Howe", "Pacific/Apia", "Africa/Monrovia", "America/Port-au-Prince"],
]
NAMES = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
DAY = 24 * 60
WEEK = 7 * DAY
MINUTE = 60_000_000
MONDAY = "2026-01-05"


def moment(text, zone="UTC"):
    """The moment of a local time, or of one with an offset."""
    read = datetime.fromisoformat(text)
    return from_datetime(read if read.tzinfo else read.replace(tzinfo=ZoneInfo(zone)))


def local(microseconds, zone):
    return to_datetime(microseconds).astimezone(ZoneInfo(zone)).isoformat(timespec="minutes")


def closes_at(window, moment):
    """The first closed moment from `moment` on; None if it never closes."""
    if window.parts == (Part(0, WEEK),):
        return None
    while window.is_open(moment):
        moment = window._next_stop(moment)
    return moment


def openings(text, start, *, until):
    """The stretches of time in which a window is open, by its own clocks with their offset."""
    window = parse_window(text)
    now, end, found = moment(start, window.zone), moment(until, window.zone), []
    while (begin := window.opens_at(now)) is not None and begin < end:
        now = closes_at(window, begin)
        found.append(f"{local(begin, window.zone)} {local(now, window.zone)}")
    return found


def hours(day, begin, end):
    """A part on a day (0 is Monday) from and to an hour of that day."""
    return Part(day * DAY + round(begin * 60), day * DAY + round(end * 60))


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("01:00-07:00", [hours(day, 1, 7) for day in range(7)]),
        ("1:00-7:00", [hours(day, 1, 7) for day in range(7)]),
        (
            "01:00-03:00, 13:00-14:30",
            [hours(d, *h) for d in range(7) for h in [(1, 3), (13, 14.5)]],
        ),
        ("18:00-24:00", [hours(day, 18, 24) for day in range(7)]),
        ("18:00-00:00", [hours(day, 18, 24) for day in range(7)]),
        ("00:00-24:00", [hours(0, 0, 7 * 24)]),
        ("Mon-Sun", [hours(0, 0, 7 * 24)]),
        ("Tue", [hours(1, 0, 24)]),
        ("Sat-Sun", [hours(5, 0, 48)]),
        ("Fri-Mon", [hours(0, 0, 24), hours(4, 0, 72)]),
        ("Sun-Mon", [hours(0, 0, 24), hours(6, 0, 24)]),
        ("Wed-Wed", [hours(2, 0, 24)]),
        ("Mon-Wed 09:00-17:00", [hours(day, 9, 17) for day in range(3)]),
        ("Mon, Wed 09:00-17:00", [hours(0, 0, 24), hours(2, 9, 17)]),
        ("Mon 01:00-07:00, Sat-Sun", [hours(0, 1, 7), hours(5, 0, 48)]),
        ("Fri 22:00-06:00", [hours(4, 22, 30)]),
        ("Sun 22:00-06:00", [hours(0, 0, 6), hours(6, 22, 24)]),
        ("Mon 01:00-05:00, Mon 04:00-06:00, Mon 06:00-07:00", [hours(0, 1, 7)]),
        ("Mon 01:00-07:00, Mon 02:00-03:00", [hours(0, 1, 7)]),
        ("MONDAY-friday, sAt 10:00-11:00", [hours(0, 0, 120), hours(5, 10, 11)]),
        ("\tMon  -  Tue   09:00 -17:00\n,Sat", [hours(0, 9, 17), hours(1, 9, 17), hours(5, 0, 24)]),
    ],
)
def test_a_text_describes_parts_of_the_week(text, parts):
    assert parse_window(text).parts == tuple(parts)


@pytest.mark.parametrize(
    ("text", "zone"),
    [
        ("01:00-07:00", "UTC"),
        ("01:00-07:00 UTC", "UTC"),
        ("22:00-06:00 Asia/Shanghai", "Asia/Shanghai"),
        ("Mon-Fri 01:00-07:00, Sat-Sun Europe/Berlin", BERLIN),
        ("Mon-Fri 01:00-07:00, Sat-Sun, Europe/Berlin", BERLIN),
        ("01:00-07:00 America/Port-au-Prince", "America/Port-au-Prince"),
        ("Sat Etc/GMT-8", "Etc/GMT-8"),
    ],
)
def test_a_time_zone_may_stand_at_the_very_end(text, zone):
    assert parse_window(text).zone == zone


def test_the_zone_applies_to_all_parts():
    window = parse_window("Mon 01:00-02:00, Tue 01:00-02:00 Asia/Shanghai")

    assert window.is_open(moment("2026-01-05T01:30", "Asia/Shanghai"))
    assert window.is_open(moment("2026-01-06T01:30", "Asia/Shanghai"))
    assert not window.is_open(moment("2026-01-06T01:30"))


def test_the_text_is_kept_with_single_spaces():
    assert parse_window("  Mon - Fri\t 01:00-07:00 ,Sat ").text == "Mon - Fri 01:00-07:00 ,Sat"


def test_a_window_that_was_read_can_be_read_again():
    window = parse_window("  Mon -Fri   22:00-06:00 ,  sat  Europe/Berlin ")

    assert parse_window(window.text) == window


WRITE_WHOLE_DAYS = 'it is empty; for the whole day write "00:00-24:00"'
WRITE_DAYS = 'write days as "Mon", "Monday" or "Mon-Fri"'
GIVE_ZONE = 'give an IANA name such as "Asia/Shanghai" or "UTC"'
PUT_ZONE = "put the time zone at the end"
PUT_COMMAS = 'put a comma between parts such as "Mon-Fri 01:00-07:00", and one time zone at the end'


@pytest.mark.parametrize(
    ("text", "cure"),
    [
        ("25:00-07:00", "cannot read '25:00-07:00'; hours go from 00:00 to 24:00"),
        ("01:00-24:01", "cannot read '01:00-24:01'; hours go from 00:00 to 24:00"),
        ("Mon 01:75-07:00", "cannot read '01:75-07:00'; minutes go from 00 to 59"),
        ("24:00-07:00", "cannot read '24:00-07:00'; 24:00 can only be an end, so begin at 00:00"),
        ("Sat, 9:00 - 9:00", f"cannot read '9:00-9:00'; {WRITE_WHOLE_DAYS}"),
        ("9-17", "cannot read '9-17'; write times as \"09:00-17:00\""),
        ("09:00", "cannot read '09:00'; write times as \"09:00-17:00\""),
        ("Mon-Fry 01:00-07:00", f"cannot read 'Mon-Fry', 'fry' is not a day; {WRITE_DAYS}"),
        (
            "Mon-Wed-Fri 01:00-07:00",
            f"cannot read 'Mon-Wed-Fri', 'wed-fri' is not a day; {WRITE_DAYS}",
        ),
        ("Mon-, Sat", f"cannot read 'Mon-', '' is not a day; {WRITE_DAYS}"),
        ("01:00-07:00 Asia/Shanghigh", f"time zone 'Asia/Shanghigh' is not known; {GIVE_ZONE}"),
        ("01:00-07:00 ../../etc/passwd", f"time zone '../../etc/passwd' is not known; {GIVE_ZONE}"),
        (
            "01:00-03:00 Asia/Shanghai, Sat",
            f"cannot read '01:00-03:00 Asia/Shanghai'; {PUT_COMMAS}",
        ),
        ("Asia/Shanghai 13:00-14:00", f"cannot read 'Asia/Shanghai' here; {PUT_ZONE}"),
        ("Mon Wed 09:00-17:00", f"cannot read 'Mon Wed 09:00-17:00'; {PUT_COMMAS}"),
    ],
)
def test_what_cannot_be_read_is_named_with_the_cure(text, cure):
    with pytest.raises(BadWindow) as raised:
        parse_window(text, what="kind 'offer': window")

    assert str(raised.value) == f"kind 'offer': window: {cure}"


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ("", "'' is empty; "),
        (" \t", "' \\t' is empty; "),
        ("noon", "cannot read 'noon', which is not a day, a time range or a time zone; "),
        ("Sat-Funday", "cannot read 'Sat-Funday', which is not a day"),
        ("01:00-07:00 Shanghai", "cannot read 'Shanghai', which is not a day"),
        ("UTC", "'UTC' is a time zone without times; "),
        (700, "cannot read 700; give a string such as "),
        (None, "cannot read None; give a string such as "),
        (b"01:00-07:00", "cannot read b'01:00-07:00'; give a string such as "),
    ],
)
def test_what_is_not_a_window_at_all_is_refused_with_examples(given, problem):
    with pytest.raises(BadWindow) as raised:
        parse_window(given)

    assert str(raised.value).startswith(f"window: {problem}")
    assert '"01:00-07:00"' in str(raised.value)


@pytest.mark.parametrize("text", [",", "01:00-07:00,", ",Sat", "Mon, , Sat", "Sat,, UTC"])
def test_a_comma_too_many_is_refused(text):
    with pytest.raises(BadWindow, match="has an extra comma"):
        parse_window(text)


@pytest.mark.parametrize(
    "text",
    ["\0", "-", "Mon\0", "Sat \ud800", "\N{ARABIC-INDIC DIGIT ONE}:00-07:00", "Sat " + "x" * 250],
)
def test_strange_characters_are_refused(text):
    with pytest.raises(BadWindow, match="cannot read"):
        parse_window(text)


def test_a_text_longer_than_255_characters_is_refused():
    longest = ", ".join(["Mon 01:00-07:00"] * 15)
    assert len(longest) == 253

    with pytest.raises(BadWindow, match=r"has 258 characters; at most 255 fit"):
        parse_window(f"{longest}, Sun")
    assert parse_window(longest.ljust(300)).text == longest


@given(st.text(alphabet="MonFri0127:-, /UTC", max_size=30))
def test_any_text_is_read_or_refused(text):
    with suppress(BadWindow):
        window = parse_window(text)
        assert 0 < window.share <= 1 or window.opens


def test_the_begin_is_inside_and_the_end_is_outside():
    window = parse_window("01:00-07:00")

    assert not window.is_open(moment(f"{MONDAY}T01:00") - 1)
    assert window.is_open(moment(f"{MONDAY}T01:00"))
    assert window.is_open(moment(f"{MONDAY}T07:00") - 1)
    assert not window.is_open(moment(f"{MONDAY}T07:00"))


def test_an_open_window_opens_now_and_a_closed_one_closes_now():
    window = parse_window("01:00-07:00")
    open_moment, closed_moment = moment(f"{MONDAY}T03:33:33"), moment(f"{MONDAY}T08:44:44")

    assert window.opens_at(open_moment) == open_moment
    assert closes_at(window, closed_moment) == closed_moment


def test_it_opens_and_closes_on_the_minute_wherever_one_asks_from():
    window = parse_window("Mon-Fri 01:00-07:00")

    assert window.opens_at(moment("2026-01-09T07:00:00.000001")) == moment("2026-01-12T01:00")
    assert closes_at(window, moment("2026-01-09T06:59:59.999999")) == moment("2026-01-09T07:00")


def test_a_range_over_midnight_begins_on_its_day_and_ends_on_the_next_morning():
    found = openings("Fri-Sun 22:00-06:00", "2026-01-05T12:00", until="2026-01-13T00:00")

    assert found == [
        "2026-01-09T22:00+00:00 2026-01-10T06:00+00:00",
        "2026-01-10T22:00+00:00 2026-01-11T06:00+00:00",
        "2026-01-11T22:00+00:00 2026-01-12T06:00+00:00",
    ]


def test_days_that_meet_over_the_end_of_the_week_are_one_opening():
    found = openings("Sat-Mon", "2026-01-06T00:00", until="2026-01-13T00:00")

    assert found == ["2026-01-10T00:00+00:00 2026-01-13T00:00+00:00"]


@pytest.mark.parametrize("text", ["Mon-Sun", "00:00-24:00", "00:00-12:00, 11:00-00:00", "Wed-Tue"])
def test_a_window_of_all_times_never_closes(text):
    window = parse_window(text)

    assert closes_at(window, moment(MONDAY)) is None
    assert window.share == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # 02:00 to 03:00 is skipped on 29 March; an opening among it comes after the gap.
        ("02:30-05:00", "2026-03-29T03:00+02:00 2026-03-29T05:00+02:00"),
        ("02:00-05:00", "2026-03-29T03:00+02:00 2026-03-29T05:00+02:00"),
        ("03:00-05:00", "2026-03-29T03:00+02:00 2026-03-29T05:00+02:00"),
        # An end among it comes with the gap, and the hour before it is all that is left.
        ("01:00-02:30", "2026-03-29T01:00+01:00 2026-03-29T03:00+02:00"),
        ("01:00-02:00", "2026-03-29T01:00+01:00 2026-03-29T03:00+02:00"),
        ("01:00-04:00", "2026-03-29T01:00+01:00 2026-03-29T04:00+02:00"),
        # 02:00 to 03:00 comes twice on 25 October.
        ("02:00-05:00", "2026-10-25T02:00+02:00 2026-10-25T05:00+01:00"),
        ("03:00-05:00", "2026-10-25T03:00+01:00 2026-10-25T05:00+01:00"),
        ("01:00-03:00", "2026-10-25T01:00+02:00 2026-10-25T03:00+01:00"),
    ],
)
def test_the_clocks_change_in_berlin(text, expected):
    day = expected[:10]

    assert openings(f"{text} {BERLIN}", day, until=f"{day}T12:00") == [expected]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("02:30-05:00", "2026-03-08T03:00-04:00 2026-03-08T05:00-04:00"),
        ("01:00-02:30", "2026-03-08T01:00-05:00 2026-03-08T03:00-04:00"),
        ("01:00-05:00", "2026-11-01T01:00-04:00 2026-11-01T05:00-05:00"),
        ("00:30-02:00", "2026-11-01T00:30-04:00 2026-11-01T02:00-05:00"),
    ],
)
def test_the_clocks_change_in_new_york(text, expected):
    day = expected[:10]

    assert openings(f"{text} {NEW_YORK}", day, until=f"{day}T12:00") == [expected]


def test_a_window_that_begins_or_ends_among_hours_shown_twice_opens_twice():
    assert openings(f"02:30-05:00 {BERLIN}", "2026-10-25", until="2026-10-25T12:00") == [
        "2026-10-25T02:30+02:00 2026-10-25T02:00+01:00",
        "2026-10-25T02:30+01:00 2026-10-25T05:00+01:00",
    ]
    assert openings(f"00:00-01:30 {NEW_YORK}", "2026-11-01", until="2026-11-01T12:00") == [
        "2026-11-01T00:00-04:00 2026-11-01T01:30-04:00",
        "2026-11-01T01:00-05:00 2026-11-01T01:30-05:00",
    ]


def test_a_window_that_the_clocks_skip_does_not_open_that_day():
    found = openings(f"02:10-02:50 {BERLIN}", "2026-03-28T12:00", until="2026-03-31")

    assert found == ["2026-03-30T02:10+02:00 2026-03-30T02:50+02:00"]


@pytest.mark.parametrize(
    ("zone", "day", "elapsed"),
    [
        (BERLIN, "2026-03-28", 7),
        (BERLIN, "2026-03-29", 8),
        (BERLIN, "2026-10-24", 9),
        (NEW_YORK, "2026-03-07", 7),
        (NEW_YORK, "2026-10-31", 9),
    ],
)
def test_a_night_over_the_change_keeps_its_ends_and_is_longer_or_shorter(zone, day, elapsed):
    window = parse_window(f"22:00-06:00 {zone}")

    opens = window.opens_at(moment(f"{day}T12:00", zone))
    closes = closes_at(window, opens)

    assert opens == moment(f"{day}T22:00", zone)
    assert closes - opens == elapsed * 60 * MINUTE
    assert local(closes, zone)[11:16] == "06:00"


def test_a_whole_day_that_a_zone_skips_does_not_open():
    # Samoa went over the date line and had no 30 December 2011, which was a Friday.
    found = openings("Fri Pacific/Apia", "2011-12-26", until="2012-01-08")

    assert found == ["2012-01-06T00:00+14:00 2012-01-07T00:00+14:00"]


@pytest.mark.parametrize(
    ("text", "share"),
    [("Mon-Sun", 1), ("Mon", 1 / 7), ("12:00-00:00", 0.5), ("Sun 18:00-06:00, Mon", 30 / 168)],
)
def test_the_share_counts_overlaps_once(text, share):
    assert parse_window(text).share == pytest.approx(share)


times = st.integers(0, DAY - 1) | st.integers(0, 23).map(lambda hour: hour * 60)
ranges = st.tuples(
    st.none() | st.tuples(st.integers(0, 6), st.integers(0, 6)),
    st.none() | st.tuples(times, times | st.just(DAY)).filter(lambda pair: pair[0] != pair[1]),
).filter(lambda pair: pair != (None, None))
changes = [
    "2026-03-29T01:00", "2026-10-25T01:00", "2026-03-08T07:00", "2026-11-01T06:00",
    "2026-04-04T15:00", "2026-10-03T15:30", "2011-12-30T10:00", "1972-01-07T00:44",
    "2040-10-20T00:00",
]  # fmt: skip
moments = st.one_of(
    st.datetimes(datetime(1970, 1, 1), datetime(2060, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001
    st.builds(
        lambda change, by: datetime.fromisoformat(change).replace(tzinfo=UTC) + by,
        st.sampled_from(changes),
        st.timedeltas(timedelta(days=-2), timedelta(days=1)),
    ),
).map(from_datetime)
drawn_windows = st.tuples(st.lists(ranges, min_size=1, max_size=4), st.sampled_from(ZONES))


def text_of(drawn):
    parts, zone = drawn
    return f"{', '.join(part_text(*part) for part in parts)} {zone}"


def part_text(days, span):
    words = []
    if days is not None:
        words.append("-".join(NAMES[day] for day in days))
    if span is not None:
        words.append("-".join(f"{time // 60:02}:{time % 60:02}" for time in span))
    return " ".join(words)


def shows_open(drawn, at):
    """Whether a window is open, told from its parts and the clocks without any arithmetic."""
    parts, zone = drawn
    shown = to_datetime(at).astimezone(ZoneInfo(zone))
    time, today, yesterday = shown.hour * 60 + shown.minute, shown.weekday(), shown.weekday() - 1
    return any(
        (has_day(days, today) and begin <= time and (time < end or end < begin))
        or (has_day(days, yesterday) and end < begin and time < end)
        for days, span in parts
        for begin, end in [span or (0, DAY)]
    )


def has_day(days, day):
    if days is None:
        return True
    first, last = days
    return (day - first) % 7 <= (last - first) % 7


@given(drawn_windows, moments)
def test_it_is_open_exactly_when_its_clocks_show_a_time_within_a_part(drawn, start):
    window = parse_window(text_of(drawn))

    hours_of_a_week = [start + hour * 60 * MINUTE for hour in range(7 * 24)]

    assert [window.is_open(at) for at in hours_of_a_week] == [
        shows_open(drawn, at) for at in hours_of_a_week
    ]


@settings(deadline=None)
@given(drawn_windows, moments)
@example(([((6, 6), (130, 170))], BERLIN), moment("2026-03-23T00:00"))
def test_it_opens_at_an_open_moment_and_at_none_before(drawn, start):
    window = parse_window(text_of(drawn))

    opens = window.opens_at(start)

    assert shows_open(drawn, opens)
    assert not any(shows_open(drawn, at) for at in every_minute(start, opens))


@settings(deadline=None)
@given(drawn_windows, moments)
def test_it_closes_at_a_closed_moment_and_at_none_before(drawn, start):
    window = parse_window(text_of(drawn))

    closes = closes_at(window, start)

    until = start + WEEK * MINUTE if closes is None else closes
    assert closes is None or not shows_open(drawn, closes)
    assert all(shows_open(drawn, at) for at in every_minute(start, until))


def every_minute(start, end):
    """Each minute from `start` until before `end`, and the last moment before `end`."""
    yield from range(start, end, MINUTE)
    if start < end:
        yield end - 1


@settings(deadline=None, max_examples=50)
@given(drawn_windows)
def test_the_share_is_that_of_the_open_minutes_of_a_week(drawn):
    window = parse_window(text_of((drawn[0], "UTC")))

    monday = moment(MONDAY)
    count = sum(window.is_open(monday + minute * MINUTE) for minute in range(WEEK))

    assert window.share == pytest.approx(count / WEEK)
