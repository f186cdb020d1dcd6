"""Payloads: arguments that go in as JSON come out as the handler's annotations say."""

import datetime as dt
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Annotated, Any, Literal, NamedTuple, TypedDict
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass import BadArgument, BadDeclaration, NotSerializable, PayloadTooLarge
from windlass.value.payload import LARGEST_PAYLOAD, Arguments, encode_result, result_decoder


class Colour(Enum):
    RED = "red"


class Size(IntEnum):
    LARGE = 3


@dataclass
class Address:
    street: str
    number: int | None = None
    tags: list[str] = field(default_factory=list)


class Parcel(msgspec.Struct):
    weight: float
    to: Address


class Point(NamedTuple):
    x: int
    y: int


class Row(TypedDict):
    name: str


def round_trip(function, *args, **kwargs):
    """What the handler would be called with."""
    arguments = Arguments("work", function)
    return arguments.decode(arguments.encode(args, kwargs, largest=LARGEST_PAYLOAD))


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (str, "snow ☃"),
        (int, 2**63),
        (float, 1.5),
        (bool, True),
        (None, None),
        (bytes, b"\x00\xff"),
        (Any, {"a": [1, None]}),
        (object, "x"),
        (list[int], [1, 2]),
        (set[str], {"a"}),
        (frozenset[int], frozenset({1})),
        (tuple[int, str], (1, "a")),
        (tuple[int, ...], (1, 2, 3)),
        (dict[str, float], {"a": 1.5}),
        (dict[int, str], {7: "seven"}),
        (int | None, None),
        (int | None, 7),
        (int | str, "x"),
        (Literal["a", "b"], "b"),
        (Colour, Colour.RED),
        (Size, Size.LARGE),
        (dt.datetime, dt.datetime(2026, 1, 1, 3, tzinfo=dt.UTC)),
        (dt.date, dt.date(2026, 1, 1)),
        (dt.time, dt.time(3, 30)),
        (dt.timedelta, dt.timedelta(hours=1)),
        (UUID, UUID(int=7)),
        (Decimal, Decimal("1.10")),
        (Address, Address("Main", 7, ["a"])),
        (Parcel, Parcel(1.5, Address("Main"))),
        (list[Parcel], [Parcel(1.5, Address("Main"))]),
        (Point, Point(1, 2)),
        (Row, {"name": "ada"}),
        (Annotated[int, msgspec.Meta(ge=0)], 7),
    ],
    ids=repr,
)
def test_every_kind_of_annotation_comes_back_as_it_went_in(annotation, value):
    def work(value): ...

    work.__annotations__ = {"value": annotation}

    args, kwargs = round_trip(work, value)

    assert (args, kwargs) == ((), {"value": value})
    assert type(kwargs["value"]) is type(value)


def test_an_int_is_welcome_where_a_float_is_expected():
    def work(value: float): ...

    assert round_trip(work, 1) == ((), {"value": 1.0})


def test_arguments_are_stored_by_name_and_defaults_are_left_to_the_handler():
    def work(a: int, b: int = 2, *, c: int = 3): ...

    arguments = Arguments("work", work)

    assert arguments.encode((1,), {}, largest=1000) == '{"a":1}'
    assert arguments.encode((1, 5), {"c": 6}, largest=1000) == '{"a":1,"b":5,"c":6}'
    assert arguments.decode('{"a":1}') == ((), {"a": 1})


def test_positional_only_parameters_come_back_by_position():
    def work(a: int, b: str = "x", /, c: int = 0): ...

    assert round_trip(work, 1, "y", c=3) == ((1, "y"), {"c": 3})
    assert round_trip(work, 1) == ((1,), {})
    with pytest.raises(BadArgument, match="'a'"):
        round_trip(work, a=1)


def test_keyword_only_parameters_cannot_come_by_position():
    def work(*, a: int): ...

    assert round_trip(work, a=1) == ((), {"a": 1})
    with pytest.raises(BadArgument, match="too many positional arguments"):
        round_trip(work, 1)


def test_further_keywords_are_taken_if_the_handler_takes_them():
    def work(a: int, **more): ...

    assert round_trip(work, 1, b="x", c=[1]) == ((), {"a": 1, "b": "x", "c": [1]})


def test_known_parameters_beside_further_keywords_are_checked_all_the_same():
    def work(a: int, when: dt.date, names: dict[int, str], **more): ...

    day = dt.date(2026, 1, 1)
    assert round_trip(work, 1, day, {7: "x"}, z=1)[1] == {
        "a": 1,
        "when": day,
        "names": {7: "x"},
        "z": 1,
    }
    with pytest.raises(BadArgument, match=r"argument 'a' is 'x' \(str\), expected int"):
        round_trip(work, "x", day, {}, z=1)


def test_a_handler_without_parameters_has_an_empty_payload():
    def work(): ...

    assert Arguments("work", work).encode((), {}, largest=10) == "{}"


@pytest.mark.parametrize(
    ("annotation", "given", "expected"),
    [
        (int, "7", "'7' (str), expected int"),
        (int, True, "True (bool), expected int"),
        (int, 1.5, "1.5 (float), expected int"),
        (str, 7, "7 (int), expected str"),
        (str, None, "None (NoneType), expected str"),
        (float, float("nan"), "nan (float); JSON has no infinite numbers and no NaN"),
        (list[int], "abc", "'abc' (str), expected array"),
        (list[int], [1, "x"], "[1, 'x'] (list), expected int at value[1]"),
        (dict[str, int], {"a": "b"}, "expected int at value"),
        (Colour, "blue", "'blue' (str)"),
        (Literal["a"], "b", "'b' (str)"),
        (UUID, "no", "'no' (str)"),
        (dt.datetime, "soon", "'soon' (str)"),
        (Annotated[int, msgspec.Meta(ge=0)], -1, "-1 (int), expected int >= 0"),
        (Address, {"number": 7}, "street"),
        (Parcel, {"weight": 1, "to": {"street": 9}}, "expected str at value.to.street"),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_what_does_not_fit_names_the_argument_the_given_and_the_expected(
    annotation, given, expected
):
    def work(value): ...

    work.__annotations__ = {"value": annotation}

    with pytest.raises(BadArgument) as raised:
        round_trip(work, given)

    assert str(raised.value).startswith("kind 'work': argument 'value' is ")
    assert expected in str(raised.value)
    assert (raised.value.kind, raised.value.argument) == ("work", "value")
    assert raised.value.given is given


def test_a_long_value_is_shown_shortened():
    def work(value: int): ...

    with pytest.raises(BadArgument) as raised:
        round_trip(work, "x" * 10_000)

    assert len(str(raised.value)) < 200


def test_a_value_that_json_would_change_silently_is_refused():
    def work(value): ...

    for value in (float("nan"), float("inf")):
        with pytest.raises(BadArgument, match="argument 'value'"):
            round_trip(work, value)


@pytest.mark.parametrize("value", [object(), len, "\ud800", {1j}])
def test_what_json_cannot_carry_is_refused_by_name(value):
    def work(first, value): ...

    with pytest.raises(NotSerializable, match=r"argument 'value' is .*cannot be written as JSON"):
        round_trip(work, 1, value)


def test_the_size_is_counted_in_bytes_of_json():
    def work(value: str): ...

    arguments = Arguments("work", work)

    assert arguments.encode(("é" * 10,), {}, largest=32)
    with pytest.raises(PayloadTooLarge, match="32 bytes as JSON, over the limit of 31"):
        arguments.encode(("é" * 10,), {}, largest=31)


def test_annotations_that_cannot_be_read_are_refused_when_declared():
    def work(value: "Missing"): ...  # noqa: F821

    with pytest.raises(BadDeclaration, match="annotations cannot be read"):
        Arguments("work", work)


def test_a_type_that_json_cannot_tell_apart_is_refused_when_declared():
    def work(value: Address | Parcel): ...

    with pytest.raises(
        BadDeclaration, match="parameter 'value' has a type that JSON cannot represent"
    ):
        Arguments("work", work)


def test_variable_positional_parameters_are_refused_when_declared():
    def work(*values): ...

    with pytest.raises(BadDeclaration, match=r"\*values cannot be stored by name; take a list"):
        Arguments("work", work)


def test_a_payload_that_no_longer_fits_the_handler_says_so():
    def work(a: int, b: int): ...

    with pytest.raises(BadArgument, match="kind 'work'"):
        Arguments("work", work).decode('{"a":1}')
    with pytest.raises(BadArgument, match="argument 'b' is 'x'"):
        Arguments("work", work).decode('{"a":1,"b":"x"}')


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(json_values)
def test_any_json_value_passes_through_an_unannotated_parameter(value):
    def work(value): ...

    assert round_trip(work, value) == ((), {"value": value})


def test_no_result_is_none_and_others_are_json():
    assert encode_result(None) is None
    assert encode_result({"a": 1}) == '{"a":1}'
    with pytest.raises(ValueError, match="over the limit of 65,536"):
        encode_result("x" * 70_000)


def test_a_result_is_read_as_it_was_promised_or_else_as_it_is():
    def promised() -> Colour: ...
    def silent(): ...
    def unreadable() -> "Missing": ...  # noqa: F821

    assert result_decoder(promised)('"red"') is Colour.RED
    assert result_decoder(promised)('"blue"') == "blue"
    assert result_decoder(silent)('"red"') == "red"
    assert result_decoder(unreadable)('"red"') == "red"


def test_an_object_may_be_anything_that_can_be_stored():
    def publish(rows: object, more: dict[str, object]) -> None: ...

    arguments = Arguments("publish", publish)
    arguments.check_storable()

    payload = arguments.encode(([1, {"a": None}], {"b": [2]}), {}, largest=1_000)

    assert arguments.decode(payload) == ((), {"rows": [1, {"a": None}], "more": {"b": [2]}})
