"""Trouble is found by itself: each rule raises one alert for its cause and resolves it."""

from functools import partial

import pytest

from tests.watch.lookout import HOUR, MINUTE, looking_out
from windlass import BadInput, Keys, Overloaded
from windlass.clock import SECOND
from windlass.core.alert.model import Trouble
from windlass.core.alert.store import raise_alert
from windlass.core.ring import store as ring_store
from windlass.core.ring.store import Kinds


@pytest.fixture
def lookout(database_url):
    with looking_out(database_url) as made:
        yield made


def failing_until(app, *, good: list[bool], **options):
    @app.task(**options)
    def send_mail(to: str) -> None:
        if not good:
            raise ConnectionError(f"{to} refused")

    return send_mail


def test_tasks_that_failed_for_good_are_one_alert_with_their_count(lookout):
    send_mail = failing_until(lookout.app, good=[])
    lookout.look()
    send_mail.enqueue_many([{"to": name} for name in "abc"])
    lookout.app.drain()

    lookout.look()

    found = lookout.one("task failed")
    assert (found.kind, found.times, found.severity, found.is_open) == (
        "send_mail",
        3,
        "warning",
        True,
    )
    assert "3 tasks of 'send_mail' failed for good: ConnectionError:" in found.text


def test_a_failure_is_counted_once_however_often_a_watcher_looks(lookout):
    send_mail = failing_until(lookout.app, good=[])
    lookout.look()
    send_mail.enqueue("a")
    lookout.app.drain()

    for _ in range(12):
        lookout.look()
    send_mail.enqueue("b")
    lookout.app.drain()
    lookout.look()

    assert lookout.one("task failed").times == 2


def test_a_retried_failure_raises_nothing_until_the_last_try(lookout):
    send_mail = failing_until(lookout.app, good=[], retries=1, backoff="1m")
    lookout.look()
    send_mail.enqueue("a")
    lookout.app.drain()
    lookout.look()
    assert lookout.open() == []

    lookout.clock.advance(5 * MINUTE)
    lookout.app.drain()
    lookout.look()

    assert lookout.open() == [("task failed", "send_mail")]


def test_what_failed_before_anybody_watched_raises_nothing(lookout):
    failing_until(lookout.app, good=[]).enqueue("a")
    lookout.app.drain()

    lookout.look()
    lookout.look()

    assert lookout.open() == []


def test_failures_that_stop_are_resolved(lookout):
    send_mail = failing_until(lookout.app, good=[])
    lookout.look()
    send_mail.enqueue("a")
    lookout.app.drain()
    lookout.look()

    lookout.look(after=11 * MINUTE)

    found = lookout.one("task failed")
    assert not found.is_open
    assert found.resolved_at is not None
    assert found.resolution == "task failed: it did not happen again"


def test_a_cron_that_failed_is_told_until_it_succeeds(lookout):
    good: list[bool] = []

    @lookout.app.cron("* * * * *")
    def nightly() -> None:
        if not good:
            raise OSError("disk full")

    lookout.app.drain()
    lookout.look()
    lookout.clock.advance(2 * MINUTE)
    lookout.app.drain()
    lookout.look()
    assert lookout.open() == [("cron failed", "nightly")]

    good.append(True)
    lookout.clock.advance(2 * MINUTE)
    lookout.app.drain()
    lookout.look()

    assert lookout.open() == []
    assert lookout.one("cron failed").resolution == "'nightly' has succeeded since"


def test_a_flow_that_failed_is_told(lookout):
    send_mail = failing_until(lookout.app, good=[])

    @lookout.app.flow
    def ship(flow):
        flow.add(send_mail, "a")

    lookout.look()
    ship.start()
    lookout.app.drain()
    lookout.look()

    assert lookout.open() == [("flow failed", "ship"), ("task failed", "send_mail")]


def test_a_control_run_that_failed_is_told_until_it_runs_again(lookout):
    app = lookout.app
    app.control.start("load", partition="2026-01")
    app.control.error("load", "no such file", partition="2026-01")
    lookout.look()
    found = lookout.one("run failed")
    assert (found.kind, found.is_open) == ("load", True)
    assert "run 'load' of '2026-01' failed: no such file" in found.text

    app.control.start("load", partition="2026-01")
    lookout.look()

    assert lookout.open() == []


def test_a_control_run_past_its_time_is_told(lookout):
    lookout.app.control.start("load", expires="1h")
    lookout.look()
    assert lookout.open() == []

    lookout.look(after=2 * HOUR)

    assert lookout.open() == [("run late", "load")]


def test_due_rows_without_a_worker_are_told_and_gone_with_the_first_worker(lookout):
    send_mail = failing_until(lookout.app, good=[True])
    send_mail.enqueue("a")
    lookout.look()
    assert lookout.open() == [], "a worker needs a moment to start"

    lookout.look(after=MINUTE)
    assert lookout.open() == [("no worker", "send_mail")]
    assert lookout.one("no worker").severity == "critical"
    joined = Joined(lookout, serves=["send_mail"])
    joined.beat()
    lookout.look()

    assert lookout.open() == []


def test_rows_that_wait_for_long_are_told(lookout):
    send_mail = failing_until(lookout.app, good=[True], late_after="2m")
    joined = Joined(lookout, serves=["send_mail"])
    send_mail.enqueue("a")

    lookout.clock.advance(MINUTE)
    joined.beat()
    lookout.look()
    assert lookout.open() == []
    lookout.clock.advance(2 * MINUTE)
    joined.beat()
    lookout.look()

    assert lookout.open() == [("late", "send_mail")]


def test_a_row_that_overloads_put_off_again_and_again_is_late(lookout):
    @lookout.app.task(late_after="2m")
    def call() -> None:
        raise Overloaded(retry_after="1m")

    joined = Joined(lookout, serves=["call"])
    call.enqueue()
    lookout.app.drain()
    lookout.clock.advance(MINUTE)
    joined.beat()
    lookout.look()
    early = lookout.open()
    for _ in range(2):
        lookout.app.drain()
        lookout.clock.advance(MINUTE)
        joined.beat()
    lookout.app.drain()
    lookout.look()

    assert early == []
    assert lookout.open() == [("late", "call")]
    assert "overloaded" in lookout.one("late").text


def test_a_paused_kind_is_not_late(lookout):
    send_mail = failing_until(lookout.app, good=[True])
    send_mail.enqueue("a")
    lookout.app.pause("send_mail", reason="sale")

    lookout.look(after=HOUR)

    assert lookout.open() == []


def test_rows_of_a_kind_that_nobody_declares_are_told(lookout, database_url):
    with looking_out(database_url) as other:
        failing_until(other.app, good=[True]).enqueue("a")

    lookout.look()

    assert lookout.open() == [("unknown kind", "send_mail")]


def test_workers_that_die_are_told_and_many_deaths_are_critical(lookout):
    lookout.look()
    for number in range(1, 5):
        Joined(lookout, serves=["x"], number=10_000 + number).dies()
    lookout.look()

    assert lookout.open() == [("worker dead", None), ("workers dying", None)]
    assert lookout.one("worker dead").times == 4
    assert lookout.one("workers dying").severity == "critical"
    lookout.look(after=2 * HOUR)
    assert lookout.open() == []


def test_a_share_of_failed_visits_is_told(lookout):
    @lookout.app.rolling(every="1d")
    def stock_level(code: str) -> None:
        if code.startswith("bad"):
            raise OSError("unknown")

    stock_level.add([f"good{number}" for number in range(50)])
    stock_level.add([f"bad{number}" for number in range(12)], now=True)
    lookout.look()
    lookout.app.drain()
    lookout.look()

    assert lookout.open("failing", "task failed") == [("failing", "stock_level")]
    assert "19% of 62 items of 'stock_level' failed" in lookout.one("failing").text


def test_one_failed_visit_is_no_alarm(lookout):
    @lookout.app.rolling(every="1d")
    def stock_level(code: str) -> None:
        if code == "bad":
            raise OSError("unknown")

    stock_level.add(["bad", *map(str, range(50))])
    lookout.look()
    lookout.app.drain()
    lookout.look()

    assert lookout.open("failing", "task failed") == []


def test_the_source_of_a_sweep_that_works_again_is_resolved(lookout):
    broken = [True]

    class Flaky(Keys):
        def read(self, after, until, limit):
            if broken:
                raise OSError("away")
            return super().read(after, until, limit)

    @lookout.app.sweep(Flaky(1, 10), ranges=1)
    def offer(number: int) -> None: ...

    with pytest.raises(OSError, match="away"):
        lookout.app.drain()
    assert lookout.open() == [("source", "offer")]
    broken.clear()
    lookout.clock.advance(MINUTE)
    lookout.app.drain()
    lookout.look()

    assert lookout.open() == []
    assert [each.round for each in offer.rounds()] == [1]


def test_an_app_may_change_severities_and_switch_rules_off(lookout):
    send_mail = failing_until(lookout.app, good=[])
    lookout.app.alert_on("task failed", kinds=["send_mail"], severity="critical")
    lookout.app.alert_on("no worker", severity="off")
    lookout.look()
    send_mail.enqueue("a")
    lookout.look(after=HOUR)
    assert lookout.open() == []
    lookout.app.drain()
    lookout.look()

    assert lookout.one("task failed").severity == "critical"


def test_what_a_worker_raised_is_judged_as_the_app_says(lookout):
    lookout.app.alert_on("poison", kinds=["send_mail"], severity="info")
    lookout.app.alert_on("clock stepped", severity="off")
    lookout.look()
    for number, problem in enumerate(
        [
            Trouble("poison", "send_mail", "it killed 3 workers"),
            Trouble("poison", "other", "it killed 3 workers"),
            Trouble("clock stepped", "", "by 5 s"),
        ],
        start=1_000_000,
    ):
        lookout.app.database.write(
            partial(raise_alert, number=number, problem=problem, now=lookout.clock.now())
        )

    lookout.look()

    found = {(each.what, each.kind): each for each in lookout.app.alerts()}
    assert found["poison", "send_mail"].severity == "info"
    assert found["poison", "other"].severity == "critical"
    assert not found["clock stepped", None].is_open


def test_a_fleet_whose_last_worker_died_is_told_without_due_rows(lookout):
    failing_until(lookout.app, good=[True])
    worker = Joined(lookout, serves=["send_mail"])
    worker.beat()
    lookout.look()
    assert lookout.open() == []

    lookout.look(after=2 * MINUTE)
    assert lookout.open() == [("no worker", None)]
    worker.dies()
    lookout.look()
    lookout.look(after=2 * HOUR)
    assert lookout.open("no worker") == [("no worker", None)], "not forgotten after an hour"

    Joined(lookout, serves=["send_mail"], number=10_002).beat()
    lookout.look()
    assert lookout.open() == []


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"what": "thunder"}, "alerts of 'thunder' do not exist"),
        ({"what": "late", "severity": "loud"}, "severity='loud' is not known"),
        ({"what": "late", "kinds": "send_mail"}, "kinds='send_mail' is one text"),
        ({"what": "failing", "limit": -1}, "limit=-1 is not a number"),
    ],
)
def test_a_bad_rule_is_refused_and_says_why(given, told):
    with looking_out("sqlite://") as lookout, pytest.raises(BadInput, match=told):
        lookout.app.alert_on(**given)


def test_two_watchers_take_turns(lookout):
    send_mail = failing_until(lookout.app, good=[])
    lookout.look()
    send_mail.enqueue("a")
    lookout.app.drain()

    assert lookout.look() is True
    assert lookout.look(after=SECOND) is False

    assert lookout.one("task failed").times == 1


class Joined:
    """The row of a worker, without the worker."""

    def __init__(self, lookout, *, serves: list[str], number: int = 9_999) -> None:
        self._lookout = lookout
        self._number = number
        lookout.app.prepare()
        now = lookout.clock.now()
        lookout.app.database.write(
            lambda connection: ring_store.join(
                connection,
                number=number,
                host="box",
                pid=1,
                kinds=Kinds(serves=serves, declares=serves),
                now=now,
                lease_until=now + 5 * SECOND,
            )
        )

    def beat(self) -> None:
        until = self._lookout.clock.now() + 60 * SECOND
        self._lookout.app.database.write(
            lambda connection: ring_store.renew(connection, number=self._number, lease_until=until)
        )

    def dies(self) -> None:
        app, now = self._lookout.app, self._lookout.clock.now()
        app.database.write(
            lambda connection: ring_store.mark_dead(
                connection,
                app.database.dialect,
                number=self._number,
                now=now,
                why="it missed its heartbeat",
                lease=None,
            )
        )
