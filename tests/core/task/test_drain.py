"""`drain(kinds=[...])` runs only these kinds."""

import pytest

from tests.sweep.offer import declare
from windlass import BadInput, Status, UnknownKind


@pytest.fixture
def ran():
    return []


@pytest.fixture
def kinds(app, ran):
    """Two tasks, a cron and a sweep."""

    @app.task
    def send_mail(to: str) -> None:
        ran.append(to)
        add_up.enqueue(1)

    @app.task
    def add_up(number: int) -> None:
        ran.append(number)

    @app.cron("0 4 * * *")
    def nightly() -> None:
        ran.append("report")

    declare(app, ran, ranges=1)
    return send_mail, add_up


def test_only_the_named_kinds_run(app, ran, kinds, clock):
    send_mail, add_up = kinds
    app.drain(kinds=[add_up])
    clock.forward("1d")
    mail = send_mail.enqueue("ada@example.com")

    app.drain(kinds=[send_mail])
    assert (ran, mail.status()) == (["ada@example.com"], Status.SUCCEEDED)
    app.drain(kinds=["add_up", "nightly"])

    assert ran[0] == "ada@example.com"
    assert sorted(ran[1:], key=str) == [1, "report"]


@pytest.mark.mostly("sqlite")
def test_a_named_sweep_begins_its_round(app, ran, kinds):
    app.drain(kinds=["offer"])

    assert sorted(ran) == list(range(1, 101))


@pytest.mark.mostly("sqlite")
@pytest.mark.parametrize("given", [[], "send_mail", [7]])
def test_what_names_no_kind_is_refused(app, kinds, given):
    with pytest.raises(BadInput, match="kinds="):
        app.drain(kinds=given)


@pytest.mark.mostly("sqlite")
def test_an_unknown_kind_is_refused(app, kinds):
    with pytest.raises(UnknownKind, match="send_male"):
        app.drain(kinds=["send_male"])
