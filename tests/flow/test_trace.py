"""The nodes of a flow run are children of its start, whoever runs them and whenever."""

import pytest

import windlass
from tests.fixture.trace import id_of, links_of, parent_of

NODES = ("process pick", "process pack", "process ship")


@pytest.fixture
def order(app):
    @app.task
    def pick(order: str) -> str:
        return order

    @app.task
    async def pack(order: str) -> str:
        return order

    @app.task
    def ship(order: str) -> None: ...

    @app.flow
    def order(flow, number: str):
        picked = flow.add(pick, number)
        packed = flow.add(pack, picked.result, after=[picked])
        flow.add(ship, packed.result, after=[packed])

    return order


@pytest.mark.everywhere
def test_nodes_are_children_of_their_flow_run(app, spans, order):
    with spans.tracer.start_as_current_span("request") as request:
        run = order.start("order-7")
    app.drain()

    start = spans.one("send order")
    assert parent_of(start) == id_of(request)
    assert start.attributes["messaging.message.id"] == str(run.id)
    nodes = [spans.one(name) for name in NODES]
    assert [parent_of(node) for node in nodes] == [id_of(start)] * 3
    assert [links_of(node) for node in nodes] == [[id_of(start)]] * 3
    assert {node.attributes["windlass.flow_run"] for node in nodes} == {run.id}


def test_nodes_that_are_added_while_it_runs_are_children_too(app, spans):
    @app.task
    def leaf() -> None: ...

    @app.task
    def grow() -> None:
        windlass.context().flow.add(leaf)

    @app.flow
    def inner(flow):
        flow.add(leaf, name="inside")

    @app.flow
    def tree(flow):
        flow.add(grow)
        flow.add(inner)

    tree.start()
    app.drain()

    start = spans.one("send tree")
    assert spans.one("process inner").attributes["windlass.outcome"] == "expanded"
    runs = [span for span in spans.all if span.name.startswith("process ")]
    assert sorted(span.name for span in runs) == [
        "process grow",
        "process inner",
        "process leaf",
        "process leaf",
    ]
    assert [parent_of(span) for span in runs] == [id_of(start)] * 4


def test_a_node_whose_condition_is_false_is_skipped(app, spans):
    @app.task
    def look() -> int:
        return 0

    @app.task
    def act() -> None: ...

    @app.flow
    def maybe(flow):
        found = flow.add(look)
        flow.add(act, after=[found], when="look.result > 0")

    maybe.start()
    app.drain()

    assert spans.one("process act").attributes["windlass.outcome"] == "skipped"
    assert spans.one("process act").status.is_ok


def test_a_flow_that_a_schedule_starts_is_in_the_trace_of_its_turn(app, spans, clock):
    @app.task
    def look() -> None: ...

    @app.cron("* * * * *")
    @app.flow
    def nightly(flow):
        flow.add(look)

    app.drain()
    clock.forward("1m")
    app.drain()

    turn = spans.one("process nightly cron")
    assert parent_of(spans.one("send nightly")) == id_of(turn)
    assert parent_of(spans.one("process look")) == id_of(spans.one("send nightly"))
