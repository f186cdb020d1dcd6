"""Every GET of the console's API, on a database with ten million tasks.

A few rows of every sort are made by real work, and multiplied by SQL: tasks that wait, are due,
ended in every way, items, nodes of flows, named runs, and the ledger beside them. Then a real
server is asked, one request at a time; the first answers of each are thrown away. The goal is an
answer below 100 ms, and `over_goal` names those that miss it. On a machine that does other work
too, the least of many tells more than the rest.
"""

from __future__ import annotations

import http.client
import json
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from bench.contract import end_in_order_when_told, url
from bench.raw.session import Session
from bench.scenario.console_app import app, seed

ROWS = 10_000_000
QUICK = 1_000_000
WARM_UP = 2
TIMES = 15
GOAL_MILLISECONDS = 100
AT_ONCE = 200_000
SECRET = "a secret of the bench"
ENDLESS = "/api/events"
# It reads every row, as an audit must, and is asked for by hand: it is told, not judged.
WHOLE = "/api/ledger/audit"

# What is multiplied, with what each copy has of its own; all else is as it was.
TASK = {
    "id": "id + n * STRIDE",
    "task_key": "task_key || '-' || n",
    "bucket": "mod(bucket + n, 256)",
    "due_at": "due_at + n",
    "created_at": "created_at - n * 1000",
    "flow_id": "flow_id + n * STRIDE",
}
LEDGER = {
    "windlass_stock": {"sku": "sku || '-' || n"},
    "windlass_deduction": {"id": "id || '-' || n", "created_at": "created_at - n"},
    "windlass_deduction_line": {
        "deduction_id": "deduction_id || '-' || n",
        "sku": "sku || '-' || n",
    },
    "windlass_stock_return": {
        "deduction_id": "deduction_id || '-' || n",
        "created_at": "created_at - n",
    },
    "windlass_return_line": {"deduction_id": "deduction_id || '-' || n", "sku": "sku || '-' || n"},
    "windlass_stock_entry": {
        "id": "id + n * 10",
        "sku": "sku || '-' || n",
        "reference": "reference || '-' || n",
    },
}


def main() -> None:
    end_in_order_when_told()
    rows = QUICK if "--quick" in sys.argv else ROWS
    seed()
    app.close()
    began = time.perf_counter()
    places = fill(Session(url()), rows)
    took = time.perf_counter() - began
    with served() as address:
        found = {path: measured(address, path) for path in paths(address, places)}
    judged = {path: taken for path, taken in found.items() if path != WHOLE}
    figures = {
        "rows": rows,
        "fill_seconds": round(took, 1),
        "goal_ms": GOAL_MILLISECONDS,
        "over_goal": [path for path, taken in judged.items() if taken["p95"] > GOAL_MILLISECONDS],
        "calls": found,
    }
    print(json.dumps(figures))


def fill(session: Session, rows: int) -> dict[str, str]:
    """Multiply the rows that are there; where to find one of each sort."""
    with session.transaction():
        ((low, high, there),) = session.rows("select min(id), max(id), count(*) from windlass_task")
    stride = high - low + 1
    copies = rows // there
    multiply(session, "windlass_task", TASK, copies, stride=stride)
    slots = {"dep_id": "dep_id + n * STRIDE", "task_id": "task_id + n * STRIDE"}
    multiply(session, "windlass_slot", slots, copies, stride=stride)
    multiply(
        session, "windlass_control", {"partition_id": "partition_id || '-' || n"}, copies // 50
    )
    for table, own in LEDGER.items():
        multiply(session, table, own, copies // 5)
    with session.transaction():
        session.execute(
            "insert into windlass_tally (kind, delta) values ('item', %(n)s)", n=5 * copies
        )
        places = {
            "task": one(session, "select max(id) from windlass_task where kind = 'failing'"),
            "flow": one(session, "select max(flow_id) from windlass_task where kind = 'failing'"),
            "code": "SKU-3",
        }
    session.alone("vacuum (analyze)")
    session.alone("checkpoint")
    session.close()
    return places


def multiply(
    session: Session, table: str, own: dict[str, str], copies: int, stride: int = 0
) -> None:
    """Copy each row of a table `times` times, some hundred thousand in one statement."""
    with session.transaction():
        found = session.rows(
            "select column_name from information_schema.columns where table_name = %(table)s "
            "and table_schema = current_schema()",
            table=table,
        )
        names = [name for (name,) in found]
        session.execute(f"create temporary table first_rows as select * from {table}")
    values = ", ".join(own.get(name, name) for name in names).replace("STRIDE", str(stride))
    insert = f"""
        insert into {table} ({", ".join(names)})
        select {values} from first_rows, generate_series(%(first)s::bigint, %(last)s::bigint) as n
    """
    with session.transaction():
        for first in range(1, copies + 1, AT_ONCE // 20):
            last = min(copies, first + AT_ONCE // 20 - 1)
            session.execute(insert, first=first, last=last)
        session.execute("drop table first_rows")


def one(session: Session, statement: str) -> str:
    return str(session.rows(statement)[0][0])


@contextmanager
def served() -> Iterator[str]:
    """A console of its own process; where it is."""
    command = [sys.executable, "-u", "-m", "windlass", "console"]
    with subprocess.Popen(
        [*command, "bench.scenario.console_app:app", "--port", "0", "--secret", SECRET],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            said = process.stdout.readline()
            found = re.search(r"http://([\d.]+:\d+)", said)
            if found is None:
                raise RuntimeError(f"the console did not start: {said}")
            wait_for(found[1])
            yield found[1]
        finally:
            process.terminate()


def wait_for(address: str) -> None:
    for _ in range(600):
        try:
            ask(http.client.HTTPConnection(address), "/api/health")
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise RuntimeError("the console does not answer")


def paths(address: str, places: dict[str, str]) -> list[str]:
    """A request for every GET of the API, and for each way that the lists are filtered."""
    document = json.loads(ask(http.client.HTTPConnection(address), "/api/openapi.json"))
    plan = plan_of(places)
    gets = {path for path, verbs in document["paths"].items() if "get" in verbs}
    unplanned = gets - plan.keys() - {ENDLESS}
    if unplanned:
        raise RuntimeError(f"these calls are not measured: {', '.join(sorted(unplanned))}")
    return [path for template in sorted(gets & plan.keys()) for path in plan[template]]


def plan_of(places: dict[str, str]) -> dict[str, list[str]]:
    """What is asked, by the path of the route."""
    filters = [
        "",
        "?kind=later",
        "?kind=item&limit=200",
        *(f"?status={status}" for status in ("waiting", "running", "succeeded", "failed")),
        *(f"?status={status}" for status in ("blocked", "external", "cancelled")),
        "?kind=failing&status=failed",
        "?kind=later&status=waiting",
        "?key=due-3",
        "?kind=later&key=due-3",
        "?created_after=2020-01-01T00:00:00Z",
        "?created_before=2020-01-01T00:00:00Z",
        "?kind=none",
    ]
    flow, task = places["flow"], places["task"]
    return {
        "/api/tasks": [f"/api/tasks{given}" for given in filters],
        "/api/tasks/{number}": [f"/api/tasks/{task}"],
        "/api/flows": [
            f"/api/flows{given}"
            for given in ("", "?status=failed", "?status=running", "?flow=fine&status=succeeded")
        ],
        "/api/flows/startable": ["/api/flows/startable"],
        "/api/flows/{number}": [f"/api/flows/{flow}"],
        "/api/flows/{number}/nodes": [f"/api/flows/{flow}/nodes"],
        "/api/flows/{number}/node": [f"/api/flows/{flow}/node?name=first"],
        "/api/flows/{number}/export": [f"/api/flows/{flow}/export"],
        "/api/kinds/{kind}": [f"/api/kinds/{kind}" for kind in ("later", "item", "walk", "fine")],
        "/api/switches/{kind}": ["/api/switches/later"],
        "/api/rolling/{kind}": ["/api/rolling/item"],
        "/api/rolling/{kind}/items": [
            "/api/rolling/item/items",
            "/api/rolling/item/items?prefix=SKU-3",
        ],
        "/api/rolling/{kind}/item": [f"/api/rolling/item/item?code={places['code']}"],
        "/api/control": ["/api/control", "/api/control?name=load", "/api/control?status=failed"],
        "/api/control/{name}": ["/api/control/load?partition=0"],
        **{
            f"/api/sweeps/{{kind}}{part}": [f"/api/sweeps/walk{part}"]
            for part in ("", "/rounds", "/failures", "/audit")
        },
        **{
            f"/api/templates/{{name}}{part}": [f"/api/templates/drawn{part}"]
            for part in ("", "/versions", "/export")
        },
        **ledger_plan(),
        **{
            path: [path]
            for path in (
                *("/api/about", "/api/alerts", "/api/audit", "/api/changes", "/api/health"),
                *("/api/kinds", "/api/overview", "/api/rings", "/api/rolling", "/api/session"),
                *("/api/shards", "/api/sweeps", "/api/switches", "/api/templates"),
            )
        },
    }


def ledger_plan() -> dict[str, list[str]]:
    return {
        "/api/ledgers": ["/api/ledgers"],
        "/api/stock": ["/api/stock", "/api/stock?prefix=sku-7", "/api/stock?sold_out=true"],
        "/api/deductions": ["/api/deductions", "/api/deductions?prefix=order-7"],
        "/api/returns": ["/api/returns", "/api/returns?deduction=order-7"],
        "/api/entries": ["/api/entries", "/api/entries?sku=sku-7", "/api/entries?movement=return"],
        "/api/ledger/deductions/{id}": ["/api/ledger/deductions/order-7"],
        "/api/ledger/deductions/{id}/returns": ["/api/ledger/deductions/order-7/returns"],
        "/api/ledger/stocks": ["/api/ledger/stocks"],
        "/api/ledger/stocks/{sku}": ["/api/ledger/stocks/sku-7"],
        "/api/ledger/stocks/{sku}/entries": ["/api/ledger/stocks/sku-7/entries"],
        WHOLE: [WHOLE],
    }


def ask(connection: http.client.HTTPConnection, path: str) -> bytes:
    connection.request("GET", path, headers={"Authorization": f"Bearer {SECRET}"})
    answer = connection.getresponse()
    body = answer.read()
    if answer.status >= 400:
        raise RuntimeError(f"{path}: {answer.status} {body[:300]!r}")
    return body


def measured(address: str, path: str) -> dict[str, float]:
    """Milliseconds: least, median and 95th percentile; and the bytes of the answer."""
    connection = http.client.HTTPConnection(address)
    taken = []
    size = 0
    for _ in range(WARM_UP + TIMES):
        began = time.perf_counter()
        size = len(ask(connection, path))
        taken.append(1_000 * (time.perf_counter() - began))
    connection.close()
    steady = sorted(taken[WARM_UP:])
    return {
        "least": round(steady[0], 1),
        "p50": round(statistics.median(steady), 1),
        "p95": round(steady[int(0.95 * len(steady))], 1),
        "bytes": size,
    }


if __name__ == "__main__":
    main()
