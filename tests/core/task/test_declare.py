"""Declarations: what can be a task, with which options."""

import pytest

from windlass import (
    App,
    BadDeclaration,
    BadDuration,
    BadInput,
    BadMembers,
    BadRate,
    DuplicateKind,
    UnknownKind,
)


@pytest.fixture
def app():
    app = App("sqlite://")
    yield app
    app.close()


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"retries": -1}, BadDeclaration, "retries=-1"),
        ({"retries": "5"}, BadDeclaration, "retries='5'"),
        ({"retries": True}, BadDeclaration, "retries=True"),
        ({"retries": {int: 3}}, BadDeclaration, "<class 'int'> is not an exception type"),
        ({"backoff": "soon"}, BadDuration, "kind 'work': backoff: cannot read 'soon'"),
        ({"backoff": {"ValueError": "1s"}}, BadDeclaration, "'ValueError' is not an exception"),
        ({"timeout": "0s"}, BadDuration, "kind 'work': timeout"),
        ({"timeout": 30}, BadDuration, "kind 'work': timeout: 30 is an int"),
        ({"concurrency": 0}, BadDeclaration, "concurrency=0"),
        ({"rate": "fast"}, BadRate, "kind 'work': rate: cannot read 'fast'"),
        ({"rate": 5}, BadRate, "cannot read 5"),
        ({"rate": "0/s"}, BadRate, "is too slow"),
        ({"priority": "high"}, BadInput, "priority='high'"),
        ({"keep": "-1d"}, BadDuration, "kind 'work': keep"),
        ({"keep_failed": "0s"}, BadDuration, "kind 'work': keep_failed"),
        ({"max_lost": 0}, BadDeclaration, "max_lost=0"),
        ({"name": ""}, BadDeclaration, "cannot be named ''"),
        ({"name": " mail"}, BadDeclaration, "cannot be named ' mail'"),
        ({"name": "x" * 101}, BadDeclaration, "at most 100"),
        ({"name": "a\nb"}, BadDeclaration, "printable"),
    ],
)
def test_a_bad_option_of_a_declaration_is_refused(app, options, error, said):
    def work() -> None: ...

    with pytest.raises(error) as raised:
        app.task(**options)(work)

    assert said in str(raised.value)
    assert isinstance(raised.value, BadInput)
    assert app.registry.kinds == {}


def test_an_option_that_does_not_exist_is_refused_by_name(app):
    with pytest.raises((TypeError, BadDeclaration), match="retry"):

        @app.task(retry=3)
        def work() -> None: ...

    assert app.registry.kinds == {}


def test_a_kind_is_declared_once(app):
    @app.task
    def work() -> None: ...

    with pytest.raises(DuplicateKind, match="kind 'work' is declared twice") as raised:

        @app.task(name="work")
        def other() -> None: ...

    assert raised.value.kind == "work"
    assert app.registry.get("work").function is work.__wrapped__


def test_an_unknown_kind_names_those_that_are_known(app):
    @app.task
    def mail() -> None: ...

    with pytest.raises(
        UnknownKind, match="kind 'post' is not declared in this app; declared: mail"
    ):
        app.registry.get("post")


@pytest.mark.parametrize("thing", [5, None, "work"])
def test_only_functions_can_be_declared(app, thing):
    with pytest.raises(BadDeclaration, match="is not a function"):
        app.task(name="work")(thing)


def test_variable_positional_parameters_cannot_be_declared(app):
    with pytest.raises(BadDeclaration, match=r"\*names cannot be stored by name; take a list"):

        @app.task
        def work(*names: str) -> None: ...


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"lease": "soon"}, "lease: cannot read 'soon'"),
        ({"dead_after": "0s"}, "dead_after"),
        ({"lease": "1s", "dead_after": "5s"}, "dead_after='5s' is longer than lease='1s'"),
        ({"grace": "-1s"}, "grace"),
    ],
)
def test_a_bad_setting_of_an_app_is_refused(options, said):
    with pytest.raises(BadInput) as raised:
        App("sqlite://", **options)

    assert said in str(raised.value)


def test_members_that_cannot_be_reached_that_way_are_refused_at_once():
    with pytest.raises(BadMembers, match="consul"):
        App("sqlite://", members="consul://127.0.0.1:8500")
