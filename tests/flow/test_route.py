"""Flows: their runs, graphs and nodes as the API shows them, and what may be done to them."""

import json

import pytest

from tests.fixture.console import SECRET, VIEWER_SECRET
from windlass.flow.operate import view as flow_look
from windlass.flow.store import page as flow_page


class Kitchen:
    """Flows of the shop."""

    def __init__(self, web_shop) -> None:
        app = self.app = web_shop.app
        self.is_hot = False

        @app.task(retries=0)
        def chop(what: str) -> dict[str, object]:
            """Chop something."""
            return {"what": what, "pieces": [1, 2, 3]}

        @app.task(retries=0)
        def cook(what: object) -> str:
            if not self.is_hot:
                raise ValueError("the <b>stove</b> is cold")
            return "done"

        @app.task
        def serve(dish: str = "soup") -> str:
            return dish

        @app.flow
        def dinner(flow, guest: str, courses: int = 1):
            """Cook for a guest."""
            if courses > 9:
                raise RuntimeError("too much")
            cut = flow.add(chop, guest, name="cut")
            hot = flow.add(cook, cut.result["what"], after=cut, name="hot")
            flow.add(serve, after=[hot], name="table")
            flow.add(serve, "salad", after=[cut, hot], trigger="all_done", name="salad")

        @app.flow
        def feast(flow):
            flow.add(dinner, "all", name="main")

        self.dinner, self.feast = dinner, feast


@pytest.fixture
def kitchen(web_shop):
    return Kitchen(web_shop)


@pytest.fixture
def sqlite_kitchen(sqlite_web_shop):
    return Kitchen(sqlite_web_shop)


def by_name(nodes):
    return {node["name"]: node for node in nodes}


def test_runs_are_listed_newest_first_by_pages(console, kitchen):
    started = [kitchen.dinner.start(f"guest {number}").id for number in range(5)]
    kitchen.feast.start()

    first = console.get("flows", flow="dinner", limit=2)
    second = console.get("flows", flow="dinner", limit=2, after=first["next"])
    third = console.get("flows", flow="dinner", limit=2, after=second["next"])

    listed = [run["id"] for page in (first, second, third) for run in page["items"]]
    assert listed == started[::-1]
    assert third["next"] is None
    every = console.get("flows", limit=4)
    assert [run["flow"] for run in every["items"]] == ["feast", *["dinner"] * 3]
    rest = console.get("flows", limit=4, after=every["next"])
    assert [run["id"] for run in rest["items"]] == [started[1], started[0]]
    assert (rest["items"][0]["nodes"], rest["items"][0]["left"]) == (4, 4)


def test_runs_are_found_by_their_state_also_if_their_flow_is_forgotten(console, kitchen):
    failed = kitchen.dinner.start("Ada").id
    kitchen.app.drain()
    going = kitchen.feast.start().id

    def ids(**query):
        return [run["id"] for run in console.get("flows", **query)["items"]]

    assert ids(status="failed") == [failed]
    assert ids(status="running") == [going]
    assert ids(status="failed", flow="feast") == []
    del kitchen.app.registry.kinds["dinner"]
    assert ids(status="failed") == [failed]
    assert ids(status="succeeded") == []


def test_nested_flows_are_no_runs_however_many_there_are(console, kitchen, monkeypatch):
    monkeypatch.setattr(flow_page, "LOOKED_AT", 3)
    kitchen.is_hot = True
    first = kitchen.dinner.start("Ada").id
    for _ in range(5):
        kitchen.feast.start()
    kitchen.app.drain()

    found, after = [], None
    for _ in range(10):
        query = {} if after is None else {"after": after}
        page = console.get("flows", flow="dinner", status="succeeded", **query)
        found += [run["id"] for run in page["items"]]
        after = page["next"]
        if after is None:
            break

    assert found == [first]
    assert after is None


def test_a_run_shows_its_graph_with_states_and_slots(console, kitchen):
    run = kitchen.dinner.start("Ada").id

    before = console.get(f"flows/{run}")
    kitchen.app.drain()
    after = console.get(f"flows/{run}")

    assert before["run"]["status"] == "running"
    assert json.loads(before["arguments"]) == {"guest": "Ada"}
    nodes = by_name(before["nodes"])
    assert nodes["cut"]["status"] == "waiting"
    assert (nodes["salad"]["slots"], nodes["salad"]["open_slots"]) == (2, 2)
    assert nodes["salad"]["rule"] == "all_done"
    assert sorted(map(tuple, before["edges"])) == [
        ("cut", "hot"),
        ("cut", "salad"),
        ("hot", "salad"),
        ("hot", "table"),
    ]
    assert (before["total"], before["is_whole"]) == (4, True)
    assert after["run"]["status"] == "failed"
    assert after["counts"] == {"succeeded": 2, "failed": 2}
    nodes = by_name(after["nodes"])
    assert nodes["hot"]["error"] == "ValueError: the <b>stove</b> is cold"
    assert nodes["table"]["error"] == "blocked by hot"
    assert nodes["salad"]["status"] == "succeeded"
    assert console.client.get("/api/flows/77777").status_code == 404


def test_a_nested_flow_shows_what_is_inside_it(console, kitchen):
    kitchen.is_hot = True
    run = kitchen.feast.start().id
    kitchen.app.drain()

    shown = console.get(f"flows/{run}")

    assert {node["name"] for node in shown["nodes"]} == {
        "main",
        "main/cut",
        "main/hot",
        "main/table",
        "main/salad",
    }
    assert ["main/cut", "main"] in shown["inside"]
    assert ["main/cut", "main/hot"] in shown["edges"]


def test_of_a_large_run_what_went_wrong_is_shown_first(console, kitchen, monkeypatch):
    monkeypatch.setattr(flow_look, "MOST_DRAWN", 2)
    run = kitchen.dinner.start("Ada").id
    kitchen.app.drain()

    shown = console.get(f"flows/{run}")
    near = console.get(f"flows/{run}", around="cut")

    assert (shown["is_whole"], shown["total"]) == (False, 4)
    assert {node["name"] for node in shown["nodes"]} == {"hot", "table"}
    assert {node["name"] for node in near["nodes"]} == {"cut", "hot", "salad"}
    assert console.client.get(f"/api/flows/{run}?around=none").status_code == 404


def test_nodes_are_found_by_name_and_state(console, kitchen):
    run = kitchen.dinner.start("Ada").id
    kitchen.app.drain()

    def names(**query):
        return [node["name"] for node in console.get(f"flows/{run}/nodes", **query)["items"]]

    assert names() == ["cut", "hot", "salad", "table"]
    assert names(status="failed") == ["hot", "table"]
    assert names(prefix="s") == ["salad"]
    first = console.get(f"flows/{run}/nodes", limit=3)
    assert first["next"] == "salad"
    assert names(after="salad") == ["table"]


def test_a_node_shows_its_arguments_its_errors_and_its_neighbours(console, kitchen):
    run = kitchen.dinner.start("Ada").id
    kitchen.app.drain()

    shown = console.get(f"flows/{run}/node", name="hot")

    assert json.loads(shown["arguments"]) == {"what": {"$result": "cut", "path": ["what"]}}
    assert shown["failures"][0]["error"] == "ValueError: the <b>stove</b> is cold"
    assert "Traceback" in shown["failures"][0]["trace"]
    assert [node["name"] for node in shown["waits_for"]] == ["cut"]
    assert {node["name"] for node in shown["before"]} == {"table", "salad"}
    cut = console.get(f"flows/{run}/node", name="cut")
    assert json.loads(cut["result"])["pieces"] == [1, 2, 3]
    task = console.get(f"tasks/{shown['node']['id']}")
    assert task["flow"] == {"run": run, "node": "hot"}
    assert not task["task"]["can_retry"]
    assert console.get(f"tasks/{run}")["flow"] == {"run": run, "node": None}
    assert console.client.get(f"/api/flows/{run}/node?name=none").status_code == 404


def test_a_run_is_retried_skipped_and_cancelled_and_that_is_written_down(console, kitchen):
    run = kitchen.dinner.start("Ada").id
    kitchen.app.drain()

    assert console.do(f"flows/{run}/retry")["changed"] == 2
    kitchen.app.drain()
    done = console.do(f"flows/{run}/skip", node="hot")
    kitchen.app.drain()

    assert done["message"] == f"hot of run {run} counts as succeeded"
    shown = console.get(f"flows/{run}")
    assert shown["run"]["status"] == "succeeded"
    assert by_name(shown["nodes"])["hot"]["is_skipped"]
    for action, body in (("retry", {}), ("skip", {"node": "hot"}), ("cancel", {})):
        refused = console.post(f"flows/{run}/{action}", **body)
        assert refused.status_code == 409, action
    assert console.post(f"flows/{run}/skip", node="none").status_code == 404
    going = kitchen.dinner.start("Bo").id
    console.do(f"flows/{going}/cancel", reason="no guests")
    assert console.get(f"flows/{going}")["run"]["error"] == "no guests"
    deeds = [deed["action"] for deed in console.get("audit")["items"] if deed["ok"]]
    assert deeds == ["flow.cancel", "flow.skip", "flow.retry"]


def test_a_flow_is_started_once_under_a_key(console, kitchen):
    started = console.do("flows", flow="dinner", arguments={"guest": "Ada"}, key="table-7")
    again = console.do("flows", flow="dinner", arguments={"guest": "Bo"}, key="table-7")

    assert again["id"] == started["id"]
    names = {each["name"]: each for each in console.get("flows/startable")}
    assert [each["name"] for each in names["dinner"]["arguments"]] == ["guest", "courses"]
    assert names["dinner"]["summary"] == "Cook for a guest."
    assert console.post("flows", flow="none").status_code == 404
    wrong = console.post("flows", flow="dinner", arguments={"gast": "Ada"})
    assert wrong.status_code == 422
    broken = console.post("flows", flow="dinner", arguments={"guest": "Ada", "courses": 10})
    assert broken.status_code == 422
    assert "RuntimeError: too much" in broken.json()["detail"]


def test_what_has_not_begun_can_be_changed(console, kitchen):
    run = kitchen.dinner.start("Ada").id

    new = {"name": "wash", "kind": "serve", "kwargs": {"dish": {"$result": "hot"}}}
    console.do(
        f"flows/{run}/edit",
        add=[{**new, "after": ["hot"]}],
        link=[["salad", "table"]],
        unlink=[["hot", "table"]],
    )

    edges = {tuple(edge) for edge in console.get(f"flows/{run}")["edges"]}
    assert edges == {
        ("cut", "hot"),
        ("cut", "salad"),
        ("hot", "salad"),
        ("hot", "wash"),
        ("salad", "table"),
    }
    assert console.post(f"flows/{run}/edit").status_code == 422
    circle = console.post(f"flows/{run}/edit", link=[["table", "hot"]])
    assert circle.status_code == 422
    assert "circle" in circle.json()["detail"]
    begun = console.post(f"flows/{run}/edit", link=[["hot", "cut"]])
    assert begun.status_code == 422


def test_a_run_is_exported(console, kitchen, monkeypatch):
    run = kitchen.dinner.start("Ada").id

    assert console.get(f"flows/{run}/export")["text"].startswith("flowchart TD")
    assert console.get(f"flows/{run}/export", format="dot")["text"].startswith("digraph")
    spec = json.loads(console.get(f"flows/{run}/export", format="json")["text"])
    assert ["cut", "hot"] in spec["edges"]
    monkeypatch.setattr("windlass.flow.route.MOST_EXPORTED", 3)
    assert console.client.get(f"/api/flows/{run}/export").status_code == 409


def test_a_template_is_checked_saved_versioned_and_started(console, kitchen):
    kitchen.is_hot = True
    spec = {
        "nodes": [
            {"name": "cut", "kind": "chop", "kwargs": {"what": {"$argument": "food"}}},
            {"name": "hot", "kind": "cook", "kwargs": {"what": {"$result": "cut"}}},
        ],
        "edges": [["cut", "hot"]],
    }

    assert console.do("templates/lunch/check", **spec) == {
        "ok": True,
        "problems": [],
        "arguments": ["food"],
    }
    assert console.get("templates") == []
    assert console.do("templates/lunch", **spec)["version"] == 1
    assert console.do("templates/lunch", **spec)["version"] == 1
    more = {**spec, "nodes": [*spec["nodes"], {"name": "table", "kind": "serve"}]}
    assert console.do("templates/lunch", **more)["version"] == 2

    assert [row["version"] for row in console.get("templates/lunch/versions")] == [2, 1]
    assert len(console.get("templates/lunch", version=1)["spec"]["nodes"]) == 2
    (listed,) = console.get("templates")
    assert (listed["nodes"], listed["edges"], listed["arguments"]) == (3, 1, ["food"])
    run = console.do("flows", flow="lunch", arguments={"food": "leek"})["id"]
    kitchen.app.drain()
    shown = console.get(f"flows/{run}")["run"]
    assert (shown["status"], shown["template"], shown["version"]) == ("succeeded", "lunch", 2)
    text = console.get("templates/lunch/export", format="json")["text"]
    assert json.loads(text)["edges"] == [["cut", "hot"]]
    assert console.get("templates/lunch/export")["text"].startswith("flowchart")


@pytest.mark.parametrize(
    ("name", "node", "said"),
    [
        ("lunch", {"name": "a", "kind": "none"}, "'none' is not declared"),
        ("lunch", {"name": "a", "kind": "chop"}, "'what'"),
        ("lunch", {"name": "a", "kind": "stock"}, "runs by itself"),
        ("dinner", {"name": "a", "kind": "serve"}, "is declared in code"),
        ("7", {"name": "a", "kind": "serve"}, "the id of a run"),
        ("lunch", {"name": "a", "kind": "serve", "when": "__import__('os')"}, "'a'"),
    ],
)
def test_what_is_wrong_with_a_template_is_told(browse, sqlite_kitchen, name, node, said):
    console = browse()

    checked = console.do(f"templates/{name}/check", nodes=[node])
    saved = console.post(f"templates/{name}", nodes=[node])

    assert not checked["ok"]
    assert said in checked["problems"][0]
    assert saved.status_code in (404, 422)
    assert console.get("templates") == []


@pytest.mark.parametrize(
    "value",
    ["[" * 60 + "]" * 60, "1" + "0" * 30, "NaN", '"\\u0000"', '"\\ud800"'],
    ids=["deep", "large", "not a number", "null byte", "half a letter"],
)
def test_arguments_that_no_database_keeps_are_refused(browse, sqlite_kitchen, value):
    console = browse()

    def post(path, body):
        headers = {**console.headers, "content-type": "application/json"}
        return console.client.post(f"/api/{path}", content=body, headers=headers)

    node = f'{{"name": "a", "kind": "serve", "kwargs": {{"dish": {value}}}}}'
    assert post("templates/lunch", f'{{"nodes": [{node}]}}').status_code == 422
    assert post("templates/lunch/check", f'{{"nodes": [{node}]}}').status_code == 422
    start = f'{{"flow": "dinner", "arguments": {{"guest": {value}}}}}'
    assert post("flows", start).status_code == 422


def test_who_may_only_look_changes_no_flow(browse, sqlite_kitchen):
    console = browse(secret=SECRET, viewer_secret=VIEWER_SECRET)
    console.log_in(VIEWER_SECRET)
    run = sqlite_kitchen.dinner.start("Ada").id

    assert console.get(f"flows/{run}")["total"] == 4
    for path, body in (
        ("flows", {"flow": "feast"}),
        (f"flows/{run}/cancel", {}),
        (f"flows/{run}/retry", {}),
        (f"flows/{run}/skip", {"node": "cut"}),
        (f"flows/{run}/edit", {"unlink": [["cut", "hot"]]}),
        ("templates/lunch", {"nodes": []}),
    ):
        assert console.post(path, **body).status_code == 403, path
    assert console.get(f"flows/{run}")["run"]["status"] == "running"


def test_the_overview_tells_which_flows_run_and_which_failed(console, kitchen):
    failed = kitchen.dinner.start("Ada").id
    kitchen.app.drain()
    going = kitchen.feast.start().id

    flows = console.get("overview")["flows"]

    assert [run["id"] for run in flows["running"]] == [going]
    assert [run["id"] for run in flows["failed"]] == [failed]


def test_whoever_listens_hears_of_flows(console, kitchen):
    def changed(act):
        before = console.get("changes")["topics"]["flows"]
        act()
        return before != console.get("changes")["topics"]["flows"]

    assert not changed(lambda: None)
    assert changed(lambda: kitchen.dinner.start("Ada"))
    assert changed(kitchen.app.drain)
    assert changed(lambda: console.do("templates/x", nodes=[{"name": "a", "kind": "serve"}]))


def test_tasks_that_are_nodes_are_found_by_their_state(console, kitchen):
    run = kitchen.dinner.start("Ada").id

    blocked = console.get("tasks", status="blocked")["items"]
    going = console.get("tasks", status="running")["items"]
    (shard,) = console.get("shards")
    kitchen.app.drain()

    assert [task["kind"] for task in blocked] == ["serve", "serve", "cook"]
    assert [task["id"] for task in going] == [run]
    assert (shard["waiting"], shard["running"]) == (4, 1)
    failed = console.get("tasks", status="failed", kind="cook")["items"]
    assert [task["remark"] for task in failed] == ["ValueError: the <b>stove</b> is cold"]
