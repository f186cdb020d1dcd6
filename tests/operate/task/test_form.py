"""What a kind takes, and a task that is enqueued by hand."""

import enum
import json
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
import pytest

pytestmark = pytest.mark.mostly("sqlite")


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Parcel:
    code: str
    weight: float = 1.0


@pytest.fixture
def form(console, web_shop):
    app = web_shop.app

    @app.task(keep="1h", priority=3)
    def pack(
        order: Annotated[int, msgspec.Meta(ge=1, description="the number of the order")],
        parcel: Parcel,
        at: datetime | None = None,
        size: Literal["s", "l"] = "s",
        colour: Colour = Colour.RED,
        is_gift: bool = False,
        extra: Any = None,
    ) -> None:
        """Pack a parcel.

        Args:
            size: how large it is
        """

    @app.flow
    def send(flow, order: str) -> None:
        """Send an order."""

    return lambda kind: console.get(f"kinds/{kind}/form")


def test_a_form_has_each_parameter_with_its_schema_default_and_doc(form):
    shown = form("pack")
    parameters = {each["name"]: each for each in shown["parameters"]}
    accepts = {name: json.loads(each["accepts"]) for name, each in parameters.items()}

    assert (shown["does"], shown["summary"], shown["priority"]) == ("enqueue", "Pack a parcel.", 3)
    assert parameters["order"]["doc"] == "the number of the order"
    assert (accepts["order"]["type"], accepts["order"]["minimum"]) == ("integer", 1)
    assert accepts["parcel"]["type"] == "object"
    assert {"type": "string", "format": "date-time"} in accepts["at"]["anyOf"]
    assert accepts["colour"]["enum"] == ["blue", "red"]
    assert (parameters["size"]["default"], parameters["size"]["doc"]) == ('"s"', "how large it is")
    assert accepts["extra"] == {}
    assert [name for name, each in parameters.items() if each["required"]] == ["order", "parcel"]


def test_a_flow_is_started_and_what_has_no_tasks_says_so(form):
    assert (form("send")["does"], [each["name"] for each in form("send")["parameters"]]) == (
        "start",
        ["order"],
    )
    assert (form("stock")["does"], "rolling" in form("stock")["why_not"]) == ("nothing", True)
    assert "it is a sweep" in form("offer")["why_not"]


def test_a_task_is_enqueued_by_hand_once_for_its_key(console, form):
    body = {"arguments": {"order": 7, "parcel": {"code": "p-1"}}, "key": "k", "delay": "5m"}

    first = console.do("tasks", kind="pack", **body, priority=9)
    again = console.do("tasks", kind="pack", **body)

    assert (first["created"], again["created"], again["id"]) == (True, False, first["id"])
    task = console.get(f"tasks/{first['id']}")["task"]
    assert (task["key"], task["priority"], task["status"]) == ("k", 9, "waiting")
    entry = console.get("audit")["items"][0]
    assert (entry["action"], entry["about"]) == ("task.enqueue", "pack")


def test_a_refusal_names_its_argument_and_nothing_is_written(console, form):
    wrong = console.post("tasks", kind="pack", arguments={"order": "seven", "parcel": {"code": ""}})
    low = console.post("tasks", kind="pack", arguments={"order": 0, "parcel": {"code": ""}})
    late = console.post("tasks", kind="send_mail", arguments={"to": "a"}, delay="soon")
    rolling = console.post("tasks", kind="stock", arguments={"code": "a"})

    assert (wrong.status_code, wrong.json()["argument"]) == (422, "order")
    assert low.json()["argument"] == "order"
    assert (late.status_code, late.json()["title"]) == (422, "BadDuration")
    assert rolling.status_code == 422
    assert console.get("tasks")["items"] == []
