"""The API's answers and `--json` are made from the view types."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import msgspec
from pydantic import TypeAdapter

from windlass.cli.output import plain
from windlass.clock import from_datetime
from windlass.source.contract import Key
from windlass.value.status import Status
from windlass.view.field import Json, JsonText, Moment, exposed
from windlass.view.listing import Listing
from windlass.web.view import answer

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


class Part(msgspec.Struct, frozen=True):
    """A part of an order."""

    end: Key | None
    took: timedelta


@dataclass(frozen=True)
class Order:
    """An order."""

    placed_at: Moment
    paid_at: Moment | None
    status: Status
    parts: tuple[Part, ...]
    data: Json | None
    payload: JsonText
    _secret: int = 7

    @property
    @exposed
    def is_paid(self) -> bool:
        return self.paid_at is not None

    @property
    def is_hidden(self) -> bool:
        return True


ORDER = Order(
    placed_at=from_datetime(NOON),
    paid_at=None,
    status=Status.RUNNING,
    parts=(Part(("a", 1), timedelta(seconds=1.5)), Part(None, timedelta(0))),
    data={"n": 1},
    payload='{"a": 2}',
)


def as_json(shape, value):
    adapter = TypeAdapter(answer(shape))
    return adapter.dump_python(adapter.validate_python(value, from_attributes=True), mode="json")


def test_an_answer_has_the_fields_of_its_view():
    assert as_json(Order, ORDER) == {
        "placed_at": "2026-01-01T12:00:00Z",
        "paid_at": None,
        "status": "running",
        "parts": [{"end": "a, 1", "took": 1.5}, {"end": None, "took": 0.0}],
        "data": '{"n":1}',
        "payload": '{"a": 2}',
        "is_paid": False,
    }


def test_json_has_the_fields_of_the_view():
    assert plain(ORDER) == {
        "placed_at": "2026-01-01T12:00:00+00:00",
        "paid_at": None,
        "status": "running",
        "parts": [{"end": ["a", 1], "took": 1.5}, {"end": None, "took": 0.0}],
        "data": {"n": 1},
        "payload": {"a": 2},
        "is_paid": False,
    }


def test_a_listing_is_a_page():
    found = Listing([Part("x", timedelta(0))], ("east",), cursor="x")

    page = as_json(Listing[Part], found)

    assert page == {"items": [{"end": "x", "took": 0.0}], "next": "x", "missing": ["east"]}


def test_fields_can_be_left_out():
    small = answer(Order, name="SmallOrder", without=("parts", "data", "payload"))

    assert set(small.model_fields) == {"placed_at", "paid_at", "status", "is_paid"}
    assert small.__name__ == "SmallOrder"
    assert plain([ORDER], without=("parts", "data", "payload", "placed_at")) == [
        {"paid_at": None, "status": "running", "is_paid": False}
    ]


def test_one_view_has_one_answer():
    assert answer(Part) is answer(Part)
    assert answer(list[Part]) == list[answer(Part)]
