"""Promises about to break and broken are told, each as one alert, and resolved when they hold."""

import re

import pytest

from tests.watch.lookout import HOUR, MINUTE, looking_out
from tests.watch.promise.served import serve, worked
from windlass import App, BadDeclaration, BadDuration, Keys
from windlass.clock import SECOND
from windlass.database.schema import range_

PROMISES = ("promise at risk", "promise broken")


@pytest.fixture
def lookout(database_url):
    # `drain` gives the worker that only seems to be there so long to take something.
    with looking_out(database_url, dead_after="200ms") as made:
        yield made


def promise_of(app: App, kind: str):
    (found,) = (each for each in app.promises() if each.kind == kind)
    return found


def test_a_rolling_kind_that_is_too_slow_is_at_risk_then_broken_then_kept(lookout):
    app, clock = lookout.app, lookout.clock

    @app.rolling(every="1h", rate="1/m")
    def stock_level(code: str) -> None: ...

    stock_level.add(str(number) for number in range(120))
    serve(app, clock)
    worked(app, clock, "stock_level", a_minute=1, milliseconds=10)
    lookout.look()

    (found,) = app.promises()
    assert (found.state, found.face, found.promise) == ("at risk", "rolling", "each item every 1h")
    assert re.search(r"breaks on \w+ [-\d]+ \d\d:\d\d UTC at the present 1\.\d+/m", found.forecast)
    assert found.forecast.endswith("; needs 2/m")
    assert found.cure == "a higher rate: windlass set stock_level --rate 2/m"
    assert found.breaks_at is not None
    assert lookout.open(*PROMISES) == [("promise at risk", "stock_level")]
    assert "cure: a higher rate" in lookout.one("promise at risk").text

    lookout.look(after=2 * HOUR)
    assert promise_of(app, "stock_level").state == "broken"
    assert lookout.open(*PROMISES) == [("promise broken", "stock_level")]
    assert lookout.one("promise broken").severity == "critical"

    app.set("stock_level", rate="none")
    app.drain()
    serve(app, clock, number=2)
    lookout.look()
    assert promise_of(app, "stock_level").state == "kept"
    assert lookout.open(*PROMISES) == []


def test_a_paused_rolling_kind_is_cured_by_resuming_it_and_told_only_when_it_is_near(lookout):
    app, clock = lookout.app, lookout.clock

    @app.rolling(every="10d")
    def stock_level(code: str) -> None: ...

    stock_level.add(["bolt"])
    serve(app, clock)
    app.drain()
    app.pause("stock_level", reason="sale")
    lookout.look()

    found = promise_of(app, "stock_level")
    assert (found.state, found.cure) == ("at risk", "resume it: windlass resume stock_level")
    assert "because it is paused" in found.forecast
    assert found.held_back is not None
    assert "sale" in found.held_back
    assert lookout.open(*PROMISES) == []

    lookout.look(after=8 * 24 * HOUR)
    assert lookout.open(*PROMISES) == [("promise at risk", "stock_level")]


def test_a_backlog_of_tasks_older_than_promised_breaks_the_promise(lookout):
    app, clock = lookout.app, lookout.clock

    @app.task(within="10m")
    def send_mail(to: str) -> None: ...

    serve(app, clock)
    lookout.look()
    assert promise_of(app, "send_mail").state == "kept"

    send_mail.enqueue_many([{"to": name} for name in "abc"])
    lookout.look(after=9 * MINUTE)
    assert lookout.open("promise broken", "late") == []

    lookout.look(after=2 * MINUTE)
    found = promise_of(app, "send_mail")
    assert (found.state, found.promise) == ("broken", "done within 10m of its due time")
    assert found.standing.startswith("3 due; the oldest is due since 11m")
    # One cause is one alert: a kind with a promise is not told as late, too.
    assert lookout.open() == [("promise broken", "send_mail")]

    app.drain()
    serve(app, clock, number=2)
    lookout.look()
    assert lookout.open(*PROMISES) == []


def test_a_queue_that_is_too_long_for_the_speed_is_at_risk_before_anything_is_late(lookout):
    app, clock = lookout.app, lookout.clock

    @app.task(within="10m", rate="1/s")
    def send_mail(to: str) -> None: ...

    serve(app, clock)
    worked(app, clock, "send_mail", a_minute=60, milliseconds=5)
    send_mail.enqueue_many([{"to": str(number)} for number in range(1200)])
    lookout.look()

    found = promise_of(app, "send_mail")
    assert found.state == "at risk"
    assert found.needed_rate == pytest.approx(2.0)
    assert "at the present 1/s; needs 2/s" in found.forecast
    assert found.cure == "a higher rate: windlass set send_mail --rate 2/s"
    assert lookout.open(*PROMISES) == [("promise at risk", "send_mail")]

    app.set("send_mail", rate="none")
    lookout.look()
    assert lookout.open(*PROMISES) == []


def test_a_task_that_is_tried_again_and_again_breaks_its_promise(lookout):
    app, clock = lookout.app, lookout.clock

    @app.task(within="10m", retries=50, backoff="1h")
    def send_mail(to: str) -> None:
        raise ConnectionError("refused")

    send_mail.enqueue("a")
    app.drain()
    serve(app, clock)
    lookout.look()
    assert promise_of(app, "send_mail").state == "kept"

    lookout.look(after=11 * MINUTE)

    assert promise_of(app, "send_mail").state == "broken"
    assert lookout.open(*PROMISES) == [("promise broken", "send_mail")]


def test_a_delayed_task_is_not_late_before_it_is_due(lookout):
    app, clock = lookout.app, lookout.clock

    @app.task(within="10m")
    def send_mail(to: str) -> None: ...

    serve(app, clock)
    send_mail.using(delay="2h").enqueue("a")

    lookout.look(after=1 * HOUR)
    assert promise_of(app, "send_mail").state == "kept"
    lookout.look(after=1 * HOUR + 11 * MINUTE)
    assert promise_of(app, "send_mail").state == "broken"


def test_a_paused_task_names_its_cure_and_when_it_breaks(lookout):
    app, clock = lookout.app, lookout.clock

    @app.task(within="10m")
    def send_mail(to: str) -> None: ...

    serve(app, clock)
    send_mail.enqueue("a")
    app.pause("send_mail")
    lookout.look()
    assert lookout.open(*PROMISES) == []

    lookout.look(after=8 * MINUTE)

    found = promise_of(app, "send_mail")
    assert (found.state, found.cure) == ("at risk", "resume it: windlass resume send_mail")
    assert lookout.open(*PROMISES) == [("promise at risk", "send_mail")]


def test_a_cron_that_is_not_done_in_time_breaks_its_promise(lookout):
    app, clock = lookout.app, lookout.clock

    @app.cron("0 * * * *", within="10m")
    def report() -> None: ...

    app.drain()
    serve(app, clock)
    lookout.look()
    assert promise_of(app, "report").state == "kept"

    clock.advance(HOUR - clock.now() % HOUR)
    lookout.look(after=11 * MINUTE)
    found = promise_of(app, "report")
    assert (found.state, found.face) == ("broken", "cron")
    assert lookout.open(*PROMISES) == [("promise broken", "report")]

    app.drain()
    lookout.look()
    assert lookout.open(*PROMISES) == []


def test_a_cron_that_is_retried_counts_from_its_turn(lookout):
    app, clock = lookout.app, lookout.clock

    @app.cron("0 * * * *", within="10m", retries=9, backoff="8m")
    def report() -> None:
        raise OSError("disk full")

    app.drain()
    serve(app, clock)
    clock.advance(HOUR - clock.now() % HOUR)
    app.drain()

    lookout.look(after=11 * MINUTE)

    assert promise_of(app, "report").state == "broken"


def test_a_round_that_takes_too_long_is_at_risk_then_broken_then_over(lookout):
    app, clock = lookout.app, lookout.clock

    @app.sweep(Keys(1, 1000), ranges=2, within="4h")
    def offer(number: int) -> None: ...

    assert promise_of(app, "offer").state == "unknown"
    offer.start()
    serve(app, clock)

    def goes(*, done: int, per_second: float) -> None:
        values = {"done": done, "per_second": per_second, "status": 1, "saved_at": clock.now()}
        app.database.write(lambda connection: connection.execute(range_.update().values(values)))

    lookout.look(after=HOUR)
    goes(done=50, per_second=0.02)
    lookout.look(after=SECOND + 15 * SECOND)
    goes(done=50, per_second=0.02)
    found = promise_of(app, "offer")
    assert (found.state, found.promise) == ("at risk", "a round within 4h")
    assert found.percent == pytest.approx(10.0)
    assert found.needed_rate == pytest.approx(900 / (3 * 3600), rel=0.01)
    assert found.ends_at is not None
    assert "breaks on" in found.forecast
    assert "at the present" in found.forecast

    clock.advance(4 * HOUR)
    lookout.look()
    assert promise_of(app, "offer").state == "broken"
    assert lookout.open(*PROMISES) == [("promise broken", "offer")]

    goes(done=0, per_second=0.0)
    app.database.write(
        lambda connection: connection.execute(range_.update().values(status=0, saved_at=None))
    )
    app.drain()
    last = promise_of(app, "offer")
    assert (last.state, last.standing[:20]) == ("broken", "the last round took ")
    offer.start()
    lookout.look()
    assert lookout.open(*PROMISES) == []


def test_a_flow_run_past_its_time_is_late(lookout):
    app, clock = lookout.app, lookout.clock

    @app.task
    def step() -> None: ...

    @app.flow(within="1h")
    def load(flow) -> None:
        flow.add(step)

    serve(app, clock)
    run = load.start()
    later = load.using(delay="3h").start()
    lookout.look()
    assert promise_of(app, "load").state == "kept"

    lookout.look(after=61 * MINUTE)
    found = promise_of(app, "load")
    assert (found.state, found.face, found.promise) == ("broken", "flow", "a run within 1h")
    assert found.cure == f"see why: windlass flow show {run.id}"
    assert lookout.open("flow late", *PROMISES) == [("flow late", "load")]

    app.drain()
    lookout.look()
    assert lookout.open("flow late", *PROMISES) == []
    later.cancel()


def test_alerts_of_promises_can_be_set_for_each_kind(lookout):
    app, clock = lookout.app, lookout.clock

    @app.task(within="10m")
    def send_mail(to: str) -> None: ...

    @app.task(within="10m")
    def send_text(to: str) -> None: ...

    app.alert_on("promise broken", kinds=["send_mail"], severity="off")
    app.alert_on("promise broken", kinds=["send_text"], severity="info")
    serve(app, clock)
    send_mail.enqueue("a")
    send_text.enqueue("a")

    lookout.look(after=11 * MINUTE)

    assert lookout.open() == [("promise broken", "send_text")]
    assert lookout.one("promise broken").severity == "info"


def test_late_after_of_a_kind_still_counts_beside_its_promise(lookout):
    app, clock = lookout.app, lookout.clock

    @app.task(within="1h", late_after="5m")
    def send_mail(to: str) -> None: ...

    serve(app, clock)
    send_mail.enqueue("a")

    lookout.look(after=6 * MINUTE)

    assert lookout.open() == [("late", "send_mail")]


def test_a_promise_that_cannot_be_read_is_refused(lookout):
    app = lookout.app

    with pytest.raises(BadDuration, match="kind 'send_mail': within: cannot read 'soon'"):

        @app.task(within="soon")
        def send_mail() -> None: ...

    with pytest.raises(BadDuration, match="too short"):

        @app.sweep(Keys(1, 10), within="0s")
        def offer(number: int) -> None: ...

    with pytest.raises(BadDeclaration, match=r"rolling: within='1h' is not an option; .* every="):

        @app.rolling(every="1d", within="1h")
        def stock_level(code: str) -> None: ...

    @app.flow
    def load(flow) -> None: ...

    with pytest.raises(BadDeclaration, match="give it to the flow"):
        app.cron("0 3 * * *", within="1h")(load)
    assert list(app.registry.kinds) == ["load"]
