"""Control runs over HTTP: the same calls, codes and refusals as in Python."""

import pytest

from tests.operate.task.test_produce import Program
from windlass import RunStatus


@pytest.fixture
def program(web_shop):
    return Program(web_shop.app)


@pytest.fixture
def sqlite_program(sqlite_web_shop):
    return Program(sqlite_web_shop.app)


def test_a_program_walks_through_a_run_and_a_later_try_skips_what_is_done(program, web_shop):
    started = program.do("control/load/start", {"expires": "1h", "data": {"file": "a.csv"}})
    batch = started["data"]["batch"]
    codes = [
        program.do("control/load/step", {"step": 1, "batch": batch, "data": {"row": 7}})["code"],
        program.do("control/load/step", {"step": "parse", "batch": batch})["code"],
        program.do("control/load/note", {"data": {"rows": 9}, "batch": batch})["code"],
        program.do("control/load/error", {"error": "disk full", "batch": batch})["code"],
    ]
    failed = web_shop.app.control.get("load")
    again = program.do("control/load/start", {})
    batch = again["data"]["batch"]
    done = program.do("control/load/step", {"step": 1, "batch": batch})
    ended = program.do("control/load/finish", {"batch": batch, "data": {"rows": 10}})

    assert (started["code"], started["msg"], started["data"]["status"]) == (0, "started", 9)
    assert codes == [0, 0, 0, 0]
    assert (failed.status, failed.error, failed.step) == (RunStatus.FAILED, "disk full", "parse")
    assert failed.who == "token billing"
    assert again["data"]["done"] == [1]
    assert (done["code"], done["data"]) == (2, {"step": 1, "data": {"row": 7}})
    assert ended["code"] == 0
    row = web_shop.app.control.get("load")
    assert (row.status, row.tries) == (RunStatus.SUCCEEDED, 2)
    assert row.data == {"file": "a.csv", "rows": 10}


def test_the_codes_are_those_of_the_calls_in_python(sqlite_program, sqlite_web_shop):
    program, control = sqlite_program, sqlite_web_shop.app.control
    never = program.do("control/load/finish", {})
    batch = program.do("control/load/start", {"once": True, "partition": "a"})["data"]["batch"]
    running = program.do("control/load/start", {"partition": "a"})
    wrong = program.do("control/load/step", {"partition": "a", "step": 1, "batch": batch + 1})
    program.do("control/load/step", {"partition": "a", "step": 3, "batch": batch})
    backwards = program.do("control/load/step", {"partition": "a", "step": 2, "batch": batch})
    program.do("control/load/finish", {"partition": "a", "batch": batch})
    ended = program.do("control/load/start", {"once": True, "partition": "a"})

    assert never == {"code": 451, "msg": control.finish("load").msg, "data": {}}
    assert (running["code"], running["data"]["status"]) == (8, 8)
    assert running["data"]["who"] == "token billing"
    assert (wrong["code"], backwards["code"]) == (451, 451)
    assert "step 2 goes backwards" in backwards["msg"]
    assert (ended["code"], ended["data"]["status"]) == (2, 0)


def test_a_call_without_a_batch_is_about_the_current_try_whoever_began_it(
    sqlite_program, sqlite_web_shop
):
    batch = sqlite_program.do("control/load/start", {"expires": "1us"})["data"]["batch"]
    sqlite_web_shop.app.control.start("load")

    late = sqlite_program.do("control/load/step", {"step": 1, "batch": batch})
    current = sqlite_program.do("control/load/step", {"step": 1})

    assert (late["code"], current["code"]) == (451, 0)


REFUSED = [
    ("start", {"expires": "soon"}, "soon"),
    ("start", {"expires": "2020-01-01T00:00:00Z"}, "has passed"),
    ("start", {"expires": "2030-01-01T00:00:00"}, "has no time zone"),
    ("start", {"data": "x" * 300_000}, "over the limit of 262,144"),
    ("start", {"partition": "x" * 256}, "body.partition"),
    ("start", {"colour": 1}, "body.colour"),
    ("step", {}, "body.step"),
    ("step", {"step": 0}, "body.step"),
    ("step", {"step": True}, "body.step"),
    ("step", {"step": "x" * 256}, "body.step"),
    ("step", {"step": 1, "data": "x" * 70_000}, "the data of step 1 is 70,002 bytes"),
    ("step", {"step": 1, "batch": 0}, "body.batch"),
    ("note", {}, "body.data"),
    ("error", {"error": "x" * 100_001}, "body.error"),
]


@pytest.mark.parametrize(("verb", "body", "text"), REFUSED)
def test_what_cannot_be_understood_is_422_and_changes_nothing(
    sqlite_program, sqlite_web_shop, verb, body, text
):
    answer = sqlite_program.post(f"control/load/{verb}", body)

    assert answer.status_code == 422, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert text in answer.json()["detail"]
    assert sqlite_web_shop.app.control.get("load") is None


def test_a_name_that_is_too_long_is_refused_with_the_words_of_the_call(sqlite_program):
    answer = sqlite_program.post(f"control/{'n' * 300}/start", {})

    assert answer.status_code == 422
    assert "has 300 characters; at most 255 fit" in answer.json()["detail"]
