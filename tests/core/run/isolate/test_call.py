"""A handler in a process of its own: arguments, results, context, and children that are kept."""

import os
from contextlib import closing
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from tests.core.run.isolate import jobs
from tests.core.run.working import listening, working
from tests.table import task
from tests.wait import eventually
from windlass import App, Keys, NoContext, Status, TaskFailed
from windlass.lent import lent
from windlass.operate.task import operate

pytestmark = pytest.mark.mostly("sqlite")


def isolated(app: App, function, **options):
    return app.task(isolate="process", keep="1d", **options)(function)


def test_arguments_and_results_have_their_types_in_a_process_of_its_own(app):
    heavier, pid = isolated(app, jobs.heavier), isolated(app, jobs.pid)
    parcel = jobs.Parcel("p-1", Decimal("1.50"), datetime(2026, 11, 1, tzinfo=UTC))

    ref, where = heavier.enqueue(parcel, by=2), pid.enqueue()
    app.drain()

    assert ref.result() == jobs.Parcel("p-1", Decimal("3.50"), datetime(2026, 11, 3, tzinfo=UTC))
    assert where.result() not in (os.getpid(), None)


def test_a_child_is_kept_for_the_next_run_and_never_used_by_two(app):
    pid = isolated(app, jobs.pid, concurrency=2)
    refs = pid.enqueue_many([{}] * 20)

    app.drain()

    assert 1 <= len({ref.result() for ref in refs}) <= 2


def test_an_async_handler_knows_its_run(app):
    about = isolated(app, jobs.about, timeout="50s")

    ref = about.using(key="order-7").enqueue()
    app.drain()

    found, row = ref.result(), task(app, ref)
    assert found["pid"] != os.getpid()
    assert (found["id"], found["kind"], found["key"], found["attempt"]) == (
        ref.id,
        "about",
        "order-7",
        1,
    )
    assert found["fence"] == row["started_at"]
    assert 0 < found["seconds"] <= 50


@pytest.mark.parametrize("what", ["on_finish", "conn", "flow"])
def test_what_needs_a_transaction_of_the_worker_is_refused_with_the_reason(app, what):
    refused = isolated(app, jobs.refused, retries={NoContext: 0})

    ref = refused.enqueue(what)
    app.drain()

    with pytest.raises(TaskFailed, match=rf"NoContext: context\(\)\.{what}.*process of its own"):
        ref.result()


def test_a_handler_may_return_nothing_but_not_what_json_cannot_be(app):
    nothing, strange = isolated(app, jobs.nothing), isolated(app, jobs.strange, retries=3)

    plain, bad = nothing.enqueue(), strange.enqueue()
    app.drain()

    assert plain.result() is None
    with pytest.raises(TaskFailed, match="the result cannot be kept"):
        bad.result()


def test_calling_the_task_calls_the_function_here(app):
    assert isolated(app, jobs.pid)() == os.getpid()


def test_a_handler_may_be_in_a_class(app):
    ref = isolated(app, jobs.Group.handler).enqueue()

    app.drain()

    assert ref.result() != os.getpid()


def test_a_visit_of_a_rolling_kind_has_its_remark_from_a_child(app):
    visit = app.rolling(every="1d", isolate="process")(jobs.visit)
    visit.add(["A7"])

    app.drain()

    code, _, where = visit.item("A7").remark.partition(" in ")
    assert code == "A7"
    assert int(where) != os.getpid()


def test_an_item_is_visited_in_a_child_without_a_worker(app):
    visit = app.rolling(every="1d", isolate="process")(jobs.visit)
    visit.add(["A7"])

    assert visit.visit("A7", timeout="60s").remark.startswith("A7 in ")


def test_a_cron_and_a_node_of_a_flow_run_in_children(app, clock):
    ran = app.cron("0 3 * * *", isolate="process", logs=5)(jobs.about)
    pid = isolated(app, jobs.pid)

    @app.flow
    def order(flow) -> None:
        flow.add(pid)

    run = order.start()
    app.drain()
    clock.forward("1d")
    app.drain()

    assert ran.kind == "about"
    assert run.status() is Status.SUCCEEDED


def test_rows_of_a_sweep_keep_their_types(app):
    class Source:
        name = "rows"

        def bounds(self, ranges):
            return []

        def middle(self, after, upto):
            return None

        def read(self, after, upto, limit):
            return [(7, jobs.ROW)] if after is None or after < 7 else []

    sweep = app.sweep(Source(), ranges=1, isolate="process")(jobs.row_types)

    app.drain()

    assert (sweep.progress().done, sweep.failures()) == (1, [])


def test_keys_of_a_sweep_are_visited_in_a_child(app):
    sweep = app.sweep(Keys(1, 3), ranges=1, isolate="process", auto=False)(jobs.visit)

    assert sweep.visit(2, timeout="60s").status is Status.SUCCEEDED


def test_a_middleware_in_the_worker_sees_arguments_results_and_errors(app):
    seen = []

    @app.middleware
    def around(call, context):
        if context.stage == "run":
            try:
                seen.append((context.kwargs, call()))
            except jobs.OutOfPaper as error:
                seen.append((error.printer, error.sheets))
                raise
        else:
            call()

    visit, fail = isolated(app, jobs.visit), isolated(app, jobs.fail)
    ref = visit.enqueue("A7")
    app.drain()
    fail.enqueue()
    app.drain()

    assert seen == [({"code": "A7"}, ref.result()), ("laser", 3)]


def test_each_shard_has_children_which_end_with_its_worker(sqlite_url, second_sqlite_url):
    with closing(App(sqlite_url, second_sqlite_url)) as app, listening("child.died") as died:
        pid = isolated(app, jobs.pid, concurrency=2)
        refs = pid.enqueue_many([{}] * 20)
        app.drain()
        pids = {ref.result() for ref in refs}

    assert os.getpid() not in pids
    assert died == []
    for child in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(child, 0)


def test_a_worker_keeps_its_children_and_ends_them_when_it_leaves(app):
    pid = isolated(app, jobs.pid)
    with working(app) as worker:
        first = pid.enqueue().result(timeout="60s")
        second = pid.enqueue().result(timeout="60s")
        assert worker.coroutines._isolator.pool.pids == {first}

    assert first == second
    with pytest.raises(ProcessLookupError):
        os.kill(first, 0)


def test_in_a_test_with_lent_databases_the_handler_stays_in_the_process(sqlite_url):
    with closing(App(sqlite_url)) as app, lent({}, {app.database._place()}):
        sync, about = isolated(app, jobs.pid), isolated(app, jobs.about)
        refs = sync.enqueue(), about.enqueue()
        app.drain()

        assert refs[0].result() == os.getpid()
        assert (refs[1].result()["pid"], refs[1].result()["id"]) == (os.getpid(), refs[1].id)


def test_how_far_a_handler_in_a_process_of_its_own_is_is_shown(app, tmp_path):
    haul = isolated(app, jobs.haul, timeout="1m")
    ref = haul.enqueue(str(tmp_path / "go"))

    with working(app):
        eventually(lambda: operate.show(app.fleet, app.registry, ref.id).task.progress, timeout=60)
        found = operate.show(app.fleet, app.registry, ref.id).task.progress
        (tmp_path / "go").touch()
        ref.result(timeout=60)

    assert (found.done, found.total, found.note) == (2, 8, "second box")
