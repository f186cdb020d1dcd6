"""The fixtures that users' tests are written with."""

from datetime import UTC, datetime, timedelta

import pytest

from windlass import App, BadArgument, BadInput, Csv, Keys, Status, TaskFailed, UnknownKind
from windlass.testing import borrowed, enqueued


@pytest.fixture
def send_mail(windlass_app):
    @windlass_app.task(retries=1, backoff="1m")
    def send_mail(to: str, subject: str = "hello", sent_at: datetime | None = None) -> None:
        if "@" not in to:
            raise ValueError(f"{to!r} is no address")

    return send_mail


def test_a_test_begins_without_a_task(windlass_app, send_mail):
    assert enqueued(windlass_app, send_mail) == []


def test_what_waits_is_found_by_some_of_its_arguments(assert_enqueued, send_mail, windlass_clock):
    moment = datetime(2026, 1, 2, tzinfo=UTC)
    send_mail.enqueue("bob@example.com")
    send_mail.using(key="order-7", delay="3h").enqueue("ada@example.com", sent_at=moment)

    found = assert_enqueued("send_mail", to="ada@example.com", subject="hello", sent_at=moment)

    assert (found.key, found.kind, found.priority) == ("order-7", "send_mail", 0)
    assert found.due_at - windlass_clock.time == timedelta(hours=3)
    assert found == assert_enqueued(send_mail, to="ada@example.com")


def test_a_task_that_does_not_wait_is_missed_and_what_waits_is_told(assert_enqueued, send_mail):
    send_mail.using(key="order-7").enqueue("bob@example.com")

    with pytest.raises(AssertionError) as missed:
        assert_enqueued(send_mail, to="ada@example.com")

    assert str(missed.value).splitlines() == [
        "no task send_mail(to='ada@example.com') waits; this does:",
        "  send_mail(to='bob@example.com', subject='hello', sent_at=None) with key 'order-7'",
    ]


def test_a_task_that_has_run_does_not_wait(assert_enqueued, drain, send_mail):
    send_mail.enqueue("ada@example.com")
    drain()

    with pytest.raises(AssertionError, match="nothing of kind 'send_mail' does"):
        assert_enqueued(send_mail)


def test_more_tasks_than_a_page_are_all_looked_at(windlass_app, send_mail):
    send_mail.enqueue_many([{"to": f"{number}@example.com"} for number in range(1_100)])

    assert len(enqueued(windlass_app, send_mail)) == 1_100
    assert enqueued(windlass_app, send_mail)[0].arguments["to"] == "0@example.com"


def test_a_wrong_name_is_a_mistake_and_not_an_absence(windlass_app, assert_enqueued, send_mail):
    with pytest.raises(BadArgument, match="'send_mail' has no parameter 'address'"):
        enqueued(windlass_app, send_mail, address="ada@example.com")
    with pytest.raises(UnknownKind):
        assert_enqueued("send_male")
    with pytest.raises(BadArgument, match="neither a declared task"):
        assert_enqueued(7)


def test_items_of_a_rolling_kind_wait_too(windlass_app, assert_enqueued):
    @windlass_app.rolling(every="10d")
    def stock_level(code: str) -> None: ...

    stock_level.add(["bolt"])

    assert assert_enqueued(stock_level, code="bolt").key == "bolt"


def test_time_stands_still_until_it_is_moved(windlass_app, windlass_clock, drain, send_mail):
    mail = send_mail.using(delay="3h").enqueue("ada@example.com")
    drain()
    assert mail.status() is Status.WAITING

    windlass_clock.advance("3h")
    drain()

    assert mail.status() is Status.SUCCEEDED
    assert windlass_clock.time >= datetime(2026, 1, 1, 3, tzinfo=UTC)


def test_the_clock_moves_to_a_moment_and_never_back(windlass_clock):
    windlass_clock.move_to(datetime(2026, 3, 1, tzinfo=UTC))
    assert windlass_clock.time == datetime(2026, 3, 1, tzinfo=UTC)

    windlass_clock.advance(timedelta(minutes=1))

    with pytest.raises(BadInput, match="never goes back"):
        windlass_clock.move_to(datetime(2026, 3, 1, tzinfo=UTC))
    with pytest.raises(BadInput, match="no time zone"):
        windlass_clock.move_to(datetime(2026, 4, 1))  # noqa: DTZ001
    with pytest.raises(BadInput, match='a number of what\\? write "5s"'):
        windlass_clock.advance(5)


def test_a_task_that_fails_for_good_fails_the_test_with_its_traceback(
    windlass_clock, drain, send_mail
):
    mail = send_mail.enqueue("ada")
    drain()
    windlass_clock.advance("2m")

    with pytest.raises(AssertionError) as failed:
        drain()

    assert "'ada' is no address" in str(failed.value)
    assert "Traceback" in str(failed.value)
    with pytest.raises(TaskFailed):
        mail.result()


def test_a_failure_may_be_what_the_test_is_about(windlass_clock, drain, send_mail):
    mail = send_mail.enqueue("ada")
    drain(may_fail=True)
    windlass_clock.advance("2m")
    drain(may_fail=True)

    assert mail.status() is Status.FAILED


def test_an_app_that_is_borrowed_is_given_back_as_it_was(database_url, tmp_path, windlass_clock):
    own = f"sqlite:///{tmp_path / 'own.db'}"
    app = App(own, members="etcd://127.0.0.1:1")
    before = (app.database, app.clock, app.settings, app.fleet.shards)

    @app.task
    def ping() -> None: ...

    with borrowed(app, [database_url], windlass_clock):
        ping.enqueue()
        app.control.start("load")
        app.drain()
        assert app.clock is windlass_clock

    assert (app.database, app.clock, app.settings, app.fleet.shards) == before
    assert not (tmp_path / "own.db").exists()
    app.close()


def test_what_one_test_started_the_next_does_not_know(database_url, second_database_url):
    app = App(database_url)
    with borrowed(app, [second_database_url], None):
        assert app.control.start("load").code == 0

    assert app.control.step("load", 1).code == 451
    app.close()


def test_two_shards_are_borrowed_as_two(database_url, second_database_url, tmp_path):
    app = App(*(f"sqlite:///{tmp_path / name}.db" for name in "ab"))

    @app.task
    def ping() -> None: ...

    with borrowed(app, [database_url, second_database_url], None):
        refs = [ping.enqueue() for _ in range(4)]
        app.drain()
        assert {ref.status() for ref in refs} == {Status.SUCCEEDED}
    app.close()


@pytest.fixture
def shop(windlass_app):
    """An app with a cron and a sweep whose file is missing; what the cron did."""
    did = []

    @windlass_app.cron("0 4 * * *")
    def nightly() -> None:
        did.append("report")

    @windlass_app.sweep(Csv("missing.csv", key="code"))
    def import_products(row: dict[str, str]) -> None: ...

    @windlass_app.task
    def send_mail(to: str) -> None:
        did.append(to)

    return did


def test_crons_and_sweeps_take_no_part_in_other_tests(windlass_app, windlass_clock, drain, shop):
    drain()
    windlass_clock.advance("1d")
    drain()

    assert shop == []
    assert windlass_app.alerts() == []


def test_a_cron_that_is_named_runs(windlass_clock, drain, shop):
    drain()
    windlass_clock.advance("1d")

    drain(kinds=["nightly"])

    assert shop == ["report"]


def test_a_cron_that_the_test_enqueues_runs(windlass_app, drain):
    did = []

    @windlass_app.cron("0 4 * * *")
    def nightly() -> None:
        did.append("report")

    nightly.enqueue()
    drain()

    assert did == ["report"]


def test_a_sweep_that_the_test_starts_runs(windlass_app, drain):
    seen = []

    @windlass_app.sweep(Keys(1, 5), ranges=1)
    def offer(number: int) -> None:
        seen.append(number)

    drain()
    assert seen == []
    offer.start()
    drain()

    assert sorted(seen) == [1, 2, 3, 4, 5]


def test_a_run_that_the_test_starts_does_not_begin_the_round_of_a_missing_file(
    windlass_app, drain, tmp_path
):
    seen = []

    @windlass_app.sweep(Csv("missing.csv", key="code"))
    def import_products(row: dict[str, str]) -> None:
        seen.append(row["code"])

    (tmp_path / "upload.csv").write_text("code\na1\n")
    run = import_products.start(source=Csv(tmp_path / "upload.csv", key="code"))
    drain()

    assert (seen, run.progress().why) == (["a1"], "ended")
    assert windlass_app.alerts() == []
