"""Each face shows what is there, on all three databases, and acts on it."""

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import event, text

from tests.core.fetch.manual_worker import Hand
from windlass import Keys, Status
from windlass.core.ring import store as ring_store
from windlass.rolling.operate import freshness
from windlass.rolling.store import freshness as rolling


def test_the_overview_asks_no_more_often_for_more_kinds(browse, sqlite_web_shop):
    app, asked = sqlite_web_shop.app, []
    console = browse()
    console.get("overview")
    event.listen(app.database.engine, "before_cursor_execute", lambda *call: asked.append(call[2]))
    console.get("overview")
    few = len(asked)

    for number in range(20):
        app.task(name=f"kind-{number}")(lambda: None)
    console.get("overview")

    assert len(asked) == 2 * few


def test_the_overview_shows_kinds_workers_failures_and_the_pace(console, web_shop):
    web_shop.send_mail.enqueue("a@b.c")
    web_shop.send_mail.enqueue("nobody")
    web_shop.app.drain()

    shown = console.get("overview")

    kinds = {kind["kind"]: kind for kind in shown["kinds"]}
    assert set(kinds) == {"send_mail", "odd/name ü", "stock", "offer"}
    assert kinds["send_mail"]["failed"] == 1
    assert kinds["send_mail"]["family"] == "task"
    assert kinds["send_mail"]["declared"]["summary"] == "Send a mail."
    assert kinds["send_mail"]["declared"]["arguments"][1] == {
        "name": "copies",
        "type": "int",
        "required": False,
    }
    assert [failure["error"] for failure in shown["failures"]] == [
        "ValueError: no such <b>address</b>"
    ]
    assert len(shown["minutes"]) == 60
    done = sum(minute["done"] for minute in shown["minutes"])
    # Items of the sweep count as well.
    assert done >= 1
    assert sum(minute["failed"] for minute in shown["minutes"]) >= 1


def test_a_kind_is_shown_by_any_name(console):
    shown = console.get("kinds/odd%2Fname%20%C3%BC")

    assert shown["kind"]["kind"] == "odd/name ü"
    assert shown["kind"]["why"] == "no worker"
    assert console.client.get("/api/kinds/none").status_code == 404


def test_a_kind_that_is_not_declared_is_shown_while_it_has_rows(console, web_shop):
    web_shop.send_mail.enqueue("a@b.c")
    del web_shop.app.registry.kinds["send_mail"]

    shown = console.get("kinds/send_mail")["kind"]

    assert (shown["family"], shown["waiting"]) == ("unknown", 1)


def test_a_rolling_kind_shows_its_freshness_and_the_ages_of_its_items(console, web_shop):
    web_shop.stock.add([f"SKU-{number}" for number in range(10)])
    web_shop.app.drain()
    web_shop.stock.add(["late"])

    freshness = console.get("rolling")[0]
    ages = console.get("rolling/stock")["histogram"]

    assert (freshness["total"], freshness["never_visited"]) == (11, 1)
    assert freshness["every_seconds"] == 864_000
    assert "the 10-day promise" in freshness["forecast"]
    assert ages["bars"][0]["count"] == 10
    assert ages["never_visited"] == 1
    assert not ages["is_estimate"]
    assert [bar["is_late"] for bar in ages["bars"]] == [False] * 20 + [True] * 5
    assert ages["bars"][19]["to_seconds"] == ages["promise_seconds"]


def test_the_ages_of_many_items_are_estimated_from_their_due_times(console, web_shop, monkeypatch):
    web_shop.stock.add([f"SKU-{number}" for number in range(400)])
    every, now = 10 * 86_400 * 1_000_000, web_shop.app.clock.now()
    # They were visited evenly over the last half of a period, and 40 at one time long before.
    web_shop.app.database.write(
        lambda connection: connection.execute(
            text(
                "update windlass_task set finished_at = 1, due_at = case when id % 10 = 0 "
                "then :late - id % 7 else :now - :second + :half + (id % 100) * :step end"
            ),
            {
                "now": now,
                "late": now - every,
                "half": every // 2,
                "step": every // 200,
                "second": 1_000_000,
            },
        )
    )
    counted = console.get("rolling/stock")["histogram"]
    monkeypatch.setattr(freshness, "MANY", 100)
    monkeypatch.setattr(rolling, "PROBED", 8)

    estimated = console.get("rolling/stock")["histogram"]

    assert (counted["is_estimate"], estimated["is_estimate"]) == (False, True)
    counts = [bar["count"] for bar in estimated["bars"]]
    assert abs(sum(counts) - 400) <= len(counts)
    assert 5 <= counts[-1] <= 60
    assert sum(counts[:11]) >= 300
    assert sum(counts[11:-1]) <= 20


def test_items_are_found_page_by_page_and_by_prefix(console, web_shop):
    web_shop.stock.add(["A-1", "A-2", "A-3", "B-1", "a-1"])

    first = console.get("rolling/stock/items", prefix="A-", limit=2)
    rest = console.get("rolling/stock/items", prefix="A-", limit=2, after=first["next"])

    assert [item["key"] for item in first["items"]] == ["A-1", "A-2"]
    assert [item["key"] for item in rest["items"]] == ["A-3"]
    assert rest["next"] is None
    assert console.get("rolling/stock/item", code="B-1")["status"] == "waiting"
    assert console.client.get("/api/rolling/stock/item?code=none").status_code == 404


def test_an_item_is_visited_added_and_removed(console, web_shop):
    added = console.do("rolling/stock/add", codes=["A-1", "A-2"])
    visited = console.do("rolling/stock/visit", code="A-1")
    removed = console.do("rolling/stock/remove", codes=["A-2", "none"])

    assert (added["changed"], removed["changed"]) == (2, 1)
    assert (visited["status"], visited["remark"]) == ("succeeded", "7 of A-1")
    assert console.post("rolling/stock/visit", code="A-2").status_code == 404


def test_a_visit_of_a_paused_kind_is_refused(console, web_shop):
    web_shop.stock.add(["A-1"])
    console.do("switches/stock/pause", reason="sale")

    answer = console.post("rolling/stock/visit", code="A-1")

    assert (answer.status_code, answer.json()["title"]) == (409, "HeldBack")


def test_items_and_keys_are_visited_soon(console, web_shop):
    web_shop.stock.add(["A-1"])
    console.do("rolling/stock/visit", code="A-1")

    fresh = console.do("rolling/stock/visit-soon", code="A-1", fresh=600)
    asked = console.do("rolling/stock/visit-soon", code="A-1")
    visited = console.do("sweeps/offer/visit", key=3)
    soon = [console.do("sweeps/offer/visit-soon", key=4) for _ in range(2)]

    assert (fresh["changed"], fresh["message"]) == (0, "visit of A-1: fresh")
    assert asked["changed"] == 1
    assert (visited["key"], visited["status"]) == ("3", "succeeded")
    assert [each["message"] for each in soon] == ["visit of 4: asked", "visit of 4: pending"]
    assert console.post("sweeps/offer/visit", key=700_000).status_code == 404


def test_a_sweep_shows_its_ranges_rounds_and_failures(console, web_shop):
    web_shop.app.drain()

    (listed,) = console.get("sweeps")
    shown = console.get("sweeps/offer")
    (failure,) = console.get("sweeps/offer/failures")

    assert (listed["done"], listed["failed"], listed["percent"]) == (99, 1, 100.0)
    assert [part["status"] for part in shown["ranges"]] == ["succeeded"] * 2
    assert shown["ranges"][0]["begin"] is None
    assert shown["ranges"][0]["end"] == shown["ranges"][1]["begin"] == "50"
    assert [each["round"] for each in shown["history"]] == [1]
    assert console.get("sweeps/offer/rounds") == shown["history"]
    assert (failure["key"], failure["error"]) == ("7", "ValueError: seven is not for sale")
    assert console.get("sweeps/offer/audit") == {"ok": True, "problems": []}


def test_a_sweep_is_split_started_and_its_failures_are_retried(console, web_shop):
    console.do("sweeps/offer/start")
    split = console.do("sweeps/offer/split", ranges=5)
    web_shop.app.drain()
    web_shop.is_broken = False

    none = console.do("sweeps/offer/retry", keys=["8", "not a key", "\x00", '{"uuid":"x"}'])
    asked = console.do("sweeps/offer/retry", keys=["7"])
    web_shop.app.drain()

    assert split["changed"] == 5
    assert len(console.get("sweeps/offer")["ranges"]) == 5
    assert (none["changed"], asked["changed"]) == (0, 1)
    assert console.get("sweeps/offer/failures") == []


def test_what_is_neither_a_sweep_nor_a_rolling_kind_is_unknown_there(console):
    assert console.client.get("/api/sweeps/stock").status_code == 404
    assert console.client.get("/api/rolling/offer").status_code == 404
    assert console.post("sweeps/none/split", ranges=3).status_code == 404


def test_a_named_run_shows_its_steps_and_is_released(console, web_shop):
    web_shop.app.control.start("load/x", partition="2026-11", expires="2h")
    web_shop.app.control.step("load/x", 1, partition="2026-11")
    web_shop.app.control.start("other")

    page = console.get("control", limit=1)
    rest = console.get("control", limit=1, after=page["next"])
    shown = console.get("control/load%2Fx", partition="2026-11")
    released = console.do("control/load%2Fx/release", partition="2026-11")
    again = console.post("control/load%2Fx/release", partition="2026-11")

    assert [run["name"] for run in page["items"] + rest["items"]] == ["load/x", "other"]
    assert (shown["run"]["status"], shown["run"]["step"]) == ("running", "1")
    assert shown["run"]["steps"][0]["state"] == "under way"
    assert "is released" in released["message"]
    assert again.status_code == 409
    after = console.get("control/load%2Fx", partition="2026-11")
    assert [run["status"] for run in after["history"]] == ["failed"]
    assert [run["name"] for run in console.get("control", status="running")["items"]] == ["other"]


def test_a_run_that_failed_starts_over(console, web_shop):
    web_shop.app.control.start("load")
    web_shop.app.control.error("load", "no disk")

    console.do("control/load/reset")

    assert console.get("control/load")["run"]["steps"] == []
    assert console.client.get("/api/control/none").status_code == 404


def test_the_ring_shows_members_arcs_and_moves(console, web_shop):
    hand = Hand(web_shop.app)
    web_shop.app.database.write(
        lambda connection: ring_store.acquire(connection, hand.id, range(256))
    )

    (ring,) = console.get("rings")["rings"]
    (shard,) = console.get("shards")

    (member,) = ring["members"]
    assert member["is_alive"]
    assert member["buckets"] == [{"begin": 0, "end": 256}]
    assert (ring["owned"], ring["free"]) == (256, [])
    assert [move["what"] for move in ring["moves"]] == ["joined"]
    assert (shard["up"], shard["workers"]) == (True, 1)


def test_switches_are_set_and_taken_back(console, web_shop):
    paused = console.do("switches/send_mail/pause", reason="sale")
    console.do("switches/send_mail/set", rate="3/s", concurrency=5)
    changed = console.do("switches/send_mail/set", rate="none", concurrency=None)
    resumed = console.do("switches/send_mail/resume")

    assert (paused["off"], paused["reason"]) == (True, "sale")
    assert paused["held_back"].startswith("paused by ")
    assert (changed["rate"], changed["concurrency"], changed["off"]) == ("none", None, True)
    assert (resumed["off"], resumed["held_back"]) == (False, None)
    assert console.post("switches/send_mail/set").status_code == 422
    assert console.post("switches/send_mail/set", rate="fast").status_code == 422
    assert console.post("switches/none/pause").status_code == 404


def test_a_breaker_is_closed_and_the_kind_stays_paused(console, web_shop):
    web_shop.send_mail.enqueue_many([{"to": "nobody"} for _ in range(50)])
    web_shop.app.drain()
    console.do("switches/send_mail/pause")
    before = console.get("switches/send_mail")

    after = console.do("switches/send_mail/close-breaker")

    assert (before["breaker"], after["breaker"]) == ("open", "closed")
    assert after["off"]
    whats = [alert["what"] for alert in console.get("alerts")["items"]]
    assert whats[0] == "breaker closed"


def test_about_tells_versions_schema_and_health(console, web_shop):
    shown = console.get("about")

    (database,) = shown["databases"]
    assert database["schema_found"] == database["schema_needed"]
    assert database["problem"] is None
    assert database["name"] == web_shop.app.database.name
    assert abs(datetime.fromisoformat(shown["now"]) - datetime.now(UTC)) < timedelta(minutes=5)
    assert console.get("health") == {"status": "ok"}


NUL = "x%00y"


@pytest.mark.parametrize(
    "path",
    [
        f"tasks?kind={NUL}",
        f"tasks?key={NUL}",
        f"tasks?after={NUL}",
        f"audit?who={NUL}",
        f"audit?about={NUL}",
        f"control?name={NUL}",
        f"control?after={NUL}",
        f'control?after=["{NUL}",""]',
        'control?after=["%5Cu0000",""]',
        f"control/{NUL}",
        f"control/x?partition={NUL}",
        f"rolling/stock/items?prefix={NUL}",
        f"rolling/stock/items?after={NUL}",
        f"rolling/stock/item?code={NUL}",
        f"kinds/{NUL}",
    ],
)
def test_what_no_database_can_store_is_refused(console, path):
    assert console.client.get(f"/api/{path}").status_code == 422


def test_every_action_is_in_the_audit_log(console, web_shop):
    ref = web_shop.send_mail.enqueue("a@b.c")
    console.do("switches/send_mail/pause", reason="sale")
    console.do(f"tasks/{ref.id}/cancel", reason="not needed")
    console.post(f"tasks/{ref.id}/cancel")

    log = console.get("audit")["items"]
    page = console.get("audit", limit=2)
    rest = console.get("audit", limit=2, after=page["next"])

    assert [(deed["action"], deed["about"], deed["ok"]) for deed in log] == [
        ("task.cancel", str(ref.id), False),
        ("task.cancel", str(ref.id), True),
        ("switch.pause", "send_mail", True),
    ]
    assert log[0]["outcome"].startswith(f"task {ref.id} is cancelled; only a task")
    assert log[2]["detail"] == '{"reason":"sale"}'
    assert (log[2]["via"], log[2]["address"]) == ("console", "127.0.0.1")
    assert page["items"] + rest["items"] == log
    assert [deed["about"] for deed in console.get("audit", about="send_mail")["items"]] == [
        "send_mail"
    ]
    assert ref.status() is Status.CANCELLED


def test_runs_over_given_sources_are_listed_shown_and_cancelled(console, web_shop):
    web_shop.offer.start(source=Keys(1, 9), key="upload-1")
    web_shop.offer.start(source=Keys(7, 7))
    web_shop.app.drain(kinds=["offer"])
    waiting = web_shop.offer.start(source=Keys(1, 3))

    assert [each["sweep"] for each in console.get("sweeps")] == ["offer", "offer@3"]
    assert [each["run"] for each in console.get("sweeps/offer/runs")] == [3, 2, 1]
    shown = console.get("sweeps/offer@1")
    assert (shown["kind"], shown["key"], shown["done"]) == ("offer", "upload-1", 8)
    assert [each["shown"] for each in console.get("sweeps/offer@2/failures")] == ["7"]
    assert console.do("sweeps/offer@3/cancel")["changed"] == 1
    assert console.do("sweeps/offer@3/cancel")["changed"] == 0
    assert waiting.progress().why == "cancelled"
    assert console.post("sweeps/offer/cancel").status_code == 404
    assert console.client.get("/api/sweeps/offer@9").status_code == 404
