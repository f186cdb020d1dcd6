"""Idempotency keys: the same request again gets the same answer, and nothing is done twice."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import func, select

from tests.operate.task.test_produce import MAIL, Program
from windlass import RunStatus
from windlass.core.face import Faces, Tidying
from windlass.core.idempotency import store
from windlass.database.schema import control_run, idempotency, task
from windlass.view.role import Role

REPLAYED = "idempotency-replayed"


@pytest.fixture
def program(web_shop):
    return Program(web_shop.app)


def count(app, table=task):
    return app.database.read(
        lambda connection: connection.scalar(select(func.count()).select_from(table))
    )


def test_a_request_that_is_sent_again_gets_the_same_answer_and_does_nothing_twice(
    program, web_shop
):
    first = program.post("tasks", MAIL, key="a")
    again = program.post("tasks", MAIL, key="a")
    other = program.post("tasks", MAIL, key="b")

    assert first.json() == again.json() != other.json()
    assert (REPLAYED in first.headers, again.headers[REPLAYED]) == (False, "true")
    assert count(web_shop.app) == 2


def test_the_answer_stays_the_same_after_the_task_has_ended_and_is_gone(program, web_shop):
    first = program.do("tasks", {"kind": "odd/name ü"}, key="a")
    web_shop.app.drain()

    assert program.do("tasks", {"kind": "odd/name ü"}, key="a") == first
    assert count(web_shop.app) == 0


def test_another_request_under_a_used_key_is_refused(program, web_shop):
    program.do("tasks", MAIL, key="a")

    refused = [
        program.post("tasks", MAIL | {"arguments": {"to": "ben"}}, key="a"),
        program.post("tasks/many", {"kind": "send_mail", "tasks": [MAIL_ITEM]}, key="a"),
        program.post("control/load/start", {}, key="a"),
    ]

    assert [answer.status_code for answer in refused] == [409, 409, 409]
    assert "the Idempotency-Key 'a' was used for another request" in refused[0].json()["detail"]
    assert count(web_shop.app) == 1
    assert web_shop.app.control.get("load") is None


MAIL_ITEM = {"arguments": {"to": "ada"}}


def test_each_token_has_keys_of_its_own(program, web_shop):
    other = Program(web_shop.app, "shipping")

    first, second = program.do("tasks", MAIL, key="a"), other.do("tasks", MAIL, key="a")

    assert first != second
    assert count(web_shop.app) == 2


@pytest.mark.everywhere
def test_of_equal_requests_at_the_same_moment_one_is_done_and_all_get_its_answer(program, web_shop):
    many = {"kind": "send_mail", "tasks": [MAIL_ITEM] * 3}
    gate = threading.Barrier(6)

    def send(_):
        gate.wait()
        return program.post("tasks/many", many, key="a")

    with ThreadPoolExecutor(6) as threads:
        answers = list(threads.map(send, range(6)))

    assert [answer.status_code for answer in answers] == [200] * 6, answers[0].text
    assert len({answer.text for answer in answers}) == 1
    assert count(web_shop.app) == 3
    assert sum(REPLAYED in answer.headers for answer in answers) == 5


def test_a_console_that_dies_before_the_answer_is_written_has_done_nothing(
    program, web_shop, monkeypatch
):
    def dies(*_):
        raise RuntimeError("the process is gone")

    with monkeypatch.context() as dying:
        dying.setattr(store, "keep", dies)
        lost = [
            program.post("tasks", MAIL, key="a").status_code,
            program.post("control/load/start", {}, key="b").status_code,
        ]
    left = count(web_shop.app), count(web_shop.app, idempotency), web_shop.app.control.get("load")
    again = program.do("control/load/start", {}, key="b")

    assert lost == [500, 500]
    assert left == (0, 0, None)
    assert again["code"] == 0
    assert program.do("tasks", MAIL, key="a")["created"] is True


def test_with_several_shards_a_request_is_done_once_wherever_its_work_is(sharded):
    @sharded.task
    def mail(to: str) -> None: ...

    program, kind = Program(sharded), {"kind": "mail", "arguments": {"to": "ada"}}
    keyed = [MAIL_ITEM | {"key": f"m-{number}"} for number in range(6)]
    bodies = [
        ("tasks", kind),
        *(("tasks", kind | {"key": f"k-{number}"}) for number in range(4)),
        ("tasks", kind | {"lane": "tenant-7"}),
        ("tasks/many", {"kind": "mail", "tasks": [MAIL_ITEM] * 3}),
        ("tasks/many", {"kind": "mail", "tasks": keyed}),
        ("control/load/start", {}),
    ]

    first = [program.do(path, body, key=f"r-{at}") for at, (path, body) in enumerate(bodies)]
    again = [program.do(path, body, key=f"r-{at}") for at, (path, body) in enumerate(bodies)]

    assert again == first
    rows = [shard.database.read(all_tasks) for shard in sharded.fleet.shards]
    assert sum(rows) == 1 + 4 + 1 + 3 + 6


def all_tasks(connection):
    return connection.scalar(select(func.count()).select_from(task))


def test_a_refused_request_is_judged_anew(program, web_shop):
    bad = MAIL | {"arguments": {"to": 7}}

    first, again = program.post("tasks", bad, key="a"), program.post("tasks", bad, key="a")
    good = program.post("tasks", MAIL, key="a")

    assert (first.status_code, again.status_code, good.status_code) == (422, 422, 200)
    assert count(web_shop.app) == count(web_shop.app, idempotency) == 1


def test_a_start_whose_answer_was_lost_is_repeated_without_finding_itself(program, web_shop):
    first = program.do("control/load/start", {"expires": "1h"}, key="start")
    again = program.do("control/load/start", {"expires": "1h"}, key="start")
    batch = first["data"]["batch"]
    ends = [program.do("control/load/finish", {"batch": batch}, key="end") for _ in range(2)]
    late = program.do("control/load/finish", {"batch": batch})

    assert first == again
    assert (first["code"], ends[0]["code"], late["code"]) == (0, 0, 451)
    assert ends[0] == ends[1]
    assert web_shop.app.control.get("load").status is RunStatus.SUCCEEDED
    assert count(web_shop.app, control_run) == 1


def test_a_key_can_be_written_down_on_every_database(program):
    assert program.post("tasks", MAIL, key="k" * 255).status_code == 200
    assert program.post("tasks", MAIL, key="k" * 256).status_code == 422
    assert program.post("tasks", MAIL, key="").status_code == 422


def test_keys_are_forgotten_after_a_day(program, web_shop):
    program.do("tasks", MAIL, key="a")
    database, now = web_shop.app.database, web_shop.app.clock.now()

    def prune(after):
        def work(connection):
            return store.prune(Tidying(connection, database.dialect, Faces({}), now + after, 100))

        return database.write(work)

    assert prune(23 * HOUR) == 0
    assert prune(25 * HOUR) == 1
    assert count(web_shop.app, idempotency) == 0


HOUR = 3_600_000_000


def test_without_the_table_a_key_is_refused_and_the_rest_works(program, web_shop, monkeypatch):
    monkeypatch.setattr(web_shop.app.database.schema, "has", lambda version: version < "0014")

    refused = program.post("tasks", MAIL, key="a")

    assert refused.status_code == 503
    assert "an Idempotency-Key needs tables of version 0014" in refused.json()["detail"]
    assert program.post("tasks", MAIL).status_code == 200


def test_people_may_repeat_their_requests_too(web_shop):
    person = Program(web_shop.app, "ada", Role.OPERATOR)

    assert person.do("tasks", MAIL, key="a") == person.do("tasks", MAIL, key="a")
    assert count(web_shop.app) == 1
