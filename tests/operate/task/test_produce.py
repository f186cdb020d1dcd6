"""New tasks over HTTP, by a token of the role producer: what Python's calls do, and refuse."""

import pytest

from tests.fixture.console import SECRET, Console
from windlass import App, External, Running, Status, web
from windlass.operate.token.operate import FleetTokens
from windlass.view.role import Role

MAIL = {"kind": "send_mail", "arguments": {"to": "ada@example.com", "copies": 2}}


class Program:
    """A program in another language: it has a token, and sends JSON."""

    def __init__(self, app: App, name: str = "billing", role: Role = Role.PRODUCER, **options):
        token = FleetTokens(app.fleet).create(name, role, who="Ada").token
        self.client = Console(web.create(app, secret=SECRET, **options)).client
        self.client.headers["Authorization"] = f"Bearer {token}"

    def post(self, path: str, body: dict, *, key: str | None = None):
        headers = {} if key is None else {"Idempotency-Key": key}
        return self.client.post(f"/api/{path}", json=body, headers=headers)

    def do(self, path: str, body: dict, *, key: str | None = None):
        answer = self.post(path, body, key=key)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def get(self, path: str, **query):
        answer = self.client.get(f"/api/{path}", params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()


@pytest.fixture
def program(web_shop):
    return Program(web_shop.app)


@pytest.fixture
def sqlite_program(sqlite_web_shop):
    return Program(sqlite_web_shop.app)


def test_a_program_enqueues_a_task_and_gets_its_result(program, web_shop):
    made = program.do("tasks", MAIL | {"key": "order-7", "priority": 5})
    again = program.do("tasks", MAIL | {"key": "order-7"})
    before = program.get(f"tasks/{made['id']}/result")
    web_shop.app.drain()
    after = program.get(f"tasks/{made['id']}/result", wait="5s")

    assert (made["created"], again) == (True, {"id": made["id"], "created": False})
    assert (before["status"], before["ended"], before["result"]) == ("waiting", False, None)
    assert after == {
        "id": made["id"],
        "kind": "send_mail",
        "status": "succeeded",
        "ended": True,
        "result": "sent to ada@example.com",
        "error": None,
    }
    assert web_shop.app.find(made["id"]).priority == 5


def test_many_tasks_are_written_together_or_not_at_all(program, web_shop):
    tasks = [{"arguments": {"to": str(number)}, "key": f"k-{number}"} for number in range(1_000)]

    made = program.do("tasks/many", {"kind": "send_mail", "delay": "1h", "tasks": tasks})
    again = program.do("tasks/many", {"kind": "send_mail", "tasks": tasks[::-1]})
    bad = [*tasks[:10], {"arguments": {"to": 7}, "key": "bad"}]
    refused = program.post("tasks/many", {"kind": "odd/name ü", "tasks": bad})

    ids = [each["id"] for each in made["tasks"]]
    assert len(set(ids)) == 1_000
    assert all(each["created"] for each in made["tasks"])
    assert again["tasks"] == [{"id": number, "created": False} for number in reversed(ids)]
    assert refused.status_code == 422
    assert web_shop.app.database.read(lambda c: c.exec_driver_sql(COUNT).scalar()) == 1_000
    assert web_shop.app.find(ids[0]).due_at > web_shop.app.clock.now() + 3_000_000_000


COUNT = "select count(*) from windlass_task"


def test_a_task_that_failed_says_why(program, web_shop):
    number = program.do("tasks", MAIL | {"arguments": {"to": "nobody"}})["id"]
    web_shop.app.drain()

    ended = program.get(f"tasks/{number}/result", wait="1s")

    assert (ended["status"], ended["ended"], ended["result"]) == ("failed", True, None)
    assert ended["error"] == "ValueError: no such <b>address</b>"


REFUSED = [
    ({"kind": "send_mial"}, 404, "send_mial"),
    ({"kind": "windlass:deliver"}, 404, "windlass:deliver"),
    ({"kind": "stock"}, 422, "is rolling"),
    ({"kind": "offer"}, 422, "no tasks to enqueue"),
    ({"arguments": {}}, 422, "missing a required argument: 'to'"),
    ({"arguments": {"to": "a", "self": 1}}, 422, "unexpected keyword argument 'self'"),
    ({"arguments": {"to": "a", "copies": "two"}}, 422, "argument 'copies' is 'two' (str)"),
    ({"arguments": {"to": "x" * 300_000}}, 422, "over the limit of 262,144"),
    ({"key": "k" * 256}, 422, "has 256 characters; at most 255 fit"),
    ({"key": ""}, 422, "the key is empty"),
    ({"key": "windlass:x"}, 422, "is reserved"),
    ({"lane": "l" * 256}, 422, "at most"),
    ({"delay": "soon"}, 422, "soon"),
    ({"delay": "5m", "at": "2030-01-01T00:00:00Z"}, 422, "give delay or at, not both"),
    ({"at": "2020-01-01T00:00:00Z", "on_past": "raise"}, 422, "has passed"),
    ({"at": "tomorrow"}, 422, "body.at"),
    ({"priority": 40_000}, 422, "body.priority"),
    ({"colour": "blue"}, 422, "body.colour"),
]


@pytest.mark.parametrize(("change", "status", "text"), REFUSED)
def test_what_python_refuses_is_refused_with_its_words(sqlite_program, change, status, text):
    answer = sqlite_program.post("tasks", MAIL | change)

    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert text in answer.json()["detail"]


def test_a_body_is_bounded(sqlite_program):
    tasks = [{"arguments": {"to": "a"}}] * 1_001

    too_many = sqlite_program.post("tasks/many", {"kind": "send_mail", "tasks": tasks})
    none = sqlite_program.post("tasks/many", {"kind": "send_mail", "tasks": []})
    mixed = [{"arguments": {"to": "a"}}, {"arguments": {"to": "a"}, "key": "b"}]
    some = sqlite_program.post("tasks/many", {"kind": "send_mail", "tasks": mixed})
    large = sqlite_program.post("tasks", MAIL | {"key": "x" * 1_100_000})
    conflict = [sqlite_program.post("tasks", MAIL | KEYED).status_code for _ in range(2)]

    assert (too_many.status_code, none.status_code, large.status_code) == (422, 422, 413)
    assert "a key to each of the tasks, or to none" in some.json()["detail"]
    assert conflict == [200, 409]


KEYED = {"key": "k", "on_conflict": "raise"}


def test_a_wait_is_bounded_and_an_unknown_task_is_unknown(sqlite_program):
    long = sqlite_program.client.get("/api/tasks/1/result?wait=61s")
    unknown = sqlite_program.client.get("/api/tasks/77/result?wait=5s")

    assert (long.status_code, unknown.status_code) == (422, 404)
    assert "at most 60s" in long.json()["detail"]


def test_a_program_starts_a_flow_and_waits_for_its_end(sqlite_web_shop):
    app = sqlite_web_shop.app

    @app.flow
    def letters(flow, to: str):
        flow.add(sqlite_web_shop.send_mail, to)

    program = Program(app)
    run = program.do("flows", {"flow": "letters", "arguments": {"to": "Ada"}}, key="a")
    again = program.do("flows", {"flow": "letters", "arguments": {"to": "Ada"}}, key="a")
    app.drain()

    assert again == run
    assert program.get(f"tasks/{run['id']}/result", wait="5s")["status"] == "succeeded"
    assert program.post("tasks", {"kind": "letters"}).json()["detail"].endswith("/api/flows")
    assert app.database.read(lambda c: c.exec_driver_sql(NODES).scalar()) == 2


NODES = "select count(*) from windlass_task where flow_id is not null"


def test_calls_of_programs_are_not_in_the_audit_log_and_those_of_people_are(sqlite_web_shop):
    app = sqlite_web_shop.app
    program, person = Program(app), Program(app, "ada", Role.OPERATOR)

    number = program.do("tasks", MAIL)["id"]
    program.do("control/load/start", {})
    restock = {"id": "d", "lines": [{"sku": "A", "quantity": 1}]}
    assert program.post("ledger/restocks", restock).status_code == 201
    person.do("tasks", MAIL)

    found = Program(app, "eva", Role.VIEWER).get("audit")["items"]
    assert [each["action"] for each in found] == ["task.enqueue"]
    assert app.ref(number).status() is Status.WAITING


class Press(External):
    """Prints for ever, unless somebody tells that it has ended."""

    def submit(self, pages: int) -> str:
        return f"job-{pages}"

    def poll(self, handles: list[str]) -> dict[str, Running]:
        return {handle: Running() for handle in handles}


def test_a_program_ends_an_external_task_by_its_handle_or_its_id(sqlite_web_shop):
    app = sqlite_web_shop.app
    press = app.external("press", Press(), every="1h")
    program = Program(app)
    seven, eight = (program.do("tasks", job(pages))["id"] for pages in (7, 8))
    app.drain()

    first = program.do("notify", {"task": "job-7", "ok": True, "result": {"pages": 7}})
    again = program.do("notify", {"task": seven, "ok": False, "reason": "late"})
    failed = program.do("notify", {"task": eight, "ok": False, "reason": "no paper"})

    assert [each["changed"] for each in (first, again, failed)] == [True, False, True]
    assert program.get(f"tasks/{seven}/result")["result"] == {"pages": 7}
    assert "no paper" in program.get(f"tasks/{eight}/result")["error"]
    assert program.post("notify", {"task": "job-9", "ok": True}).status_code == 404
    assert program.post("notify", {"task": True, "ok": True}).status_code == 422
    assert program.post("notify", {"task": 1, "ok": "yes"}).status_code == 422
    assert press.kind == "press"


def job(pages: int) -> dict:
    return {"kind": "press", "arguments": {"pages": pages}}
