"""Flows: nodes run after what they wait for, and what fails blocks what is below it."""

import asyncio
from types import SimpleNamespace

import pytest
from sqlalchemy import create_engine, func, select

import windlass
from windlass import BadArgument, BadFlow, DuplicateKey, ResultTimeout, Status, UnknownKind
from windlass.app import FACES
from windlass.database.schema import slot, task
from windlass.watch.operate import status

pytestmark = pytest.mark.mostly("sqlite")


@pytest.fixture
def seen():
    return []


@pytest.fixture
def kinds(app, seen):
    """Tasks that nodes call, each of which tells that it ran."""

    @app.task
    async def note(name: str) -> str:
        seen.append(name)
        return name

    @app.task
    def add(left: int, right: int = 1) -> int:
        seen.append((left, right))
        return left + right

    @app.task
    def total(numbers: list[int]) -> int:
        seen.append(numbers)
        return sum(numbers)

    @app.task
    async def silent() -> None: ...

    kinds = SimpleNamespace(note=note, add=add, total=total, silent=silent)
    kinds.is_broken = True

    @app.task
    def fragile(name: str = "fragile") -> None:
        if kinds.is_broken:
            raise ValueError("not today")
        seen.append(name)

    kinds.fragile = fragile
    return kinds


def states(run):
    return {node.name: str(node.status) for node in run.nodes()}


def rows_in(app, table):
    return app.database.read(
        lambda connection: connection.scalar(select(func.count()).select_from(table))
    )


@pytest.mark.mostly("sqlite", "postgresql", "mariadb")
def test_a_node_runs_after_all_that_it_waits_for(app, kinds, seen):
    @app.flow
    def cancel_order(flow, order: str):
        goods = flow.add(kinds.note, "goods")
        money = flow.add(kinds.note, "money", name="money")
        flow.add(kinds.note, "tell " + order, after=[goods, money], name="tell")

    run = cancel_order.start("order-7")
    assert run.status() is Status.RUNNING
    app.drain()

    assert run.wait(timeout=0) is Status.SUCCEEDED
    assert set(seen[:2]) == {"goods", "money"}
    assert seen[2:] == ["tell order-7"]
    assert states(run) == {"note": "succeeded", "money": "succeeded", "tell": "succeeded"}


def test_the_result_of_a_node_is_an_argument_of_a_later_one(app, kinds, seen):
    @app.flow
    def sums(flow, begin: int):
        one = flow.add(kinds.add, begin, name="one")
        many = flow.each(kinds.add, [10, 20, 30], after=one)
        flow.add(kinds.total, [node.result for node in many], after=many)
        flow.add(kinds.add, one.result, right=one.result, after=many, name="twice")

    run = sums.start(4)
    app.drain()

    assert run.status() is Status.SUCCEEDED
    results = {node.name: node.result for node in run.nodes()}
    assert results == {
        "one": 5,
        "add-1": 11,
        "add-2": 21,
        "add-3": 31,
        "total": 63,
        "twice": 10,
    }


def test_a_part_of_a_result_can_be_asked_for(app, seen):
    @app.task
    def load() -> dict[str, list[int]]:
        return {"rows": [3, 4]}

    @app.task
    def show(row: int | None, none: int | None) -> None:
        seen.append((row, none))

    @app.flow
    def parts(flow):
        loaded = flow.add(load)
        flow.add(show, loaded.result["rows"][1], loaded.result["gone"][0], after=loaded)

    parts.start()
    app.drain()

    assert seen == [(4, None)]


@pytest.mark.mostly("sqlite", "postgresql", "mariadb")
def test_a_failed_node_fails_what_is_below_it_and_other_branches_go_on(app, kinds, seen):
    @app.flow
    def branches(flow):
        broken = flow.add(kinds.fragile)
        below = flow.add(kinds.note, "below", after=broken, name="below")
        flow.add(kinds.note, "deep", after=below, name="deep")
        fine = flow.add(kinds.note, "fine", name="fine")
        flow.add(kinds.note, "finer", after=fine, name="finer")

    run = branches.start()
    app.drain()

    assert run.wait(timeout=1) is Status.FAILED
    assert seen == ["fine", "finer"]
    errors = {node.name: node.error for node in run.nodes() if node.error}
    assert errors == {
        "fragile": "ValueError: not today",
        "below": "blocked by fragile",
        "deep": "blocked by fragile",
    }


@pytest.mark.mostly("sqlite", "postgresql", "mariadb")
def test_runs_are_counted_as_the_work_of_their_flow(app, kinds, clock):
    @app.flow
    def pair(flow):
        flow.add(kinds.silent, after=[flow.add(kinds.note, "a")])

    @app.flow
    def broken(flow):
        flow.add(kinds.fragile)

    pair.start()
    broken.start()
    clock.forward("3s")
    pair.start()
    app.drain()

    found = {kind.kind: kind for kind in status.look(app.fleet, app.registry).kinds}
    figures = [found[name] for name in ("pair", "broken", "note")]
    counts = [(kind.done_last_hour, kind.failed_last_hour) for kind in figures]
    assert counts == [(2, 0), (0, 1), (2, 0)]
    assert found["pair"].average_milliseconds == pytest.approx(1_500, abs=50)


def test_a_retry_runs_what_failed_and_goes_on(app, kinds, seen):
    @app.flow
    def branches(flow):
        broken = flow.add(kinds.fragile)
        below = flow.add(kinds.note, "below", after=broken, name="below")
        flow.add(kinds.note, "deep", after=[below, flow.add(kinds.note, "side")], name="deep")

    run = branches.start()
    app.drain()
    assert run.status() is Status.FAILED

    kinds.is_broken = False
    assert run.retry() == 3
    assert states(run) == {
        "fragile": "waiting",
        "below": "blocked",
        "note": "succeeded",
        "deep": "blocked",
    }
    assert run.status() is Status.RUNNING
    app.drain()

    assert run.status() is Status.SUCCEEDED
    assert seen == ["side", "fragile", "below", "deep"]


def test_one_node_is_retried_with_what_it_blocked(app, kinds, seen):
    @app.flow
    def two(flow):
        one = flow.add(kinds.fragile, "one", name="one")
        flow.add(kinds.note, "below", after=one, name="below")
        flow.add(kinds.fragile, "two", name="two")

    run = two.start()
    app.drain()
    kinds.is_broken = False

    assert run.retry("one") == 2
    app.drain()

    assert states(run) == {"one": "succeeded", "below": "succeeded", "two": "failed"}
    assert run.status() is Status.FAILED
    with pytest.raises(BadFlow, match="has not failed"):
        run.retry("one")


def test_a_skipped_node_counts_as_succeeded(app, kinds, seen):
    @app.flow
    def one(flow):
        broken = flow.add(kinds.fragile)
        flow.add(kinds.note, "below", after=broken, name="below")

    run = one.start()
    app.drain()
    run.skip("fragile")
    app.drain()

    assert run.status() is Status.SUCCEEDED
    assert seen == ["below"]
    with pytest.raises(windlass.UnknownNode, match="no node 'gone'"):
        run.skip("gone")


def test_a_node_can_be_skipped_before_it_is_due(app, kinds, seen):
    @app.flow
    def line(flow):
        first = flow.add(kinds.note, "first", name="first")
        second = flow.add(kinds.note, "second", name="second", after=first)
        flow.add(kinds.note, "third", name="third", after=second)

    run = line.start()
    run.skip("second")
    run.skip("first")
    app.drain()

    assert run.status() is Status.SUCCEEDED
    assert seen == ["third"]


def test_a_cancelled_run_begins_nothing_more(app, kinds, seen):
    @app.flow
    def line(flow):
        first = flow.add(kinds.note, "first", name="first")
        flow.add(kinds.note, "second", name="second", after=first)

    run = line.start()

    assert run.cancel("sold out")
    assert not run.cancel()
    app.drain()

    assert run.wait(timeout=1) is Status.CANCELLED
    assert seen == []
    assert set(states(run).values()) == {"cancelled"}


def test_a_node_is_not_cancelled_or_retried_behind_the_back_of_its_run(app, kinds):
    @app.flow
    def line(flow):
        flow.add(kinds.silent)

    run = line.start()

    with pytest.raises(windlass.BadInput, match=f"belongs to run {run.id} of a flow"):
        app.cancel(run.nodes()[0].id)


def test_triggers_decide_what_a_node_waits_for(app, kinds, seen):
    @app.flow
    def triggers(flow):
        bad = flow.add(kinds.fragile)
        good = flow.add(kinds.note, "good", name="good")
        flow.add(kinds.note, "both", name="both", after=[bad, good])
        flow.add(kinds.note, "done", name="done", after=[bad, good], trigger="all_done")
        flow.add(kinds.note, "any", name="any", after=[bad, good], trigger="any_success")
        flow.add(kinds.note, "none", name="none", after=[bad], trigger="any_success")

    run = triggers.start()
    app.drain()

    assert states(run) == {
        "fragile": "failed",
        "good": "succeeded",
        "both": "failed",
        "done": "succeeded",
        "any": "succeeded",
        "none": "failed",
    }


@pytest.mark.parametrize(("rows", "ran"), [(3, ["many", "end"]), (0, ["few", "end"])])
def test_conditions_choose_a_branch(app, kinds, seen, rows, ran):
    @app.task
    def load(count: int) -> dict[str, int]:
        return {"rows": count}

    @app.flow
    def choose(flow, count: int):
        loaded = flow.add(load, count)
        many = flow.add(kinds.note, "many", name="many", after=loaded, when="load.result.rows > 0")
        few = flow.add(kinds.note, "few", name="few", after=loaded, when="not load.result.rows > 0")
        flow.add(kinds.note, "end", name="end", after=[many, few], trigger="any_success")

    run = choose.start(rows)
    app.drain()

    assert seen == ran
    assert run.status() is Status.SUCCEEDED
    assert sorted(states(run).values()) == ["cancelled", *["succeeded"] * 3]


def test_what_waits_for_a_skipped_node_alone_is_skipped_too(app, kinds, seen):
    @app.flow
    def choose(flow):
        first = flow.add(kinds.add, 1, name="first")
        no = flow.add(kinds.note, "no", name="no", after=first, when="first.result > 9")
        flow.add(kinds.note, "below", name="below", after=no)
        flow.add(kinds.note, "done", name="done", after=no, trigger="all_done")

    run = choose.start()
    app.drain()

    assert run.status() is Status.SUCCEEDED
    assert seen == [(1, 1), "done"]
    errors = {node.name: node.error for node in run.nodes() if node.error}
    assert errors == {"no": "skipped: when first.result > 9", "below": "skipped: no"}


@pytest.mark.mostly("sqlite", "postgresql", "mariadb")
def test_a_running_node_adds_nodes_after_itself(app, kinds, seen):
    @app.task
    def split(count: int) -> None:
        flow = windlass.context().flow
        parts = flow.each(kinds.add, range(count))
        flow.add(kinds.total, [part.result for part in parts], after=parts)

    @app.flow
    def grow(flow):
        flow.add(split, 3)

    run = grow.start()
    app.drain()

    assert run.status() is Status.SUCCEEDED
    assert states(run) == dict.fromkeys(["split", "add-1", "add-2", "add-3", "total"], "succeeded")
    assert seen[-1] == [1, 2, 3]


def test_a_node_that_fails_adds_nothing(app, kinds, seen):
    @app.task
    def split() -> None:
        windlass.context().flow.add(kinds.note, "never")
        raise ValueError("after all")

    @app.flow
    def grow(flow):
        flow.add(split)

    run = grow.start()
    app.drain()

    assert run.status() is Status.FAILED
    assert states(run) == {"split": "failed"}


def test_a_node_that_adds_what_cannot_run_fails(app, kinds):
    @app.task
    def split() -> None:
        windlass.context().flow.add(kinds.silent, after="nowhere")

    @app.flow
    def grow(flow):
        flow.add(split)

    run = grow.start()
    app.drain()

    assert [node.error for node in run.nodes()] == [
        "BadFlow: node 'silent' refers to 'nowhere', which is not a node of this flow"
    ]


def test_a_flow_is_a_node_of_another(app, kinds, seen):
    @app.flow
    def inner(flow, base: int):
        one = flow.add(kinds.add, base, name="one")
        flow.add(kinds.add, one.result, after=one, name="two")

    @app.flow
    def outer(flow):
        first = flow.add(kinds.add, 10, name="first")
        nested = flow.add(inner, first.result, after=first, name="nested")
        flow.add(kinds.note, "last", after=nested, name="last")

    run = outer.start()
    app.drain()

    assert run.status() is Status.SUCCEEDED
    assert seen == [(10, 1), (11, 1), (12, 1), "last"]
    assert set(states(run)) == {"first", "nested", "last", "nested/one", "nested/two"}


@pytest.mark.mostly("sqlite", "postgresql", "mariadb")
def test_a_nested_flow_that_fails_is_a_node_that_failed_and_can_be_retried(app, kinds, seen):
    @app.flow
    def inner(flow):
        bad = flow.add(kinds.fragile)
        flow.add(kinds.note, "inside", after=bad, name="inside")

    @app.flow
    def outer(flow):
        nested = flow.add(inner, name="nested")
        flow.add(kinds.note, "last", after=nested, name="last")

    run = outer.start()
    app.drain()
    assert run.status() is Status.FAILED
    assert states(run) == dict.fromkeys(
        ["nested", "last", "nested/fragile", "nested/inside"], "failed"
    )

    kinds.is_broken = False
    run.retry()
    app.drain()

    assert run.status() is Status.SUCCEEDED
    assert seen == ["fragile", "inside", "last"]


@pytest.mark.mostly("sqlite", "postgresql", "mariadb")
def test_a_start_under_a_key_happens_once(app, kinds, seen):
    @app.flow
    def once(flow):
        flow.add(kinds.note, "ran")

    first = once.using(key="order-7").start()
    again = once.using(key="order-7").start()
    app.drain()

    assert first.id == again.id
    assert seen == ["ran"]
    with pytest.raises(DuplicateKey):
        once.using(key="order-7", on_conflict="raise").start()


def test_a_start_joins_the_transaction_of_the_caller(app, kinds, seen):
    @app.flow
    def joined(flow):
        first = flow.add(kinds.note, "first")
        flow.add(kinds.note, "second", after=first)

    app.prepare()
    engine = create_engine(app.database.url)
    with engine.connect() as connection:
        with connection.begin() as transaction:
            joined.using(conn=connection).start()
            transaction.rollback()
        app.drain()
        assert seen == []
        with connection.begin():
            joined.using(conn=connection).start()
    engine.dispose()
    app.drain()

    assert seen == ["first", "second"]


def test_nothing_is_written_of_a_flow_that_cannot_run(app, kinds):
    def refuses(draw, problem, error=BadFlow):
        flow = app.flow(name=f"bad{len(app.registry.kinds)}")(draw)
        with pytest.raises(error, match=problem):
            flow.start()
        assert (rows_in(app, task), rows_in(app, slot)) == (0, 0)

    app.prepare()
    refuses(lambda flow: flow.add("nowhere"), "not declared", UnknownKind)
    refuses(lambda flow: flow.add(len), "is not a task")
    refuses(
        lambda flow: flow.add(kinds.silent, after=["nowhere"]), "'nowhere', which is not a node"
    )
    refuses(
        lambda flow: [flow.add(kinds.silent, name="a"), flow.add(kinds.silent, name="a")],
        "two nodes are named 'a'",
    )
    refuses(
        lambda flow: [
            flow.add(kinds.add, flow.add(kinds.add, 1, name="one").result, name="two"),
        ],
        "given the result of 'one', which need not have ended before",
    )
    refuses(lambda flow: flow.add(kinds.add, "text"), "argument 'left' is 'text'", BadArgument)
    refuses(lambda flow: flow.add(kinds.silent, trigger="maybe"), "trigger='maybe'")
    refuses(lambda flow: flow.add(kinds.silent, when="__import__('os')"), "__import__")


def test_an_argument_beside_a_result_is_checked_before_anything_is_written(app, kinds):
    @app.flow
    def wrong(flow):
        one = flow.add(kinds.add, 1, name="one")
        flow.add(kinds.add, one.result, "text", after=one)

    with pytest.raises(BadArgument, match="argument 'right' is 'text'"):
        wrong.start()


def test_a_result_that_does_not_fit_fails_its_node(app, kinds):
    @app.flow
    def wrong(flow):
        one = flow.add(kinds.note, "text", name="one")
        flow.add(kinds.add, one.result, after=one, name="two")

    run = wrong.start()
    app.drain()

    assert "argument 'left' is 'text'" in run.nodes()[1].error


def test_waiting_for_a_run_that_does_not_end_has_an_end(app, kinds):
    @app.flow
    def idle(flow):
        flow.add(kinds.silent)

    run = idle.start()

    with pytest.raises(ResultTimeout, match="still running"):
        run.wait(timeout=0.01)


def test_a_flow_without_nodes_has_ended_when_it_starts(app):
    @app.flow
    def empty(flow): ...

    assert empty.start().wait(timeout=0) is Status.SUCCEEDED


async def test_every_call_has_a_twin(app, kinds, seen):
    @app.flow
    def line(flow, name: str):
        flow.add(kinds.note, name)

    run = await line.astart("awaited")
    await app.adrain()

    assert await asyncio.wait_for(run, 5) is Status.SUCCEEDED
    assert await run.astatus() is Status.SUCCEEDED
    assert [node.name for node in await run.anodes()] == ["note"]
    assert (await run.aprogress()).percent == 100
    assert (await run.agraph()).edges == []


def test_a_flow_is_started_by_a_schedule(app, clock, kinds, seen):
    @app.cron("0 3 * * *")
    @app.flow
    def nightly(flow):
        flow.add(kinds.note, "night")

    app.drain()
    clock.forward("1d")
    app.drain()
    app.drain()

    assert seen == ["night"]
    assert [run.flow for run in app.flows.runs()] == ["nightly"]


def test_a_graph_is_drawn_for_other_programs(app, kinds):
    @app.flow
    def line(flow):
        first = flow.add(kinds.note, "1", name='say "one"')
        flow.add(kinds.note, "2", name="two", after=first)

    graph = line.start().graph()

    assert graph.json()["edges"] == [['say "one"', "two"]]
    assert "n0 --> n1" in graph.mermaid()
    assert '"say \\"one\\"" -> "two";' in graph.dot()
    assert line.graph().edges == [('say "one"', "two")]


def test_ended_runs_are_pruned_with_their_nodes(app, clock, kinds):
    from windlass.flow.store import flow as store

    @app.flow(keep="1h")
    def line(flow):
        flow.add(kinds.silent, after=flow.add(kinds.silent))

    line.start()
    app.drain()

    def prune():
        return app.database.write(
            lambda connection: store.prune(
                connection,
                app.database.dialect,
                now=clock.now(),
                limit=100,
                pruned=FACES.pruned,
            )
        )

    assert prune() == 0
    clock.forward("2h")
    assert prune() == 3
    assert (rows_in(app, task), rows_in(app, slot)) == (0, 0)


def test_a_retry_of_what_has_not_failed_changes_nothing(app, kinds):
    @app.flow
    def fine(flow):
        flow.add(kinds.silent)

    run = fine.start()
    app.drain()

    assert run.retry() == 0
    assert run.status() is Status.SUCCEEDED


def two_broken_parents(app, kinds):
    @app.flow
    def twice(flow):
        first = flow.add(kinds.fragile, "first", name="first")
        second = flow.add(kinds.fragile, "second", name="second")
        child = flow.add(kinds.note, "child", after=[first, second], name="child")
        flow.add(kinds.note, "last", after=child, name="last")

    run = twice.start()
    app.drain()
    return run


@pytest.mark.mostly("sqlite", "postgresql", "mariadb")
def test_what_a_second_node_blocks_stays_blocked_when_the_first_is_skipped(app, kinds, seen):
    run = two_broken_parents(app, kinds)

    run.skip("first")
    assert run.status() is Status.FAILED
    assert states(run) == {
        "first": "succeeded",
        "second": "failed",
        "child": "failed",
        "last": "failed",
    }

    run.skip("second")
    app.drain()
    assert run.status() is Status.SUCCEEDED
    assert seen == ["child", "last"]


def test_what_a_second_node_blocks_stays_blocked_when_the_first_is_retried(app, kinds, seen):
    run = two_broken_parents(app, kinds)
    kinds.is_broken = False

    assert run.retry("first") == 1
    app.drain()
    assert run.status() is Status.FAILED
    assert seen == ["first"]
    with pytest.raises(BadFlow, match="node 'child' cannot run: it is blocked by"):
        run.retry("child")

    assert run.retry() == 3
    app.drain()
    assert run.status() is Status.SUCCEEDED
    assert seen == ["first", "second", "child", "last"]
