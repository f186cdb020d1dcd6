"""Arguments and results of every type that programs use for data."""

import datetime as dt
import os
import subprocess
import sys
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from uuid import UUID

import attrs
import msgspec
import pydantic
import pytest

from tests.tidy.source import ROOT
from windlass import App, BadArgument, BadDeclaration
from windlass.value.payload import LARGEST_PAYLOAD, Arguments, encode_result, result_decoder


class Size(Enum):
    LARGE = "large"


@dataclass
class Address:
    street: str
    since: dt.date


@attrs.define
class Person:
    name: str
    home: Address


class Parcel(msgspec.Struct):
    weight: Decimal
    size: Size


class Line(pydantic.BaseModel):
    sku: str
    quantity: int = pydantic.Field(gt=0)


class Order(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True)

    id: UUID
    ordered_at: dt.datetime
    price: Decimal
    lines: list[Line]
    to: Address
    note: str = pydantic.Field(default="", alias="orderNote")


class Codes(pydantic.RootModel[list[str]]): ...


ORDER = Order(
    id=UUID(int=7),
    ordered_at=dt.datetime(2026, 1, 1, 3, tzinfo=dt.UTC),
    price=Decimal("1.10"),
    lines=[Line(sku="bolt", quantity=2)],
    to=Address("Main", dt.date(2026, 1, 1)),
    orderNote="ring twice",
)
VALUES = [
    ORDER,
    Codes(["a", "b"]),
    Person("ada", Address("Main", dt.date(2026, 1, 1))),
    Parcel(Decimal("1.50"), Size.LARGE),
    Address("Main", dt.date(2026, 1, 1)),
    dt.datetime(2026, 1, 1, 3, tzinfo=dt.UTC),
    dt.timedelta(hours=1),
    UUID(int=7),
    Decimal("1.10"),
    Size.LARGE,
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("more", [False, True], ids=["plain", "kwargs"])
def test_an_argument_comes_back_as_it_went_in(value, more):
    def work(value): ...

    def work_more(value, **more): ...

    handler = work_more if more else work
    handler.__annotations__ = {"value": type(value)}
    arguments = Arguments("work", handler)

    _, kwargs = arguments.decode(arguments.encode((value,), {}, largest=LARGEST_PAYLOAD))

    assert kwargs == {"value": value}
    assert type(kwargs["value"]) is type(value)


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_result_comes_back_as_it_is_annotated(value):
    def work(): ...

    work.__annotations__ = {"return": list[type(value)]}

    assert result_decoder(work)(encode_result([value])) == [value]


def test_models_inside_other_types_come_back():
    @dataclass
    class Box:
        orders: dict[str, Order]

    def work(boxes: list[Box] | None): ...

    work.__annotations__ = {"boxes": list[Box] | None}
    arguments = Arguments("work", work)

    payload = arguments.encode(([Box({"x": ORDER})],), {}, largest=LARGEST_PAYLOAD)

    assert arguments.decode(payload)[1] == {"boxes": [Box({"x": ORDER})]}


def test_a_model_may_be_given_as_a_dict_and_is_checked():
    def work(line: Line): ...

    work.__annotations__ = {"line": Line}
    arguments = Arguments("work", work)

    payload = arguments.encode(({"sku": "bolt", "quantity": 2},), {}, largest=LARGEST_PAYLOAD)
    assert arguments.decode(payload)[1] == {"line": Line(sku="bolt", quantity=2)}

    with pytest.raises(
        BadArgument, match=r"argument 'line' .* expected Line \(quantity: .*greater"
    ):
        arguments.encode(({"sku": "bolt", "quantity": 0},), {}, largest=LARGEST_PAYLOAD)


def test_a_task_gets_a_model_and_returns_one(app):
    @app.task
    def price(order: Order) -> Order:
        return order.model_copy(update={"price": Decimal("2.20")})

    ref = price.enqueue(ORDER)
    app.drain()

    assert ref.result() == ORDER.model_copy(update={"price": Decimal("2.20")})


class Client:
    """What cannot be stored."""


CLIENT = Client()


def generate(order: str):
    yield order


async def agenerate(order: str):
    yield order


def takes_client(order: str, client: Client) -> None: ...


def takes_clients(order: str, clients: list[Client] | None = None) -> None: ...


def has_client(order: str, client=CLIENT) -> None: ...


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (generate, "has a yield"),
        (agenerate, "has a yield"),
        (lambda order: None, "a lambda has no name"),
        (takes_client, "parameter 'client' is a Client, which cannot be stored as JSON"),
        (takes_clients, "parameter 'clients' is a Client"),
        (has_client, "the default of 'client' is <.*Client.*> .*, which cannot be written as JSON"),
    ],
)
def test_what_could_never_run_is_refused_when_it_is_declared(sqlite_url, function, said):
    with pytest.raises(BadDeclaration, match=said):
        App(sqlite_url).task(function)


def test_a_flow_that_yields_is_refused(sqlite_url):
    app = App(sqlite_url)

    def draw(flow, order: str):
        yield order

    with pytest.raises(BadDeclaration, match="has a yield"):
        app.flow(draw)


def test_windlass_needs_no_pydantic():
    script = """
import sys
sys.modules["pydantic"] = None
from windlass.value.payload import Arguments
def work(order: str): ...
print(Arguments("work", work).encode(("order-7",), {}, largest=100))
"""
    found = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=60,
    )

    assert found.stdout == '{"order":"order-7"}\n'
