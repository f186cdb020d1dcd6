"""Schedules: the next turn, in a time zone, through daylight-saving changes."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from windlass import BadSchedule
from windlass.clock import SECOND, from_datetime, to_datetime
from windlass.value.cron import Schedule, schedule_of
from windlass.value.period import parse_tick

BERLIN = "Europe/Berlin"


def moment(text, zone="UTC"):
    return from_datetime(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)))


def turns(schedule, start, count):
    """The next turns after `start`, in the schedule's own zone with its offset."""
    found = []
    for _ in range(count):
        start = schedule.next_after(start)
        found.append(to_datetime(start).astimezone(ZoneInfo(schedule.zone)).isoformat())
    return found


@pytest.mark.parametrize(
    ("expression", "after", "expected"),
    [
        ("* * * * *", "2026-01-01T00:00", "2026-01-01T00:01"),
        ("*/15 * * * *", "2026-01-01T00:16", "2026-01-01T00:30"),
        ("0 3 * * *", "2026-01-01T03:00", "2026-01-02T03:00"),
        ("0 3 * * *", "2026-01-01T02:59:59", "2026-01-01T03:00"),
        ("0 0 1 * *", "2026-01-15T12:00", "2026-02-01T00:00"),
        ("0 0 29 2 *", "2026-01-01T00:00", "2028-02-29T00:00"),
        ("30 9 * * MON-FRI", "2026-01-02T10:00", "2026-01-05T09:30"),
        ("0 12 * JAN SUN", "2026-01-04T12:00", "2026-01-11T12:00"),
    ],
)
def test_the_next_turn_is_the_first_one_later_than_the_moment(expression, after, expected):
    assert Schedule(expression).next_after(moment(after)) == moment(expected)


def test_a_moment_within_a_turns_minute_is_after_it():
    schedule = Schedule("0 3 * * *")

    assert schedule.next_after(moment("2026-01-01T03:00") + 1) == moment("2026-01-02T03:00")
    assert schedule.next_after(moment("2026-01-01T03:00") - 1) == moment("2026-01-01T03:00")


def test_the_fields_are_of_the_schedules_time_zone():
    shanghai = Schedule("0 3 * * *", "Asia/Shanghai")
    new_york = Schedule("0 3 * * *", "America/New_York")

    assert shanghai.next_after(moment("2026-01-01T00:00")) == moment("2026-01-01T19:00")
    assert new_york.next_after(moment("2026-01-01T00:00")) == moment("2026-01-01T08:00")
    assert new_york.next_after(moment("2026-07-01T00:00")) == moment("2026-07-01T07:00")


def test_a_time_that_the_clocks_skip_comes_right_after_the_gap():
    schedule = Schedule("30 2 * * *", BERLIN)

    found = turns(schedule, moment("2026-03-28T12:00", BERLIN), 2)

    assert found == ["2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"]


def test_a_time_that_the_clocks_show_twice_comes_once_the_first_time():
    schedule = Schedule("30 2 * * *", BERLIN)

    found = turns(schedule, moment("2026-10-24T12:00", BERLIN), 2)

    assert found == ["2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"]


def test_every_few_minutes_follows_real_time_when_the_clocks_go_forward():
    schedule = Schedule("*/30 * * * *", BERLIN)

    found = turns(schedule, moment("2026-03-29T01:15", BERLIN), 3)

    assert found == [
        "2026-03-29T01:30:00+01:00",
        "2026-03-29T03:00:00+02:00",
        "2026-03-29T03:30:00+02:00",
    ]


def test_every_few_minutes_follows_real_time_when_the_clocks_go_back():
    schedule = Schedule("*/30 * * * *", BERLIN)

    found = turns(schedule, from_datetime(datetime(2026, 10, 24, 23, 59, tzinfo=UTC)), 5)

    assert found == [
        "2026-10-25T02:00:00+02:00",
        "2026-10-25T02:30:00+02:00",
        "2026-10-25T02:00:00+01:00",
        "2026-10-25T02:30:00+01:00",
        "2026-10-25T03:00:00+01:00",
    ]


@pytest.mark.parametrize("zone", [BERLIN, "America/New_York", "Australia/Lord_Howe", "UTC"])
@pytest.mark.parametrize("expression", ["30 2 * * *", "0 * * * *", "15 1,2,3 * * *"])
def test_turns_always_move_forward_through_a_whole_year(expression, zone):
    schedule = Schedule(expression, zone)
    turn, end = moment("2026-01-01T00:00"), moment("2027-01-01T00:00")
    count = 0

    while turn < end:
        later = schedule.next_after(turn)
        assert later > turn
        turn, count = later, count + 1

    daily = {"30 2 * * *": 1, "0 * * * *": 24, "15 1,2,3 * * *": 3}
    expected = 365 * daily[expression]
    assert abs(count - expected) <= 2


def test_missed_turns_collapse_into_one():
    schedule = Schedule("0 * * * *")

    found = schedule.next_turn(last=moment("2026-01-01T01:00"), now=moment("2026-01-01T05:30"))

    assert found == moment("2026-01-01T06:00")


def test_catchup_takes_each_missed_turn():
    schedule = Schedule("0 * * * *", catchup=True)

    found = schedule.next_turn(last=moment("2026-01-01T01:00"), now=moment("2026-01-01T05:30"))

    assert found == moment("2026-01-01T02:00")


def test_a_turn_that_was_run_early_is_not_run_again():
    schedule = Schedule("0 * * * *")

    found = schedule.next_turn(last=moment("2026-01-01T01:00"), now=moment("2026-01-01T00:59"))

    assert found == moment("2026-01-01T02:00")


def test_a_standing_row_knows_its_schedule():
    schedule = Schedule("0 3 * * *", BERLIN, catchup=True)
    payload = schedule.as_payload(turn=7)

    assert schedule.is_in(payload)
    assert not Schedule("0 4 * * *", BERLIN, catchup=True).is_in(payload)
    assert not Schedule("0 3 * * *", "UTC", catchup=True).is_in(payload)
    assert not Schedule("0 3 * * *", BERLIN).is_in(payload)
    assert not schedule.is_in("{}")
    assert not schedule.is_in("not json")


@pytest.mark.parametrize(
    ("expression", "zone", "said"),
    [
        ("61 * * * *", "UTC", "cron '61 * * * *' cannot be read"),
        ("* 25 * * *", "UTC", "cannot be read"),
        ("a b c d e", "UTC", "cannot be read"),
        ("*/0 * * * *", "UTC", "cannot be read"),
        ("0 0 30 2 *", "UTC", "cron '0 0 30 2 *'"),
        ("0 3 * *", "UTC", "does not have five fields"),
        ("0 0 0 3 * * *", "UTC", "does not have five fields"),
        ("@often", "UTC", "does not have five fields"),
        ("", "UTC", "does not have five fields"),
        (None, "UTC", "does not have five fields"),
        ("0 3 * * *", "Mars/Olympus", "time zone 'Mars/Olympus' is not known"),
        ("0 3 * * *", "", "is not known"),
        ("0 3 * * *", "../etc/passwd", "is not known"),
        ("0 3 * * *", None, "time zone None is not known"),
    ],
)
def test_a_bad_schedule_is_refused_with_the_value(expression, zone, said):
    with pytest.raises(BadSchedule) as raised:
        Schedule(expression, zone)

    assert said in str(raised.value)


class Standing:
    """The standing row of a cron, moved by hand: the turns that it ran, and when."""

    def __init__(self, schedule: Schedule, now: str) -> None:
        self.schedule = schedule
        self.due_at = schedule.next_after(moment(now))
        self.payload = schedule.as_payload(turn=self.due_at)
        self.ran: list[str] = []

    def work(self, begin: str, end: str) -> None:
        """Run every turn that is due, while the clock goes on."""
        now = moment(begin)
        while now <= moment(end):
            if self.due_at <= now:
                self.ran.append(to_datetime(self.due_at).strftime("%H:%M"))
                self.due_at, self.payload = self.schedule.following(
                    self.payload, ran=self.due_at, now=now
                )
            now += 10 * SECOND

    def step_back(self, to: str) -> None:
        found = self.schedule.sooner(self.payload, due_at=self.due_at, now=moment(to))
        if found is not None:
            self.due_at, self.payload = found


def test_after_a_moment_ahead_a_cron_runs_at_its_next_real_turn():
    cron = Standing(Schedule("*/15 * * * *"), "2026-01-01T10:00")

    # For a moment the clock is an hour ahead: one turn comes early, three are skipped.
    cron.work("2026-01-01T11:00:10", "2026-01-01T11:00:20")
    cron.step_back("2026-01-01T10:00:30")
    cron.work("2026-01-01T10:00:30", "2026-01-01T11:20")

    assert cron.ran == ["10:15", "10:30", "10:45", "11:00", "11:15"]


def test_turns_that_came_while_the_clock_was_ahead_do_not_come_again():
    cron = Standing(Schedule("*/15 * * * *"), "2026-01-01T10:00")

    cron.work("2026-01-01T11:05", "2026-01-01T11:50")
    cron.step_back("2026-01-01T10:50")
    cron.work("2026-01-01T10:50", "2026-01-01T12:20")

    # Those that were skipped come, if their time is yet to come.
    early = ["10:15", "11:15", "11:30", "11:45"]
    assert cron.ran == [*early, "11:00", "12:00", "12:15"]


def test_an_hour_that_was_run_is_not_run_again():
    """The clock was ahead for long, and is right now."""
    cron = Standing(Schedule("*/15 * * * *"), "2026-01-01T10:00")

    cron.work("2026-01-01T10:00", "2026-01-01T12:00")
    cron.step_back("2026-01-01T11:00")
    cron.work("2026-01-01T11:00", "2026-01-01T12:30")

    assert cron.ran == sorted(set(cron.ran))
    assert cron.ran[-3:] == ["12:00", "12:15", "12:30"]


def test_a_cron_that_runs_while_the_clock_steps_back_finds_its_next_real_turn():
    schedule = Schedule("*/15 * * * *")
    cron = Standing(schedule, "2026-01-01T10:00")
    cron.work("2026-01-01T11:00:10", "2026-01-01T11:00:20")

    # The turn of 11:15 begins, and ends after the step.
    turn, _payload = schedule.following(
        cron.payload, ran=moment("2026-01-01T11:15"), now=moment("2026-01-01T10:15:01")
    )

    assert turn == moment("2026-01-01T10:30")


def test_without_a_step_back_no_turn_comes_sooner():
    cron = Standing(Schedule("*/15 * * * *"), "2026-01-01T10:00")

    cron.work("2026-01-01T10:00", "2026-01-01T10:20")
    due_at = cron.due_at
    cron.step_back("2026-01-01T10:20")

    assert cron.due_at == due_at


def test_a_retry_is_not_taken_for_a_turn():
    schedule = Schedule("*/15 * * * *")
    turn = moment("2026-01-01T12:00")

    payload, retry_at = schedule.as_payload(turn=turn), turn + 60 * SECOND
    assert schedule.sooner(payload, due_at=retry_at, now=moment("2026-01-01T10:00")) is None


def test_a_row_of_another_schedule_follows_the_new_one():
    payload = Schedule("0 * * * *").as_payload(turn=moment("2026-01-01T10:00"))
    now = moment("2026-01-01T10:00:10")

    new = Schedule("*/5 * * * *")
    turn, following = new.following(payload, ran=moment("2026-01-01T10:00"), now=now)

    assert turn == moment("2026-01-01T10:05")
    assert new.is_in(following)


@pytest.mark.parametrize(
    ("expression", "fields"), [("@daily", "0 0 * * *"), ("@hourly", "0 * * * *")]
)
def test_a_name_is_the_expression_that_it_stands_for(expression, fields):
    assert Schedule(expression, "Asia/Shanghai") == Schedule(fields, "Asia/Shanghai")


def test_seconds_come_first_in_six_fields():
    begin = from_datetime(datetime(2026, 1, 1, tzinfo=UTC))
    ten = Schedule("*/10 * * * * *")

    assert ten.next_after(begin) == begin + 10_000_000
    assert ten.next_after(begin + 10_000_000) == begin + 20_000_000
    assert ten.around(begin + 25_000_000) == (begin + 20_000_000, begin + 30_000_000)
    assert Schedule("30 0 3 * * *").next_after(begin) == begin + (3 * 3600 + 30) * 1_000_000


def test_turns_a_fixed_time_apart_are_aligned_to_the_epoch():
    every = Schedule.every("90s")

    assert every.expression == "@every 1m30s"
    assert every == Schedule("@every 1m30s")
    assert (every.next_after(0), every.next_after(90_000_000)) == (90_000_000, 180_000_000)
    assert every.next_after(89_999_999) == 90_000_000
    assert every.around(100_000_000) == (90_000_000, 180_000_000)


def test_seconds_go_on_through_changes_of_the_clocks():
    ten = Schedule("*/10 * * * * *", "Europe/Berlin")
    for day in (
        datetime(2026, 3, 29, 0, 59, 30, tzinfo=UTC),
        datetime(2026, 10, 25, 0, 59, 30, tzinfo=UTC),
    ):
        turn = begin = from_datetime(day)
        for number in range(1, 10):
            turn = ten.next_after(turn)
            assert turn == begin + number * 10_000_000


def test_a_fixed_second_in_a_skipped_hour_comes_after_the_gap_and_in_a_repeated_one_once():
    daily = Schedule("30 30 2 * * *", "Europe/Berlin")

    spring = daily.next_after(from_datetime(datetime(2026, 3, 28, 12, tzinfo=UTC)))
    autumn = daily.next_after(from_datetime(datetime(2026, 10, 24, 12, tzinfo=UTC)))

    assert to_datetime(spring).astimezone(UTC).date().isoformat() == "2026-03-29"
    assert spring >= from_datetime(datetime(2026, 3, 29, 1, tzinfo=UTC))
    assert to_datetime(autumn) == datetime(2026, 10, 25, 0, 30, 30, tzinfo=UTC)
    assert to_datetime(daily.next_after(autumn)).day == 26


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"expression": None, "every": None}, "and not both"),
        ({"expression": "@daily", "every": "1m"}, "and not both"),
        ({"expression": None, "every": "100ms"}, "shorter than a second"),
        ({"expression": None, "every": "soon"}, "soon"),
        ({"expression": None, "every": "1m", "zone": "Asia/Shanghai"}, "leave it out"),
        ({"expression": "@often", "every": None}, "@daily"),
        ({"expression": "99 * * * * *", "every": None}, "cannot be read"),
    ],
)
def test_a_schedule_that_cannot_be_is_refused(given, said):
    with pytest.raises(BadSchedule, match=said):
        schedule_of(given["expression"], given["every"], given.get("zone", "UTC"))


@pytest.mark.parametrize(
    ("tick", "expression", "zone"),
    [
        ("0 2 * * *", "0 2 * * *", "UTC"),
        ("0 2 * * * Asia/Shanghai", "0 2 * * *", "Asia/Shanghai"),
        ("*/10 * * * * *", "*/10 * * * * *", "UTC"),
        ("*/10 * * * * MON Europe/Berlin", "*/10 * * * * MON", "Europe/Berlin"),
        ("@daily Europe/Berlin", "0 0 * * *", "Europe/Berlin"),
        ("@daily", "0 0 * * *", "UTC"),
    ],
)
def test_a_tick_may_have_seconds_a_name_and_a_zone(tick, expression, zone):
    found = parse_tick(tick, what="tick")

    assert found._schedule == Schedule(expression, zone)
