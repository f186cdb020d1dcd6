"""`windlass audit`: whatever a command changes is written down, with the words of the console."""

import json

import pytest
import typer

from tests.fixture.command import open_module
from windlass.cli import command
from windlass.core.alert.model import Trouble
from windlass.core.alert.store import raise_alert
from windlass.view.action import Action, whoami
from windlass.watch.operate import audit

# What is written is the same on every database.
pytestmark = pytest.mark.mostly("sqlite")

YARD = """
from windlass import App, Keys

app = App({url!r})

@app.task(retries=0)
def tell(to: str = "all") -> None:
    if to == "nobody":
        raise ValueError("no such address")

@app.rolling(every="10d")
def stock(code: str) -> None: ...

@app.sweep(Keys(1, 40), ranges=4, redo="4h")
def offer(number: int) -> None: ...

@app.flow
def close_shop(flow):
    flow.add(tell, "nobody", name="first")
"""

SPEC = {"nodes": [{"name": "one", "kind": "tell"}], "edges": []}

LOOKS = {
    *("status", "alerts", "ring", "audit", "check", "flow list", "flow show", "flow export"),
    *(
        "cron list",
        "cron show",
        "task list",
        "task show",
        "rolling list",
        "rolling show",
        "control list",
        "control show",
    ),
    *("sweep runs", "sweep list", "sweep show", "sweep failures", "sweep audit", "shard list"),
    *(
        "ledger stock",
        "ledger show",
        "ledger entries",
        "ledger audit",
        "ledger lanes",
        "token list",
    ),
    *("alert list", "alert show", "promise list", "promise show", "plan"),
    *("downstream list", "downstream show", "queue list", "queue show", "queue failed"),
}
# What keeps a record of its own, or begins before there are tables.
ELSEWHERE = {
    "worker",
    "consumer",
    "dev",
    "console",
    "callback",
    "run",
    "demo",
    "init",
    "completion",
    "migrate",
    "watch",
}
ACTS = {
    *(
        "cron run",
        "cron set",
        "cron reset",
        "pause",
        "resume",
        "set",
        "task retry",
        "task cancel",
        "task enqueue",
    ),
    *("rolling add", "rolling remove", "rolling visit"),
    *("rolling mirror", "rolling follow", "rolling unfollow"),
    *(
        "sweep split",
        "sweep cancel",
        "sweep start",
        "sweep retry",
        "sweep visit",
        "control release",
        "control reset",
    ),
    *("flow start", "flow retry", "flow skip", "flow cancel", "flow import"),
    *("shard drain", "shard move", "acknowledge", "token create", "token revoke"),
    *("alert acknowledge", "alert test", "queue retry", "queue drop"),
    *("ledger exchange", "ledger protect"),
    *("ledger allot", "ledger recall", "ledger recover"),
}


@pytest.fixture
def yard(sqlite_url, write_module, monkeypatch):
    yield from open_module(YARD.format(url=sqlite_url), write_module, monkeypatch)


def last(yard) -> tuple[str, str | None, bool | None, str | None]:
    (deed,) = audit.listing(yard.app.fleet, limit=1)
    assert (deed.who, deed.via) == (whoami(), "cli")
    return deed.action, deed.about, deed.ok, deed.outcome


def names(group: typer.core.TyperGroup, before: str = "") -> set[str]:
    found = set()
    for name, each in group.commands.items():
        below = getattr(each, "commands", None)
        found |= {f"{before}{name}"} if below is None else names(each, f"{before}{name} ")
    return found


def test_every_command_is_known_to_look_to_act_or_to_keep_its_own_record():
    assert names(command()) == LOOKS | ACTS | ELSEWHERE


def test_what_a_command_does_to_a_kind_is_written_down(windlass, yard):
    windlass("pause", "tell", "--reason", "they moved")
    assert last(yard) == (Action.SWITCH_PAUSE, "tell", True, "tell is paused")

    windlass("resume", "tell")
    assert last(yard) == (Action.SWITCH_RESUME, "tell", True, "tell is resumed")

    windlass("set", "tell", "--rate", "3/s", "--window", "default")
    assert last(yard) == (Action.SWITCH_SET, "tell", True, "tell is set")

    windlass("rolling", "add", "stock", "a", "b")
    assert last(yard) == (Action.ROLLING_ADD, "stock", True, "added 2 items to stock")

    windlass("rolling", "remove", "stock", "a")
    assert last(yard) == (Action.ROLLING_REMOVE, "stock", True, "removed 1 item from stock")

    windlass("sweep", "split", "offer", "3")
    assert last(yard)[:3] == (Action.SWEEP_SPLIT, "offer", True)

    windlass("sweep", "start", "offer")
    assert last(yard) == (Action.SWEEP_START, "offer", True, "round 1 of offer runs")

    windlass("sweep", "retry", "offer")
    assert last(yard)[:3] == (Action.SWEEP_RETRY, "offer", True)

    told = [deed["detail"] for deed in windlass("audit", "--json").json]
    assert told[-3:] == [{"rate": "3/s", "window": None}, None, {"reason": "they moved"}]


def test_what_a_command_does_to_tokens_is_written_down(windlass, yard):
    made = windlass("token", "create", "deploy", "--role", "viewer", "--json").json
    assert last(yard) == (Action.TOKEN_CREATE, "deploy", True, f"deploy is made: {made['prefix']}…")

    windlass("token", "create", "deploy", "--role", "viewer")
    assert last(yard)[:3] == (Action.TOKEN_CREATE, "deploy", False)

    windlass("token", "revoke", "deploy")
    outcome = f"deploy is revoked: {made['prefix']}…"
    assert last(yard) == (Action.TOKEN_REVOKE, "deploy", True, outcome)


def test_what_a_command_does_to_a_table_of_items_is_written_down(windlass, yard):
    windlass("task", "list")
    yard.app.database.write(
        lambda connection: connection.exec_driver_sql("create table product (sku varchar(20))")
    )
    source = ("stock", "--table", "product", "--key", "sku")

    windlass("rolling", "mirror", *source, "--dry-run")
    assert windlass("audit", "--json").json == []

    windlass("rolling", "mirror", *source)
    assert last(yard) == (Action.ROLLING_MIRROR, "stock", True, "stock: added 0, removed 0")

    windlass("rolling", "follow", *source)
    assert last(yard)[:3] == (Action.ROLLING_FOLLOW, "stock", True)

    windlass("rolling", "unfollow", *source)
    assert last(yard)[:3] == (Action.ROLLING_UNFOLLOW, "stock", True)

    answer = windlass("rolling", "unfollow", *source)
    assert (answer.code, answer.err.strip()) == (1, "error: stock does not follow product")
    assert last(yard)[2:] == (False, "stock does not follow product")


def test_what_a_command_does_to_tasks_and_flows_is_written_down(windlass, yard, folder):
    number = windlass("task", "enqueue", "tell", '{"to": "nobody"}', "--json").json["id"]
    assert last(yard) == (Action.TASK_ENQUEUE, "tell", True, f"enqueued task {number}")

    windlass("task", "cancel", number)
    assert last(yard) == (Action.TASK_CANCEL, str(number), True, f"task {number} is cancelled")

    windlass("task", "retry", number)
    assert last(yard) == (Action.TASK_RETRY, str(number), True, f"task {number} will run again")

    run = windlass("flow", "start", "close_shop", "--json").json["id"]
    assert last(yard)[:3] == (Action.FLOW_START, "close_shop", True)
    yard.app.drain()

    windlass("flow", "retry", run)
    assert last(yard)[:3] == (Action.FLOW_RETRY, str(run), True)
    yard.app.drain()

    windlass("flow", "skip", run, "first")
    assert last(yard)[:3] == (Action.FLOW_SKIP, str(run), True)
    yard.app.drain()

    windlass("flow", "cancel", run)
    assert last(yard)[:3] == (Action.FLOW_CANCEL, str(run), False)

    (folder / "spec.json").write_text(json.dumps(SPEC))
    windlass("flow", "import", "night", "spec.json")
    assert last(yard) == (Action.TEMPLATE_SAVE, "night", True, "night is saved as version 1")


def test_what_a_command_does_to_named_runs_is_written_down(windlass, yard):
    yard.app.control.start("load")
    windlass("control", "release", "load", "--yes")
    assert last(yard) == (Action.CONTROL_RELEASE, "'load'", True, "'load' is released")

    windlass("control", "reset", "load", "--yes")
    assert last(yard) == (Action.CONTROL_RESET, "'load'", True, "'load' starts over")


def test_an_alert_is_acknowledged_and_recalled(windlass, yard):
    yard.app.prepare()
    now = yard.app.clock.now()
    yard.app.database.write(
        lambda connection: raise_alert(
            connection, 7, Trouble("poison", "tell", "it kills its workers"), now=now
        )
    )

    assert "poison of tell is acknowledged" in windlass("acknowledge", "7", "--for", "1h").out
    assert last(yard)[:3] == (Action.ALERT_ACKNOWLEDGE, "poison of tell", True)
    assert whoami() in windlass("alerts").out
    assert "No alert is open" in windlass("alerts", "--open").out

    alert = windlass("acknowledge", "7", "--undo", "--json").json
    assert (alert["id"], alert["is_open"], alert["seen_by"]) == (7, True, None)
    assert last(yard) == (
        Action.ALERT_RECALL,
        "poison of tell",
        True,
        "poison of tell is open again",
    )
    assert windlass("acknowledge", "8").err.startswith("error: there is no alert 8")
    assert windlass("acknowledge", "7", "--for", "1h", "--undo").code == 2


def test_a_refusal_is_written_down_with_its_reason(windlass, yard):
    number = yard.tell.enqueue().id

    answer = windlass("task", "retry", number)

    assert answer.code == 1
    refused = f"task {number} is waiting; only a failed or cancelled task can be retried"
    assert answer.err.strip() == f"error: {refused}"
    assert last(yard) == (Action.TASK_RETRY, str(number), False, refused)


def test_the_log_is_listed_and_filtered(windlass, yard):
    assert "No operator has done anything" in windlass("audit").out
    windlass("pause", "tell", "--who", "Ada")
    windlass("pause", "stock")

    listed = windlass("audit").out
    assert "stock is paused" in listed
    assert "Ada" in listed
    (deed,) = windlass("audit", "--who", "Ada", "--json").json
    assert (deed["action"], deed["via"], deed["about"]) == ("switch.pause", "cli", "tell")
    assert "tell" not in windlass("audit", "--about", "stock").out
    assert "No entry matches" in windlass("audit", "--about", "nothing").out
