"""`windlass task list|show|retry|cancel|enqueue`."""

from datetime import datetime, timedelta

import pytest

from tests.table import count, task, tasks
from windlass import Status

pytestmark = pytest.mark.mostly("sqlite", "postgresql")


def test_list_shows_tasks_newest_first(windlass, shop):
    first = shop.send_mail.enqueue("a@b.c")
    second = shop.send_mail.using(key="order-7").enqueue("d@e.f")

    answer = windlass("task", "list")

    assert answer.code == 0
    lines = [line for line in answer.out.splitlines() if "send_mail" in line]
    assert [line.split()[0] for line in lines] == [str(second.id), str(first.id)]
    assert "order-7" in lines[0]
    assert "waiting" in lines[0]


def test_list_of_nothing_says_so(windlass, shop):
    answer = windlass("task", "list")

    assert answer.code == 0
    assert "No task matches" in answer.out


def test_list_as_json_is_one_array_with_the_python_names(windlass, shop):
    ref = shop.send_mail.using(key="order-7", priority=3).enqueue("a@b.c", copies=2)

    (found,) = windlass("task", "list", "--json").json

    assert (found["id"], found["kind"], found["key"]) == (ref.id, "send_mail", "order-7")
    assert (found["status"], found["priority"], found["attempt"]) == ("waiting", 3, 0)
    assert found["payload"] == {"to": "a@b.c", "copies": 2}
    assert found["result"] is None
    assert datetime.fromisoformat(found["due_at"]).tzinfo is not None


def test_the_lane_of_a_task_is_shown_and_lists_are_narrowed_by_it(windlass, shop):
    ref = shop.send_mail.using(lane="tenant-7").enqueue("a@b.c")
    shop.send_mail.using(lane="tenant-8").enqueue("a@b.c")
    shop.send_mail.enqueue("a@b.c")

    (found,) = windlass("task", "list", "--lane", "tenant-7", "--json").json
    shown = windlass("task", "show", str(ref.id))
    told = windlass("task", "show", str(ref.id), "--json").json

    assert (found["id"], found["lane"]) == (ref.id, "tenant-7")
    assert "tenant-7" in shown.out
    assert told["lane"] == "tenant-7"


def test_list_of_nothing_as_json_is_an_empty_array(windlass, shop):
    answer = windlass("task", "list", "--json")

    assert (answer.code, answer.json) == (0, [])


def test_list_can_be_narrowed_and_paged(windlass, shop):
    refs = shop.send_mail.enqueue_many([{"to": f"{number}@b.c"} for number in range(5)])
    shop.quick.using(key="k").enqueue()
    refs[0].cancel()

    def ids(*options):
        return [found["id"] for found in windlass("task", "list", "--json", *options).json]

    assert ids("--status", "cancelled") == [refs[0].id]
    assert len(ids("--kind", "quick")) == 1
    assert len(ids("--key", "k")) == 1
    newest = ids("--kind", "send_mail", "--limit", "2")
    assert newest == [refs[4].id, refs[3].id]
    assert ids("--kind", "send_mail", "--limit", "2", "--before", str(newest[-1])) == [
        refs[2].id,
        refs[1].id,
    ]


def test_list_says_how_to_get_the_next_page(windlass, shop):
    refs = shop.quick.enqueue_many([{}] * 3)

    answer = windlass("task", "list", "--limit", "2")

    assert f"more: --before {refs[1].id}" in answer.out


@pytest.mark.parametrize("limit", ["0", "1001", "many"])
def test_a_bad_limit_is_a_usage_error(windlass, shop, limit):
    answer = windlass("task", "list", "--limit", limit)

    assert answer.code == 2
    assert "--limit" in answer.err


def test_an_unknown_status_is_a_usage_error_that_names_them_all(windlass, shop):
    answer = windlass("task", "list", "--status", "lost")

    assert answer.code == 2
    assert "--status lost is not one of waiting, running, succeeded, failed" in answer.err


def test_show_gives_the_arguments_and_the_last_errors(windlass, shop):
    ref = shop.send_mail.enqueue("nobody")
    shop.app.drain()

    answer = windlass("task", "show", ref.id)

    assert answer.code == 0
    for text in ("failed", "nobody", "ValueError: no such address", "attempt 1", "Traceback"):
        assert text in answer.out


def test_show_as_json_has_the_failures(windlass, shop):
    ref = shop.send_mail.enqueue("nobody")
    shop.app.drain()

    found = windlass("task", "show", ref.id, "--json").json

    assert (found["id"], found["status"], found["attempt"]) == (ref.id, "failed", 1)
    (failure,) = found["failures"]
    assert failure["error"] == "ValueError: no such address"
    assert "Traceback" in failure["trace"]
    assert datetime.fromisoformat(failure["failed_at"]).tzinfo is not None


def test_show_has_the_result_of_a_success(windlass, shop):
    ref = shop.send_mail.enqueue("a@b.c")
    shop.app.drain()

    assert windlass("task", "show", ref.id, "--json").json["result"] == "sent to a@b.c"
    assert "sent to a@b.c" in windlass("task", "show", ref.id).out


@pytest.mark.parametrize("command", ["show", "retry", "cancel"])
def test_a_task_that_does_not_exist_is_refused(windlass, shop, command):
    answer = windlass("task", command, "999999")

    assert answer.code == 1
    assert "error: task 999999 not found" in answer.err
    assert answer.out == ""
    assert "Traceback" not in answer.err


@pytest.mark.parametrize("command", ["show", "retry", "cancel"])
def test_an_id_that_is_not_a_number_is_a_usage_error(windlass, shop, command):
    answer = windlass("task", command, "seven")

    assert answer.code == 2
    assert "Invalid value for 'ID'" in answer.err


def test_retry_lets_a_failed_task_run_again(windlass, shop):
    ref = shop.send_mail.enqueue("nobody")
    shop.app.drain()

    answer = windlass("task", "retry", ref.id)

    assert answer.code == 0
    assert f"task {ref.id} will run again" in answer.out
    assert ref.status() is Status.WAITING


def test_retry_and_cancel_answer_as_json(windlass, shop):
    ref = shop.send_mail.enqueue("nobody")

    cancelled = windlass("task", "cancel", ref.id, "--json", "--reason", "typo").json
    assert cancelled == {"id": ref.id, "status": "cancelled"}
    assert task(shop.app, ref)["remark"] == "typo"

    assert windlass("task", "retry", ref.id, "--json").json == {"id": ref.id, "status": "waiting"}
    assert ref.status() is Status.WAITING


def test_what_cannot_be_retried_or_cancelled_is_refused_with_the_reason(windlass, shop):
    waiting = shop.send_mail.enqueue("a@b.c")
    retried = windlass("task", "retry", waiting.id)
    shop.app.drain()
    cancelled = windlass("task", "cancel", waiting.id)

    assert (retried.code, cancelled.code) == (1, 1)
    assert f"task {waiting.id} is waiting; only a failed or cancelled task" in retried.err
    assert f"task {waiting.id} is succeeded; only a task that has not ended" in cancelled.err


def test_enqueue_makes_a_task(windlass, shop):
    answer = windlass(
        "task", "enqueue", "send_mail", '{"to": "a@b.c"}', "--key", "k", "--priority", "7", "--json"
    )

    (row,) = tasks(shop.app)
    assert (answer.code, answer.json) == (0, {"id": row["id"], "created": True})
    assert (row["kind"], row["task_key"], row["priority"]) == ("send_mail", "k", 7)
    shop.app.drain()
    assert shop.app.ref(row["id"]).result() == "sent to a@b.c"


def test_enqueue_says_the_id_and_may_wait(windlass, shop):
    answer = windlass("task", "enqueue", "quick", "--delay", "1h")

    (row,) = tasks(shop.app)
    assert f"enqueued task {row['id']}" in answer.out
    assert row["due_at"] - row["created_at"] == timedelta(hours=1) / timedelta(microseconds=1)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["post"], 1, "kind 'post' is not declared in this app; declared: "),
        (["send_mail", "{"], 2, "is not JSON"),
        (["send_mail", "[1]"], 2, "must be an object"),
        (["send_mail", "{}"], 1, "missing a required argument: 'to'"),
        (["send_mail", '{"to": 7}'], 1, "argument 'to' is 7 (int), expected str"),
        (["quick", "--delay", "soon"], 2, "--delay: cannot read 'soon'"),
        (["quick", "--key", ""], 1, "the key is empty"),
        (["quick", "--priority", "99999"], 1, "priority=99999 is not a number"),
        (["quick", "--priority", "high"], 2, "--priority"),
    ],
)
def test_a_bad_enqueue_is_refused_without_a_traceback(windlass, shop, arguments, code, said):
    answer = windlass("task", "enqueue", *arguments)

    assert answer.code == code
    assert said in answer.err
    assert "Traceback" not in answer.err
    assert answer.out == ""
    assert count(shop.app) == 0
