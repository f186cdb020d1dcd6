"""A pause of a flow, or of its group, holds the nodes of its runs."""

import pytest
from sqlalchemy import select

from tests.core.run.working import working
from tests.wait import eventually
from windlass import BadDeclaration, Status
from windlass.database.schema import task

pytestmark = pytest.mark.everywhere


@pytest.fixture
def seen():
    return []


@pytest.fixture
def flows(app, seen):
    """A flow in a group, and one beside it, whose nodes are of one kind."""

    @app.task
    def note(name: str) -> None:
        seen.append(name)

    @app.flow(group="sale")
    def sell(flow):
        first = flow.add(note, "sell 1", name="first")
        flow.add(note, "sell 2", name="second", after=[first])

    @app.flow
    def count(flow):
        flow.add(note, "count")

    return {"sell": sell, "count": count, "note": note}


def test_a_paused_group_holds_the_nodes_of_its_flows_and_no_others(app, flows, seen):
    app.pause(group="sale", reason="stocktaking")
    run, other = flows["sell"].start(), flows["count"].start()

    app.drain()

    assert seen == ["count"]
    assert other.status() is Status.SUCCEEDED
    assert run.status() is Status.RUNNING
    assert {str(node.status) for node in run.nodes()} == {"waiting", "blocked"}


def test_a_running_worker_holds_nodes_and_goes_on_at_once_when_resumed(app, flows, seen):
    app.pause(group="sale")
    run = flows["sell"].start()
    with working(app):
        eventually(lambda: "put off" in (remark_of(app, run) or ""), what="a node put off")
        assert seen == []

        app.resume(group="sale")

        eventually(lambda: run.status() is Status.SUCCEEDED, what="the end of the flow run")
    assert seen == ["sell 1", "sell 2"]
    assert remark_of(app, run) is None


def test_a_paused_flow_holds_its_nodes_until_it_is_resumed(app, flows, seen):
    app.pause("sell")
    run = flows["sell"].start()
    app.drain()
    assert seen == []

    app.resume("sell")
    app.drain()

    assert seen == ["sell 1", "sell 2"]
    assert run.status() is Status.SUCCEEDED


def test_a_pause_between_two_nodes_holds_the_second(app, flows, seen):
    workers = []

    @app.task
    def pause() -> None:
        app.pause(group="sale")
        eventually(lambda: workers[0].in_flight.paused_owners, what="a worker that obeys")

    @app.flow(group="sale")
    def stop(flow):
        flow.add(flows["note"], "after", after=[flow.add(pause)])

    with working(app) as worker:
        workers.append(worker)
        run = stop.start()
        eventually(lambda: "put off" in (remark_of(app, run, "note") or ""), what="a node put off")
        assert seen == []

        app.resume(group="sale")

        eventually(lambda: run.status() is Status.SUCCEEDED, what="the end of the flow run")


def test_the_group_is_known_to_operators(app, flows):
    assert app.registry.groups == {"sale": ["sell"]}
    with pytest.raises(BadDeclaration, match="group"):
        app.flow(name="sold", group="")(lambda flow: None)


def remark_of(app, run, node="first"):
    number = next(each.id for each in run.nodes() if each.name == node)
    query = select(task.c.remark).where(task.c.id == number)
    return app.database.read(lambda connection: connection.scalar(query))
