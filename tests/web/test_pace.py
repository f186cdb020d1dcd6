"""The pace of programs: each token of the role producer may send so many requests, and not more."""

import pytest

from tests.operate.task.test_produce import MAIL, Program
from windlass import BadRate, web
from windlass.view.role import Role
from windlass.web import pace
from windlass.web.pace import RequestRate


def test_a_budget_is_spent_at_once_and_fills_up_at_the_rate():
    made = RequestRate("2/s")

    spent = [made.wait("a", now=10.0) for _ in range(3)]
    later = [made.wait("a", now=10.5), made.wait("a", now=10.5)]
    rested = [made.wait("a", now=100.0) for _ in range(3)]

    assert spent == [0, 0, 0.5]
    assert later == [0, 0.5]
    assert rested == [0, 0, 0.5]


def test_a_slow_rate_lets_one_pass_at_a_time():
    made = RequestRate("6/m")

    assert [made.wait("a", now=0.0), round(made.wait("a", now=4.0))] == [0, 6]
    assert made.wait("a", now=10.1) == 0


def test_callers_do_not_share_a_budget_and_those_of_long_ago_are_forgotten(monkeypatch):
    monkeypatch.setattr(pace, "MOST_CALLERS", 2)
    made = RequestRate("1/s")

    first = [made.wait(caller, now=0.0) for caller in ("a", "b", "a", "c")]

    assert first == [0, 0, 1.0, 0]
    assert made.wait("a", now=0.0) == 1.0
    assert made.wait("b", now=0.0) == 0


def test_a_program_that_is_too_fast_is_told_when_to_try_again(sqlite_web_shop):
    program = Program(sqlite_web_shop.app, rate="1/m")

    first, second = program.post("tasks", MAIL), program.post("tasks", MAIL)
    looked = program.client.get("/api/tasks/1/result")

    assert (first.status_code, second.status_code, looked.status_code) == (200, 429, 429)
    assert second.headers["content-type"] == "application/problem+json"
    assert second.json()["title"] == "TooFast"
    assert "this token may send 1/m; try again in " in second.json()["detail"]
    assert 0 < int(second.headers["retry-after"]) <= 60


def test_what_is_refused_anyway_costs_nothing_and_people_are_not_limited(sqlite_web_shop):
    program = Program(sqlite_web_shop.app, rate="1/m")
    person = Program(sqlite_web_shop.app, "ada", Role.OPERATOR, rate="1/m")

    refused = [program.client.get("/api/overview").status_code for _ in range(3)]

    assert refused == [403] * 3
    assert program.post("tasks", MAIL).status_code == 200
    assert [person.post("tasks", MAIL).status_code for _ in range(3)] == [200] * 3


def test_a_rate_that_is_none_is_refused_when_the_console_is_made(sqlite_web_shop):
    with pytest.raises(BadRate, match="cannot read 'fast'"):
        web.create(sqlite_web_shop.app, secret="correct horse battery staple", rate="fast")
