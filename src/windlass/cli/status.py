"""`windlass status` and `windlass alerts`."""

from __future__ import annotations

import typer
from rich.text import Text

from windlass.cli.load import AppOption, JsonOption, load_app
from windlass.cli.output import console, iso, print_json, say, table, when
from windlass.operate import status as operate
from windlass.operate.status import AppStatus, KindStatus
from windlass.store.task import COUNTED_EXACTLY

WHY_STYLE = {
    "running": "blue",
    "starting": "cyan",
    "nothing": "bright_black",
    "breaker": "bold red",
}


def register(cli: typer.Typer) -> None:
    """Add the commands."""
    cli.command()(status)
    cli.command()(alerts)


def status(app: AppOption = None, as_json: JsonOption = False) -> None:
    """What runs, what waits and why, and who works."""
    loaded = load_app(app)
    loaded.prepare()
    found = operate.look(loaded.database, loaded.clock, loaded.registry)
    if as_json:
        print_json(_for_programs(found))
        return
    console.print(Text(found.database, style="bold") + Text(f"  schema {found.schema}"))
    console.print()
    _print_kinds(found)
    console.print()
    _print_workers(found)
    _print_failures(found)


def alerts(app: AppOption = None, as_json: JsonOption = False) -> None:
    """The last alerts, newest first."""
    loaded = load_app(app)
    found = loaded.alerts()
    now = loaded.clock.now()
    if as_json:
        print_json([{**vars(alert), "raised_at": iso(alert.raised_at)} for alert in found])
    elif not found:
        say("No alerts.")
    else:
        shown = table("raised", "what", "kind", "task", "text", wrap=("text",))
        for alert in found:
            shown.add_row(
                when(alert.raised_at, now=now),
                Text(alert.what, style="bold red"),
                alert.kind or "-",
                str(alert.task_id or "-"),
                alert.text,
            )
        console.print(shown)


def _print_kinds(found: AppStatus) -> None:
    numbers = ("waiting", "due", "running", "failed", "done 1h", "average")
    shown = table("kind", "why", *numbers, "next", right=numbers, wrap=("why", "next"))
    for kind in found.kinds:
        average = kind.average_milliseconds
        shown.add_row(
            Text(kind.kind, style="bold"),
            Text(kind.why, style=WHY_STYLE.get(kind.why.split()[0], "yellow")),
            _count(kind.waiting),
            _count(kind.due),
            _count(kind.running),
            Text(_count(kind.failed), style="red" if kind.failed else ""),
            f"{kind.done_last_hour:,}",
            "-" if average is None else f"{average:,.1f} ms",
            _next(kind, found.now),
        )
    if found.kinds:
        console.print(shown)
    else:
        say("No kind is declared yet.")


def _print_workers(found: AppStatus) -> None:
    if not found.workers:
        console.print(Text("No worker is running.", style="yellow"))
        return
    shown = table("worker", "host", "pid", "joined", "kinds", right=("worker", "pid"))
    for worker in found.workers:
        shown.add_row(
            str(worker.id),
            worker.host,
            str(worker.pid),
            when(worker.joined_at, now=found.now),
            str(len(worker.kinds)),
        )
    console.print(shown)


def _print_failures(found: AppStatus) -> None:
    if not found.failures:
        return
    console.print()
    shown = table("failed", "task", "kind", "error", right=("task",), wrap=("error",))
    for failure in found.failures:
        shown.add_row(
            when(failure.failed_at, now=found.now),
            str(failure.task_id),
            failure.kind,
            Text(failure.error, style="red"),
        )
    console.print(shown)


def _next(kind: KindStatus, now: int) -> str:
    if kind.every is not None:
        return f"every {kind.every}"
    return "" if kind.cron is None else f"{when(kind.next_due_at, now=now)}  ({kind.cron})"


def _count(number: int) -> str:
    return f"{COUNTED_EXACTLY:,}+" if number > COUNTED_EXACTLY else f"{number:,}"


def _for_programs(found: AppStatus) -> dict[str, object]:
    return {
        "database": found.database,
        "schema": found.schema,
        "now": iso(found.now),
        "kinds": [{**vars(kind), "next_due_at": iso(kind.next_due_at)} for kind in found.kinds],
        "workers": [
            {
                **vars(worker),
                "joined_at": iso(worker.joined_at),
                "lease_until": iso(worker.lease_until),
                "left_at": iso(worker.left_at),
            }
            for worker in found.workers
        ],
        "failures": [
            {**vars(failure), "failed_at": iso(failure.failed_at)} for failure in found.failures
        ],
    }
