"""Bad input: each gets a clear error, and changes nothing."""

from datetime import UTC, datetime

import pytest

from tests.table import count
from windlass import (
    App,
    BadArgument,
    BadDuration,
    BadInput,
    NotSerializable,
    PayloadTooLarge,
    SchemaMismatch,
    WindlassError,
)


@pytest.fixture
def mail(app):
    @app.task
    def mail(to: str, copies: int = 1, tags: list[str] | None = None) -> None: ...

    return mail


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda mail: mail.enqueue(7), "argument 'to' is 7 (int), expected str"),
        (lambda mail: mail.enqueue("a", "2"), "argument 'copies' is '2' (str), expected int"),
        (lambda mail: mail.enqueue("a", copies=1.5), "argument 'copies' is 1.5 (float)"),
        (lambda mail: mail.enqueue("a", copies=None), "argument 'copies' is None"),
        (lambda mail: mail.enqueue("a", tags=["x", 1]), "expected str at tags[1]"),
        (lambda mail: mail.enqueue(), "missing a required argument: 'to'"),
        (lambda mail: mail.enqueue("a", 1, [], 4), "too many positional arguments"),
        (lambda mail: mail.enqueue("a", subject="x"), "unexpected keyword argument 'subject'"),
        (lambda mail: mail.enqueue("a", to="b"), "multiple values for argument 'to'"),
        (lambda mail: mail.enqueue_many([{"to": 7}]), "argument 'to' is 7 (int), expected str"),
        (lambda mail: mail.enqueue_many([{"copies": 7}]), "missing a required argument: 'to'"),
        (lambda mail: mail.enqueue_many([["a"]]), "is not a mapping of arguments"),
        (lambda mail: mail.enqueue_many({"to": "a"}), "takes a list of mappings"),
        (lambda mail: mail.enqueue_many("abc"), "takes a list of mappings"),
    ],
)
def test_an_argument_that_does_not_fit_is_named(app, mail, call, said):
    with pytest.raises(BadArgument) as raised:
        call(mail)

    assert said in str(raised.value)
    assert "kind 'mail'" in str(raised.value)
    assert raised.value.kind == "mail"
    assert count(app) == 0


async def test_the_async_twins_refuse_the_same(app, mail):
    with pytest.raises(BadArgument, match="argument 'to' is 7"):
        await mail.aenqueue(7)
    with pytest.raises(BadArgument, match="argument 'to' is 7"):
        await mail.aenqueue_many([{"to": "ok"}, {"to": 7}])

    assert count(app) == 0


@pytest.mark.parametrize(
    "value",
    [object(), {1, object()}, lambda: None, "\ud800", 1j],
    ids=lambda value: type(value).__name__,
)
def test_what_cannot_be_written_as_json_is_refused(app, value):
    @app.task
    def take(value) -> None: ...

    with pytest.raises(NotSerializable, match=r"argument 'value' is .* cannot be written as JSON"):
        take.enqueue(value)

    assert count(app) == 0


def test_a_list_that_contains_itself_is_refused(app):
    loop: list[object] = []
    loop.append(loop)

    @app.task
    def take(value) -> None: ...

    with pytest.raises(NotSerializable, match="argument 'value'"):
        take.enqueue(loop)

    assert count(app) == 0


def test_a_payload_at_the_limit_is_taken_and_one_byte_more_is_not(app):
    seen = []

    @app.task
    def take(text: str) -> None:
        seen.append(len(text))

    room = 256 * 1024 - len('{"text":""}')
    take.enqueue("x" * room)
    with pytest.raises(PayloadTooLarge, match="262,145 bytes as JSON, over the limit of 262,144"):
        take.enqueue("x" * (room + 1))

    assert count(app) == 1
    app.drain()
    assert seen == [room]


def test_the_limit_counts_bytes_and_can_be_set(database_url, clock):
    app = App(database_url, clock=clock, max_payload=100)

    @app.task
    def take(text: str) -> None: ...

    take.enqueue("é" * 40)
    with pytest.raises(PayloadTooLarge, match="over the limit of 100"):
        take.enqueue("é" * 50)

    assert count(app) == 1
    app.close()


@pytest.mark.mostly("postgresql")
def test_many_large_payloads_fit_in_one_transaction(app):
    seen = []

    @app.task
    def take(text: str) -> None:
        seen.append(len(text))

    take.enqueue_many([{"text": "🚢" * 60_000}] * 40)
    take.enqueue_many([{"text": '"\\' * 60_000}] * 40)
    assert count(app) == 80
    app.drain()

    assert sorted(set(seen)) == [60_000, 120_000]
    assert len(seen) == 80


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"delay": "soon"}, BadDuration, "kind 'mail': delay: cannot read 'soon'"),
        ({"delay": "-1s"}, BadDuration, "cannot read '-1s'"),
        ({"delay": 5}, BadDuration, "delay: 5 is an int"),
        (
            {"delay": "1s", "at": datetime(2027, 1, 1, tzinfo=UTC)},
            BadInput,
            "delay or at, not both",
        ),
        ({"at": "tomorrow"}, BadInput, "at='tomorrow' is not a datetime"),
        ({"at": datetime(2027, 1, 1)}, BadInput, "has no time zone"),  # noqa: DTZ001
        ({"on_conflict": "ignore"}, BadInput, "on_conflict='ignore' is not one of"),
        ({"priority": 10**6}, BadInput, "priority=1000000 is not a number"),
    ],
)
def test_a_bad_option_of_using_is_refused(app, mail, options, error, said):
    with pytest.raises(error) as raised:
        mail.using(**options).enqueue("a")

    assert said in str(raised.value)
    assert count(app) == 0


def test_a_server_without_tables_is_refused_with_the_cure(empty_database_url, clock):
    app = App(empty_database_url, clock=clock)

    @app.task
    def work() -> None: ...

    if empty_database_url.startswith("sqlite"):
        ref = work.enqueue()
        assert count(app) == 1
        assert ref.id > 0
    else:
        with pytest.raises(
            SchemaMismatch, match="has no Windlass tables yet; run: windlass migrate"
        ):
            work.enqueue()
    app.close()


def test_every_error_of_windlass_has_one_parent():
    import windlass

    errors = [
        value
        for name in windlass.__all__
        if isinstance(value := getattr(windlass, name), type) and issubclass(value, Exception)
    ]

    assert len(errors) > 20
    assert [error for error in errors if not issubclass(error, WindlassError)] == []
