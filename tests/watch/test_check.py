"""Rows that no worker can run are found, wait, and run when their kind is back."""

from contextlib import closing

import pytest

from tests.core.fetch.dead import lose
from tests.table import failures, task
from windlass import App, Status
from windlass.watch.operate import check, status

pytestmark = pytest.mark.mostly("sqlite", "postgresql")


def findings(app):
    return {
        finding.about: finding.text
        for finding in check.check(app.fleet, app.registry)
        if finding.about != "database"
    }


def why(app, kind):
    return {each.kind: each.why for each in status.look(app.fleet, app.registry).kinds}[kind]


def test_rows_of_a_removed_kind_are_found_and_run_when_it_is_back(app, other):
    seen = []
    relic = app.task(name="relic")(lambda: seen.append("relic"))
    relic.enqueue()
    other.task(name="work")(lambda: None)

    other.drain()

    assert "is not declared here, nor by a worker" in findings(other)["relic"]
    assert why(other, "relic") == "no worker declares it"
    assert findings(app) == {}
    app.drain()
    assert seen == ["relic"]


def test_a_row_of_a_removed_kind_whose_worker_died_stays_visible(app, other):
    ref = app.task(name="relic", keep="1h")(lambda: 7).enqueue()
    lose(app)
    other.task(name="work")(lambda: None)
    other.drain()

    assert "relic" in findings(other)
    assert why(other, "relic") == "no worker declares it"
    app.drain()
    assert ref.result() == 7


def test_rows_that_no_longer_fit_wait_until_they_fit_again(app, database_url, clock):
    seen = []

    @app.task(name="work", keep="1h")
    def before(order: str) -> None:
        seen.append(order)

    ref = before.enqueue("order-7")
    with closing(App(database_url, clock=clock)) as changed:

        @changed.task(name="work", keep="1h")
        def after(order: int) -> None: ...

        assert "1 of 1 waiting rows" in findings(changed)["work"]
        for _ in range(30):
            changed.drain()
            clock.forward("2m")
        changed.drain()
        row = task(changed, ref)
        assert row["status"] == Status.WAITING
        assert "argument 'order' is 'order-7' (str), expected int" in row["remark"]
        assert "some rows do not fit its parameters" in why(changed, "work")
        assert "argument 'order'" in findings(changed)["work"]
        assert failures(changed)

    clock.forward("2m")
    app.drain()

    assert (ref.status(), seen) == (Status.SUCCEEDED, ["order-7"])


def test_a_row_that_does_not_fit_does_not_open_the_breaker(app, database_url, clock):
    app.task(name="work")(lambda order: None).enqueue("order-7")
    with closing(App(database_url, clock=clock)) as changed:

        @changed.task(name="work", breaker="1 in a row, 5m")
        def after(order: int) -> None: ...

        changed.drain()

        (found,) = status.look(changed.fleet, changed.registry).kinds
        assert found.breaker == "closed"
