"""The rules of promises and plans: pure, so that every case is tried without a database."""

from datetime import timedelta

import pytest

from windlass import BadInput
from windlass.clock import SECOND, to_datetime
from windlass.core.limit.store import Switch
from windlass.core.limit.switch import Setting
from windlass.ring import assign
from windlass.value.calendar.window import parse_window
from windlass.watch.promise.model.judge import (
    BacklogFacts,
    RoundFacts,
    backlogs_together,
    judge_backlog,
    judge_flow,
    judge_round,
)
from windlass.watch.promise.model.pace import Hold, KindPace, together
from windlass.watch.promise.model.plan import basis_of, plan_ring, wanted_workers
from windlass.watch.promise.model.promise import cure_of

MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
NOW = 1_800_000_000 * SECOND


def pace(
    *, off=False, window=None, rate=None, concurrency=None, is_broken=False, **facts
) -> KindPace:
    found = {"measured": 10.0, "busy": 1_000.0, "is_pressed": True, "workers": 2, **facts}
    shown = None if window is None else parse_window(window)
    pauses = (Switch("offer", off=True),) if off else ()
    return KindPace(setting=Setting(pauses, shown, rate, concurrency), is_broken=is_broken, **found)


def test_the_speed_is_what_was_measured_while_rows_wait():
    assert pace().speed == 10.0
    assert pace(rate=4.0).speed == 4.0


def test_without_pressure_the_speed_follows_from_the_time_of_a_run():
    # 100 ms a run, 2 workers with 50 at once.
    assert pace(is_pressed=False, concurrency=50).speed == pytest.approx(1_000)
    assert pace(is_pressed=False, concurrency=50, most_workers=1).speed == pytest.approx(500)
    assert pace(is_pressed=False, measured=0.0, busy=0.0).speed is None


def test_a_kind_at_its_rate_could_go_faster():
    held = pace(rate=10.0, concurrency=5)

    assert held.is_held_by_rate
    assert held.speed == 10.0
    assert held.without_rate == pytest.approx(100)


@pytest.mark.parametrize(
    ("facts", "hold"),
    [
        ({"off": True}, Hold.PAUSED),
        ({"is_broken": True}, Hold.BREAKER),
        ({"workers": 0}, Hold.WORKER),
        ({"window": "01:00-07:00"}, None),
    ],
)
def test_what_keeps_a_kind_from_running(facts, hold):
    found = pace(**facts)

    assert found.hold is hold
    assert (found.speed == 0.0) is (hold is not None)


def test_a_change_scales_what_workers_reach():
    found = pace(concurrency=10)

    assert found.changed(workers=4).speed == pytest.approx(20)
    assert found.changed(workers=1, concurrency=20).speed == pytest.approx(10)
    assert found.changed(rate=3.0).speed == 3.0
    assert found.changed(workers=0).speed == 0.0
    # Nobody runs it: 100 ms a run, 2 workers with 100 at once.
    idle = pace(workers=0, is_pressed=False)
    assert idle.speed == 0.0
    assert idle.changed(workers=2).speed == pytest.approx(2_000)
    assert idle.changed(workers=2, rate=300.0).speed == 300.0
    assert pace(rate=5.0, measured=5.0).changed(rate=0.0).speed > 5.0


def test_ranges_bound_how_many_workers_help():
    found = pace(workers=2, most_workers=2)

    assert found.changed(workers=8).speed == pytest.approx(10)
    assert found.changed(workers=8, ranges=8).speed == pytest.approx(40)


def test_shards_are_summed():
    assert together([pace().changed(workers=4), pace()]).speed == pytest.approx(30)

    found = together([pace(), pace(is_broken=True, workers=3)])

    assert (found.measured, found.workers, found.hold) == (20.0, 3, Hold.BREAKER)


@pytest.mark.parametrize(
    ("facts", "cure"),
    [
        ({"off": True}, "resume it: windlass resume offer"),
        ({"is_broken": True}, "cure its errors, and close its breaker: windlass resume offer"),
        ({"workers": 0}, "start a worker: windlass worker"),
        ({"rate": 10.0, "concurrency": 100}, "a higher rate: windlass set offer --rate 25/s"),
        ({}, "more workers: 5 workers instead of 2"),
        ({"concurrency": 3}, "more workers: 5 workers instead of 2, or a higher concurrency"),
        ({"most_workers": 2}, "more workers and ranges: 5 of both instead of 2"),
        (
            {"window": "01:00-07:00", "measured": 60.0},
            (
                "a longer window than 01:00-07:00 (42 h a week): windlass set offer --window ...; "
                "more workers: 4 workers instead of 2"
            ),
        ),
    ],
)
def test_the_cure_names_what_holds_a_kind_back(facts, cure):
    found = pace(**facts)

    assert cure_of("offer", found, speed=found.speed, needed=25.0) == cure


def test_a_queue_breaks_its_promise_when_a_row_will_have_waited_too_long():
    # 12,000 rows at 10 a second take 20 minutes; the oldest became due just now.
    found = judge_backlog("mail", "task", 10 * MINUTE, BacklogFacts(pace(), 12_000, NOW), now=NOW)

    assert found.state == "at risk"
    assert found.breaks_at == to_datetime(NOW + 10 * MINUTE)
    assert found.needed_rate == pytest.approx(20)
    assert found.forecast.endswith("at the present 10/s; needs 20/s")


def test_a_queue_that_is_done_in_time_keeps_its_promise():
    found = judge_backlog("mail", "task", 10 * MINUTE, BacklogFacts(pace(), 600, NOW), now=NOW)

    assert (found.state, found.cure, found.breaks_at) == ("kept", None, None)
    assert found.forecast == "it holds; at 10/s what is due is done in 1m"


def test_a_queue_without_a_known_speed_holds_so_far():
    still = pace(measured=0.0, busy=0.0)

    found = judge_backlog("mail", "task", 10 * MINUTE, BacklogFacts(still, 600, NOW), now=NOW)

    assert (found.state, found.forecast) == ("kept", "it holds so far; the speed is not known yet")


def test_a_window_that_opens_too_late_breaks_the_promise():
    # NOW is a Friday at 08:00.
    found = judge_backlog(
        "mail", "task", HOUR, BacklogFacts(pace(window="20:00-21:00"), 1, NOW), now=NOW
    )

    assert found.state == "at risk"
    assert found.breaks_at == to_datetime(NOW + HOUR)


def test_a_round_ends_only_while_its_window_is_open():
    # An hour of work is left, and half an hour is open on each day.
    facts = RoundFacts(
        pace(window="08:00-08:30"), started_at=NOW, is_running=True, percent=10.0, left=36_000.0
    )

    in_time = judge_round("offer", 3 * 24 * HOUR, facts, now=NOW)
    too_late = judge_round("offer", 20 * HOUR, facts, now=NOW)

    assert in_time.ends_at == to_datetime(NOW + 24 * HOUR + 30 * MINUTE)
    assert (in_time.state, too_late.state) == ("kept", "at risk")


def test_a_round_without_a_count_holds_until_its_time_is_over():
    facts = RoundFacts(pace(), started_at=NOW, is_running=True)

    assert judge_round("offer", HOUR, facts, now=NOW + MINUTE).state == "kept"
    late = judge_round("offer", HOUR, facts, now=NOW + 2 * HOUR)
    assert (late.state, late.forecast) == ("broken", "it is broken for 1h")


def test_between_rounds_the_last_one_counts():
    good = judge_round("offer", HOUR, RoundFacts(pace(), last=30 * MINUTE), now=NOW)
    bad = judge_round("offer", HOUR, RoundFacts(pace(), last=90 * MINUTE), now=NOW)
    none = judge_round("offer", HOUR, RoundFacts(pace()), now=NOW)

    assert (good.state, bad.state, none.state) == ("kept", "broken", "unknown")
    assert bad.standing == "the last round took 1h30m"


def test_a_flow_that_usually_takes_too_long_is_at_risk_from_its_start():
    facts = BacklogFacts(pace(), 1, NOW, usual=2 * HOUR, number=7)

    found = judge_flow("load", HOUR, facts, now=NOW + MINUTE)

    assert found.state == "at risk"
    assert found.breaks_at == to_datetime(NOW + HOUR)
    assert found.standing == "the oldest run, 7, goes on for 1m; runs usually take 2h"


def test_the_oldest_of_all_shards_counts():
    parts = [
        BacklogFacts(pace(), 3, NOW),
        BacklogFacts(pace(), 4, NOW - HOUR, number=9),
        BacklogFacts(pace()),
    ]

    found = backlogs_together(parts)

    assert (found.due, found.since, found.number) == (7, NOW - HOUR, 9)
    assert judge_backlog("mail", "task", MINUTE, found, now=NOW).oldest_age == timedelta(hours=1)


@pytest.mark.parametrize(("given", "wanted"), [("+2", 5), ("-1", 2), ("7", 7), ("-3", 0)])
def test_workers_are_added_taken_away_or_counted(given, wanted):
    assert wanted_workers(given, 3) == wanted


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("-4", "workers: -4 of 3 leaves -1; there cannot be fewer than 0"),
        ("many", "workers: cannot read 'many'; write +2, -1 or 4"),
        ("", "cannot read ''"),
        ("1.5", "cannot read '1.5'"),
        ("+20000", "too many"),
    ],
)
def test_a_number_of_workers_that_cannot_be_is_refused(given, why):
    with pytest.raises(BadInput) as refused:
        wanted_workers(given, 3)

    assert why in str(refused.value)


def test_a_ring_with_fewer_workers_is_what_assign_says():
    before, after = assign([1, 2, 3, 4]), assign([1, 2])
    owners = {bucket: member for member, run in before.items() for bucket in run}

    found = plan_ring("shop.db", [3, 1, 4, 2], 2)

    assert (found.workers_before, found.workers_after) == (4, 2)
    assert (found.buckets_before, found.buckets_after) == (64, 128)
    moving = sum(owners[bucket] != member for member, run in after.items() for bucket in run)
    assert found.moving == moving > 0


def test_the_first_worker_gets_every_bucket_and_the_last_one_leaves_them():
    assert plan_ring("shop.db", [], 1).moving == 256
    assert plan_ring("shop.db", [1], 0).moving == 256
    assert plan_ring("shop.db", [], 0).moving == 0
    assert plan_ring("shop.db", [1, 2], 2).moving == 0


def test_the_basis_says_what_was_measured():
    assert basis_of(pace(rate=700.0, concurrency=50, window="01:00-07:00")) == (
        "100 ms a run, 10/s in the last minutes; 2 workers, each runs up to 50 at once; "
        "rate 700/s; window 01:00-07:00"
    )
    assert basis_of(pace(measured=0.0, busy=0.0, workers=1)).startswith(
        "no run in the last 10 minutes, so its speed is not known; 1 worker"
    )
