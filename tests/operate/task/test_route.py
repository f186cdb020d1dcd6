"""Tasks: found by any filter, page by page, and retried and cancelled in bulk."""

import logging
from datetime import UTC, datetime, timedelta

from sqlalchemy import update

from windlass import Status
from windlass.core.task.store import page as task_page
from windlass.database import schema
from windlass.operate.task import operate


def pages(console, **query):
    """All pages of a list."""
    found, after = [], {}
    for _ in range(100):
        page = console.get("tasks", **query, **after)
        found.append([task["id"] for task in page["items"]])
        if page["next"] is None:
            return found
        after = {"after": page["next"]}
    raise AssertionError("the list does not end")


def test_all_tasks_come_newest_first_page_by_page(console, web_shop):
    refs = web_shop.send_mail.enqueue_many([{"to": str(number)} for number in range(5)])

    found = pages(console, limit=2)

    newest = [ref.id for ref in reversed(refs)]
    assert found == [newest[:2], newest[2:4], newest[4:]]


QUERIES = [
    {},
    *({"status": str(status)} for status in Status),
    {"kind": "send_mail"},
    *({"kind": "send_mail", "status": str(status)} for status in Status),
    {"kind": "odd/name ü", "status": "failed"},
    {"status": "failed", "created_after": "2000-01-01T00:00:00Z"},
    {"status": "failed", "created_before": "2000-01-01T00:00:00Z"},
    {"kind": "send_mail", "status": "failed", "created_before": "2100-01-01T00:00:00Z"},
]


def test_each_filter_finds_what_it_says_however_few_rows_are_looked_at(
    console, web_shop, monkeypatch
):
    web_shop.send_mail.enqueue_many([{"to": to} for to in ("a", "nobody", "b", "nobody", "nobody")])
    web_shop.app.drain()
    refs = web_shop.send_mail.enqueue_many([{"to": str(number)} for number in range(4)])
    web_shop.odd.enqueue()
    refs[0].cancel()
    web_shop.stock.add(["A-1", "A-2"])

    for looked_at in (3, 10_000):
        monkeypatch.setattr(task_page, "LOOKED_AT", looked_at)
        for query in QUERIES:
            found = [number for page in pages(console, limit=2, **query) for number in page]

            assert found == expected(web_shop, query), (looked_at, query)


def expected(web_shop, query) -> list[int]:
    rows = web_shop.app.database.read(
        lambda connection: connection.execute(schema.task.select()).mappings().all()
    )
    after, before = query.get("created_after"), query.get("created_before")
    return sorted(
        (
            row["id"]
            for row in rows
            if query.get("kind") in (None, row["kind"])
            and query.get("status") in (None, str(Status(row["status"])))
            and (after is None or row["created_at"] >= micros(after))
            and (before is None or row["created_at"] < micros(before))
        ),
        reverse=True,
    )


def micros(moment: str) -> int:
    return int(datetime.fromisoformat(moment).timestamp()) * 1_000_000


def test_a_key_is_found_in_all_kinds_or_in_one(console, web_shop):
    mail = web_shop.send_mail.using(key="order-7").enqueue("a@b.c")
    odd = web_shop.odd.using(key="order-7").enqueue()
    web_shop.send_mail.using(key="order-8").enqueue("a@b.c")

    assert pages(console, key="order-7") == [[odd.id, mail.id]]
    assert pages(console, key="order-7", kind="send_mail") == [[mail.id]]
    assert pages(console, key="order-7", status="failed") == [[]]
    assert pages(console, key="Order-7") == [[]]


def test_tasks_are_found_by_age(console, web_shop):
    old, new = web_shop.send_mail.enqueue("a"), web_shop.send_mail.enqueue("b")
    hour = 3_600 * 1_000_000
    web_shop.app.database.write(
        lambda connection: connection.execute(
            update(schema.task)
            .where(schema.task.c.id == old.id)
            .values(created_at=schema.task.c.created_at - hour)
        )
    )
    then = (datetime.now(UTC) - timedelta(minutes=30)).isoformat()

    assert pages(console, created_before=then) == [[old.id]]
    assert pages(console, created_after=then) == [[new.id]]
    assert pages(console, created_after=then, status="waiting", kind="send_mail") == [[new.id]]


def test_a_task_shows_its_arguments_and_errors_as_text(console, web_shop):
    ref = web_shop.send_mail.enqueue("nobody", copies=2**60)
    web_shop.app.drain()

    shown = console.get(f"tasks/{ref.id}")

    assert shown["task"]["payload"].replace(" ", "") == f'{{"to":"nobody","copies":{2**60}}}'
    assert (shown["task"]["status"], shown["task"]["can_retry"]) == ("failed", True)
    assert shown["task"]["can_cancel"] is False
    assert "ValueError: no such <b>address</b>" in shown["failures"][0]["trace"]
    assert console.client.get("/api/tasks/77").status_code == 404


def test_a_task_shows_its_lane(console, web_shop):
    ref = web_shop.send_mail.using(lane="tenant-7").enqueue("a")

    assert console.get(f"tasks/{ref.id}")["task"]["lane"] == "tenant-7"
    assert console.get("tasks")["items"][0]["lane"] == "tenant-7"


def test_a_list_has_no_payloads(console, web_shop):
    web_shop.send_mail.enqueue("a@b.c")

    (row,) = console.get("tasks")["items"]

    assert not {"payload", "result"} & set(row)


def test_a_failed_task_is_retried_and_a_waiting_one_cancelled(console, web_shop):
    failed = web_shop.send_mail.enqueue("nobody")
    web_shop.app.drain()
    waiting = web_shop.odd.enqueue()
    web_shop.is_broken = False

    console.do(f"tasks/{failed.id}/retry")
    console.do(f"tasks/{waiting.id}/cancel", reason="not needed")
    again = console.post(f"tasks/{failed.id}/retry")
    web_shop.app.drain()

    assert failed.result() == "sent to nobody"
    assert waiting.status() is Status.CANCELLED
    assert (again.status_code, again.json()["title"]) == (409, "Refused")
    assert console.post("tasks/77/retry").status_code == 404


def test_all_that_match_are_retried_call_by_call(console, web_shop, monkeypatch):
    monkeypatch.setattr(operate, "BULK_AT_ONCE", 3)
    monkeypatch.setattr(operate, "MOST_IN_BULK", 6)
    web_shop.send_mail.enqueue_many([{"to": "nobody"} for _ in range(10)])
    web_shop.app.drain()
    web_shop.is_broken = False

    first = console.do("tasks/retry", status="failed", kind="send_mail")
    rest = console.do("tasks/retry", status="failed", kind="send_mail", next=first["next"])
    web_shop.app.drain()

    assert (first["changed"], rest["changed"], rest["next"]) == (6, 4, None)
    assert pages(console, status="failed", kind="send_mail") == [[]]


def test_all_that_match_are_cancelled_but_items_and_nodes_are_left_alone(console, web_shop):
    refs = web_shop.send_mail.enqueue_many([{"to": str(number)} for number in range(3)])
    node = web_shop.odd.enqueue()
    web_shop.app.database.write(
        lambda connection: connection.execute(
            update(schema.task).where(schema.task.c.id == node.id).values(flow_id=1)
        )
    )
    web_shop.stock.add(["A-1"])

    done = console.do("tasks/cancel", status="waiting", reason="closing down")

    assert (done["changed"], done["skipped"]) == (3, 2)
    assert {ref.status() for ref in refs} == {Status.CANCELLED}
    assert console.get(f"tasks/{refs[0].id}")["task"]["remark"] == "closing down"
    assert node.status() is Status.WAITING
    assert web_shop.stock.item("A-1") is not None


def test_nobody_acts_on_everything_by_accident(console):
    assert console.post("tasks/cancel").status_code == 422
    assert console.post("tasks/cancel", status="succeeded").status_code == 422
    assert console.post("tasks/retry", status="waiting").status_code == 422


def test_items_that_a_trigger_made_have_negative_ids_and_are_found(console, web_shop):
    ref = web_shop.send_mail.enqueue("a@b.c")
    web_shop.app.database.write(
        lambda connection: connection.execute(
            update(schema.task).where(schema.task.c.id == ref.id).values(id=-7)
        )
    )
    other = web_shop.send_mail.enqueue("a@b.c")

    assert pages(console, limit=1) == [[other.id], [-7], []]
    assert console.get("tasks/-7")["task"]["id"] == -7
    assert console.do("tasks/-7/cancel")["changed"] == 1


def test_a_cursor_that_is_none_is_refused(console):
    for after in ("x", "1.2", "-", "0x1", "9" * 40):
        answer = console.client.get("/api/tasks", params={"after": after})
        assert answer.status_code == 422, after


def test_the_logs_of_a_run_are_in_the_api(console, web_shop):
    @web_shop.app.task(name="talk", logs=10)
    def talk() -> None:
        logging.getLogger("shop").warning("Ada <b>was</b> here")
        logging.getLogger("shop").warning("nobody else")

    ref = talk.enqueue()
    web_shop.app.drain()

    (run,) = console.get(f"tasks/{ref.id}/logs")["runs"]
    (found,) = console.get(f"tasks/{ref.id}/logs?search=ADA")["runs"]

    assert [line["text"] for line in run["lines"]] == ["Ada <b>was</b> here", "nobody else"]
    assert [line["text"] for line in found["lines"]] == ["Ada <b>was</b> here"]
    assert console.get("tasks/999/logs") == {"runs": [], "missing": []}
