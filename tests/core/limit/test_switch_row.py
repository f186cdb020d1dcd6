"""The row of a switch: what it records, what it refuses, and what somebody else writes into it."""

from contextlib import closing

import pytest

from tests.core.run.working import listening, sql, switch_of, working
from tests.wait import eventually
from windlass import App, BadInput, UnknownKind


@pytest.fixture
def database_url(sqlite_url):
    """A row is read alike in every database; the switch tests write some into all of them."""
    return sqlite_url


@pytest.fixture
def seen():
    return []


def declare(app, name, seen, **options):
    """A task kind that notes its runs under its name."""

    @app.task(name=name, **options)
    def run() -> None:
        seen.append(name)

    return run


@pytest.fixture
def work(app, seen):
    """The kind that is switched."""
    return declare(app, "work", seen, breaker="3 in a row, 1m", concurrency=2)


@pytest.fixture
def other(app, seen):
    """A kind that nobody switches."""
    return declare(app, "other", seen)


UNREADABLE = [
    ("rate", "fast"),
    ("rate", ""),
    ("rate", "-5/s"),
    ("rate", "0/s"),
    ("time_window", "whenever"),
    ("time_window", ""),
    ("time_window", "25:00-26:00"),
    ("time_window", "01:00-02:00 Mars/Base"),
    ("concurrency", 0),
    ("concurrency", -3),
    ("breaker", 9),
]


@pytest.mark.parametrize(("column", "value"), UNREADABLE)
def test_what_cannot_be_read_in_a_row_is_told_and_not_followed(
    app, work, other, seen, column, value
):
    statement = f"insert into windlass_switch (kind, {column}) values ('work', :value)"
    sql(app, statement, value=value)
    work.enqueue()
    other.enqueue()
    with listening("switch.unreadable", "loop.failed") as heard:
        app.drain()

    assert sorted(seen) == ["other", "work"]
    assert [(event.name, event.fields["kind"]) for event in heard] == [
        ("switch.unreadable", "work")
    ]


def test_text_where_sqlite_expects_a_number_is_told_and_not_followed(sqlite_url, clock, seen):
    with closing(App(sqlite_url, clock=clock)) as app, listening("switch.unreadable") as heard:
        declare(app, "work", seen).enqueue()
        sql(app, "insert into windlass_switch (kind, concurrency) values ('work', 'many')")
        app.drain()

    assert seen == ["work"]
    assert [event.fields["kind"] for event in heard] == ["work"]


@pytest.mark.parametrize("state", [1, 2])
def test_a_breaker_opened_by_hand_without_times_stops_no_other_kind(app, work, other, seen, state):
    sql(app, "insert into windlass_switch (kind, breaker) values ('work', :state)", state=state)
    work.enqueue()
    other.enqueue()
    with listening("loop.failed") as heard:
        app.drain()

    assert "other" in seen
    assert heard == []


def test_a_running_worker_survives_a_row_that_becomes_unreadable(app, work, seen):
    app.set("work", rate="1000/s", window="00:00-01:00")
    names = ("switch.unreadable", "kind.held_back", "loop.failed")
    with working(app), listening(*names) as heard:
        sql(app, "update windlass_switch set rate = '???', time_window = '???', concurrency = -1")
        eventually(lambda: heard, 3.0, what="the event")
        work.enqueue()
        eventually(lambda: seen == ["work"])

        sql(app, "update windlass_switch set off = 1")
        eventually(lambda: heard[-1].name == "kind.held_back", what="the row that is read again")
    assert [event.name for event in heard] == ["switch.unreadable", "kind.held_back"]


def test_an_unreadable_row_still_switches_its_kind_off(app, work, seen):
    work.enqueue()
    sql(app, "insert into windlass_switch (kind, off, rate) values ('work', 1, '???')")

    app.drain()

    assert seen == []


def test_rows_of_kinds_that_nobody_declares_are_no_concern_of_ours(app, work, seen):
    work.enqueue()
    sql(app, "insert into windlass_switch (kind, off, rate) values ('strange', 1, '???')")

    with listening("switch.unreadable") as heard:
        app.drain()

    assert (seen, heard) == (["work"], [])


@pytest.mark.parametrize(
    "act",
    [
        lambda app: app.pause("wrok"),
        lambda app: app.resume("wrok"),
        lambda app: app.set("wrok", rate="5/s"),
    ],
    ids=["pause", "resume", "set"],
)
def test_an_unknown_kind_is_refused_and_leaves_no_row(app, other, act):
    with pytest.raises(UnknownKind, match="kind 'wrok' is not declared in this app; declared:"):
        act(app)

    assert switch_of(app, "wrok") is None


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, "kind 'other': nothing to set; give rate=, window= or concurrency="),
        ({"rate": "fast"}, "kind 'other': rate: cannot read 'fast'"),
        ({"rate": "0/s"}, "kind 'other': rate: '0/s' is too slow"),
        ({"rate": 700}, "kind 'other': rate: cannot read 700"),
        ({"rate": ""}, "kind 'other': rate: cannot read ''"),
        ({"window": "late"}, "kind 'other': window: cannot read 'late'"),
        ({"window": ""}, "kind 'other': window: '' is empty"),
        ({"window": 7}, "kind 'other': window: cannot read 7"),
        ({"window": "01:00-02:00 Mars/Base"}, "time zone 'Mars/Base' is not known"),
        ({"concurrency": 0}, "kind 'other': concurrency=0 is not a number from 1 on"),
        ({"concurrency": True}, "kind 'other': concurrency=True is not a number from 1 on"),
        ({"concurrency": "3"}, "kind 'other': concurrency='3' is not a number from 1 on"),
        ({"concurrency": 1.5}, "kind 'other': concurrency=1.5 is not a number from 1 on"),
        ({"concurrency": 10**12}, "kind 'other': concurrency=1000000000000 is not"),
        ({"rate": "5/s", "window": "late"}, "kind 'other': window: cannot read 'late'"),
        ({"concurrency": 0, "rate": "5/s"}, "kind 'other': concurrency=0"),
    ],
)
def test_a_bad_value_is_refused_and_nothing_changes(app, other, options, problem):
    app.set("other", rate="7/s", window="01:00-02:00", concurrency=4)
    before = switch_of(app, "other")

    with pytest.raises(BadInput) as raised:
        app.set("other", **options)

    assert problem in str(raised.value)
    assert switch_of(app, "other") == before


def test_a_rate_too_slow_for_any_clock_stops_no_other_kind(app, work, other, seen):
    try:
        app.set("work", rate="0.000000001/d")
    except BadInput:
        assert switch_of(app, "work") is None
        return
    work.enqueue()
    other.enqueue()

    with working(app):
        eventually(lambda: "other" in seen, 3.0, what="the other kind")


# What is recorded


def test_a_pause_records_who_why_and_since_when(app, other, clock):
    clock.forward("3h")
    before = clock.now()

    app.pause("other", reason="sale", who="ann")

    row = switch_of(app, "other")
    assert (row["off"], row["reason"], row["who"]) == (1, "sale", "ann")
    assert before < row["since"] <= clock.now()


def test_without_a_name_the_operator_is_the_user_of_this_machine(app, other):
    app.pause("other")

    row = switch_of(app, "other")
    assert row["who"]
    assert row["reason"] is None


def test_a_second_pause_says_the_newer_reason(app, other):
    app.pause("other", reason="sale", who="ann")
    app.pause("other", reason="fire", who="bob")

    row = switch_of(app, "other")
    assert (row["reason"], row["who"]) == ("fire", "bob")


def test_resume_forgets_who_and_why_and_keeps_what_was_set(app, other):
    app.set("other", rate="5/s", window="01:00-02:00", concurrency=2)
    app.pause("other", reason="sale", who="ann")

    app.resume("other")

    row = switch_of(app, "other")
    assert (row["off"], row["reason"], row["who"], row["since"]) == (0, None, None, None)
    assert (row["rate"], row["time_window"], row["concurrency"]) == ("5/s", "01:00-02:00", 2)


def test_set_changes_what_it_is_given_and_nothing_else(app, other):
    app.pause("other", reason="sale", who="ann")
    app.set("other", rate="5/s", concurrency=2)
    app.set("other", window="01:00-02:00")
    app.set("other", rate=None)

    row = switch_of(app, "other")
    assert (row["rate"], row["time_window"], row["concurrency"]) == (None, "01:00-02:00", 2)
    assert (row["off"], row["who"]) == (1, "ann")


def test_resuming_what_is_not_paused_changes_nothing(app, other, seen):
    app.resume("other")
    app.resume("other")

    other.enqueue()
    app.drain()

    assert seen == ["other"]
