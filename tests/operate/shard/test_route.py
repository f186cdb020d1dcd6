"""An app with several databases: one console shows and acts on all of them."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.fixture.console import Console, Shop, opened
from windlass import App, Status
from windlass.watch.operate.change import TOPICS

pytestmark = pytest.mark.mostly("sqlite")


@pytest.fixture
def wide(database_url: str, second_database_url: str) -> Iterator[Shop]:
    """The shop on two shards."""
    with closing(App(database_url, second_database_url)) as app:
        yield Shop(app)


@pytest.fixture
def console(wide: Shop) -> Iterator[Console]:
    made = opened(wide.app)
    with made.client:
        yield made


def all_tasks(console: Console, **query: str) -> list[int]:
    found: list[int] = []
    after: dict[str, str] = {}
    for _ in range(100):
        page = console.get("tasks", limit=4, **query, **after)
        found += [task["id"] for task in page["items"]]
        if page["next"] is None:
            return found
        after = {"after": page["next"]}
    raise AssertionError("the list does not end")


def test_tasks_of_all_shards_are_listed_once(console, wide):
    refs = [wide.send_mail.using(key=f"order-{number}").enqueue("a") for number in range(15)]

    assert sorted(all_tasks(console)) == sorted(ref.id for ref in refs)
    assert sorted(all_tasks(console, status="waiting")) == sorted(ref.id for ref in refs)
    shown = [console.get(f"tasks/{ref.id}") for ref in refs]
    assert {each["shard"] for each in shown} == {shard.name for shard in wide.app.fleet.shards}


def test_all_that_match_are_cancelled_in_all_shards(console, wide):
    refs = [wide.send_mail.using(key=f"order-{number}").enqueue("a") for number in range(15)]

    done = console.do("tasks/cancel", status="waiting")

    assert (done["changed"], done["next"]) == (15, None)
    assert {ref.status() for ref in refs} == {Status.CANCELLED}


def test_every_face_shows_all_shards(console, wide):
    wide.stock.add([f"SKU-{number}" for number in range(30)])
    wide.app.control.start("load")
    console.do("switches/stock/pause")

    assert len(console.get("rings")["rings"]) == 2
    assert [shard["up"] for shard in console.get("shards")] == [True, True]
    assert console.get("rolling")[0]["total"] == 30
    assert console.get("rolling/stock")["histogram"]["never_visited"] == 30
    codes = [item["key"] for item in console.get("rolling/stock/items", limit=30)["items"]]
    assert codes == sorted(f"SKU-{number}" for number in range(30))
    assert [run["name"] for run in console.get("control")["items"]] == ["load"]
    assert console.get("control/load")["run"]["status"] == "running"
    assert console.get("kinds/stock")["kind"]["waiting"] == 30
    assert len(console.get("overview")["shards"]) == 2
    assert len(console.get("about")["databases"]) == 2
    assert [deed["action"] for deed in console.get("audit")["items"]] == ["switch.pause"]
    assert set(console.get("changes")["topics"]) == set(TOPICS)


def test_runs_of_all_shards_are_listed_once_and_found_where_they_are(console, wide):
    @wide.app.flow
    def order(flow, number: int):
        flow.add(wide.send_mail, "a", name="mail")

    started = [order.using(key=f"order-{number}").start(number).id for number in range(9)]
    found: list[int] = []
    after: dict[str, str] = {}
    while True:
        page = console.get("flows", flow="order", status="running", limit=4, **after)
        found += [run["id"] for run in page["items"]]
        if page["next"] is None:
            break
        after = {"after": page["next"]}

    assert sorted(found) == sorted(started)
    assert {console.get(f"flows/{run}")["total"] for run in started} == {1}
    console.do("templates/lunch", nodes=[{"name": "mail", "kind": "send_mail", "args": ["a"]}])
    assert [row["version"] for row in console.get("templates/lunch/versions")] == [1]
