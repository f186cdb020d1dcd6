"""Runs over sources that are given at their start: each by itself, side by side."""

from collections import Counter
from contextlib import closing

import pytest
from sqlalchemy import select, update

from tests.rolling.stock import serving, together
from tests.wait import eventually
from windlass import (
    App,
    BadDeclaration,
    BadInput,
    Csv,
    Keys,
    ResultTimeout,
    Status,
    WindlassError,
    context,
)
from windlass.database.schema import range_, sweep, sweep_run
from windlass.sweep.store import run as store
from windlass.watch.operate.status import look

quick = pytest.mark.mostly("sqlite")


@pytest.fixture
def seen():
    return Counter()


@pytest.fixture
def import_file(app, seen):
    return declare(app, seen)


def declare(app, seen, *args, **options):
    @app.sweep(*args, ranges=2, retries=0, name="import_file", **options)
    def import_file(row) -> None:
        run = context().sweep_run
        seen[run.number, row["code"] if isinstance(row, dict) else row] += 1
        if row == {"code": "bad"}:
            raise ValueError("a bad row")

    return import_file


@pytest.fixture
def file(tmp_path):
    def make(name, *codes):
        path = tmp_path / name
        path.write_text("code\n" + "".join(f"{code}\n" for code in codes))
        return Csv(path, key="code")

    return make


def opened(app):
    return app.database.read(lambda connection: store.opened(connection, ["import_file"]))


@pytest.mark.everywhere
def test_each_run_reads_its_own_file_side_by_side(app, import_file, file, seen):
    one = import_file.start(source=file("one.csv", "a", "b", "c"))
    two = import_file.start(source=file("two.csv", "c", "d"), key="upload-2")
    app.drain()

    assert seen == Counter([(1, "a"), (1, "b"), (1, "c"), (2, "c"), (2, "d")])
    assert (one.number, two.number, two.key) == (1, 2, "upload-2")
    assert [(each.name, each.progress().done) for each in import_file.runs()] == [
        ("import_file@2", 2),
        ("import_file@1", 3),
    ]
    assert one.audit().ok
    found = two.progress()
    assert (found.kind, found.run, found.key, found.why) == ("import_file", 2, "upload-2", "ended")
    assert found.source.endswith("two.csv")


@pytest.mark.everywhere
def test_a_second_start_with_a_key_is_the_same_run(app, import_file, file, seen):
    first = import_file.start(source=file("one.csv", "a"), key="upload-1")
    again = import_file.start(source=file("one.csv", "a"), key="upload-1")
    app.drain()

    assert (first.created, again.created, again.number) == (True, False, first.number)
    assert seen == Counter([(1, "a")])


@pytest.mark.everywhere
def test_failed_items_are_those_of_their_run_and_are_retried_there(app, import_file, file, seen):
    good = import_file.start(source=file("good.csv", "a"))
    bad = import_file.start(source=file("bad.csv", "bad", "b"))
    app.drain()
    assert [each.shown for each in bad.failures()] == ["bad"]
    assert (good.failures(), import_file.failures()) == ([], [])
    (alert,) = app.alerts()
    assert alert.text.endswith("see: windlass sweep failures import_file@2")
    assert not opened(app)

    assert bad.retry_failures() == 1

    assert seen[2, "bad"] == 2
    assert [each.tries for each in bad.failures()] == [2]
    app.drain()
    assert not opened(app)


@pytest.mark.everywhere
def test_a_cancelled_run_does_no_more(app, import_file, file, seen):
    run = import_file.start(source=file("one.csv", "a"))
    with pytest.raises(ResultTimeout, match=r"run 'import_file@1' has not ended after 0\.01 s"):
        run.result(timeout=0.01)

    assert run.cancel()
    app.drain()

    assert (run.cancel(), run.result().why, seen) == (False, "cancelled", Counter())
    assert not opened(app)


@pytest.mark.everywhere
def test_of_many_starts_with_one_key_one_begins_a_run(app, import_file):
    app.prepare()

    runs = together(lambda key: import_file.start(source=Keys(1, 3), key=key), ["upload-1"] * 6)

    assert Counter(run.created for run in runs) == {True: 1, False: 5}
    assert {run.number for run in runs} == {1}


@quick
def test_code_that_does_not_know_runs_does_not_stop_them(app, import_file, seen):
    run = import_file.start(source=Keys(1, 4))
    with app.database.engine.begin() as connection:
        # What the release before does with rows of sweeps that it does not know.
        connection.execute(update(sweep).values(stopped_at=1))
    assert run.progress().why == "waiting for a worker"

    app.drain()

    assert run.progress().done == 4


@pytest.mark.everywhere
def test_ranges_of_a_dead_worker_are_taken_over(app, import_file, seen):
    run = import_file.start(source=Keys(1, 40))
    with app.database.engine.begin() as connection:
        abandoned = {"status": Status.RUNNING, "batch": None}
        connection.execute(update(range_).values(abandoned))
    app.drain()

    assert seen == Counter((1, number) for number in range(1, 41))
    assert run.progress().done == 40
    assert run.audit().ok


@quick
def test_another_process_opens_the_same_source(database_url, import_file, seen):
    import_file.start(source=Keys(1, 20))

    with closing(App(database_url)) as other:
        declare(other, seen)
        other.drain()

    assert seen == Counter((1, number) for number in range(1, 21))


@quick
def test_a_long_run_does_not_hold_up_one_that_was_started_later(app):
    did = []

    @app.sweep(ranges=1, concurrency=1, name="import_file")
    def import_file(number: int) -> None:
        did.append(context().sweep_run.number)

    import_file.start(source=Keys(1, 60))
    import_file.start(source=Keys(1, 10))
    app.drain()

    assert len(did) == 70
    assert max(place for place, run in enumerate(did) if run == 2) < 60


@quick
def test_a_file_that_is_gone_stops_its_run_and_no_other(app, import_file, file, seen):
    gone = file("gone.csv", "x")
    lost = import_file.start(source=gone)
    gone.path.unlink()
    with serving(app):
        eventually(lambda: lost.progress().error)
        run = import_file.start(source=file("good.csv", "a"))

        assert run.result(timeout=20).done == 1

        (alert,) = app.alerts()
        assert (alert.kind, lost.cancel()) == ("import_file@1", True)
        eventually(lambda: not opened(app))
    assert seen == Counter([(2, "a")])


@quick
def test_runs_beside_rounds_of_the_declared_source(app):
    did = []

    @app.sweep(Keys(1, 3), redo="4h")
    def import_file(number: int) -> None:
        run = context().sweep_run
        did.append((None if run is None else run.name, number))

    import_file.start(source=Keys(2, 3))
    app.drain()
    app.drain()

    own = [(None, 1), (None, 2), (None, 3)]
    assert Counter(did) == Counter([*own, ("import_file@1", 2), ("import_file@1", 3)])
    assert (import_file.progress().done, import_file.run(1).progress().done) == (3, 2)


@quick
def test_a_pause_of_the_sweep_holds_its_runs(app, import_file, seen):
    run = import_file.start(source=Keys(1, 4))
    import_file.pause("stocktaking")
    app.drain()
    assert seen == Counter()
    assert "stocktaking" in run.progress().why

    import_file.resume()
    app.drain()

    assert run.progress().done == 4


@quick
def test_an_open_run_is_listed_and_counted(app, import_file, file):
    run = import_file.start(source=file("one.csv", "a", "b"))

    listed = app.sweeps.listing(app.registry.kinds.values())
    assert [(each.sweep, each.why) for each in listed] == [
        ("import_file", "start(source=...) begins a run"),
        ("import_file@1", "waiting for a worker"),
    ]
    (kind,) = [each for each in look(app.fleet, app.registry).kinds if each.kind == "import_file"]
    assert (kind.due, kind.sweep) == (1, "round 0, 0 %, 1 run over given sources")
    assert repr(run) == "<run 'import_file@1'>"


@quick
def test_old_runs_are_deleted_with_what_is_theirs(app, import_file, file, monkeypatch):
    monkeypatch.setattr(store, "KEEP_RUNS", 2)
    for number in range(4):
        import_file.start(source=file(f"{number}.csv", "bad"))
        app.drain()

    assert [run.number for run in import_file.runs()] == [4, 3]
    with app.database.engine.connect() as connection:
        left = {name.partition("@")[2] for name in connection.scalars(select(range_.c.sweep))}
        assert left == {"3", "4"}
        assert len(connection.scalars(select(sweep_run.c.name)).all()) == 2


@quick
def test_wrong_starts_say_what_to_do(app, import_file, file):
    @app.sweep(name="n" * 90)
    def long_named(row) -> None: ...

    with pytest.raises(BadInput, match=r"has no source of its own; write import_file\.start"):
        import_file.start()
    with pytest.raises(BadInput, match="key= names a run; give its source=, too"):
        import_file.start(key="upload-1")
    with pytest.raises(BadDeclaration, match="is not a source"):
        import_file.start(source="upload.csv")
    with pytest.raises(WindlassError, match="has no run 7; see: windlass sweep runs import_file"):
        import_file.run(7)
    with pytest.raises(BadDeclaration, match="without a source each start gives"):
        app.sweep(redo="4h")
    with pytest.raises(BadInput, match="may have at most 87 characters"):
        long_named.start(source=Keys(1, 2))
