"""`windlass status`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer
from rich.text import Text

from windlass.cli.load import AppOption, JsonOption, load_app
from windlass.cli.output import (
    console,
    count_text,
    plain,
    print_fitting,
    print_json,
    say,
    table,
    warn_missing,
    when,
)

if TYPE_CHECKING:
    from windlass.watch.status.model import AppStatus, KindStatus

WHY_STYLE = {
    "running": "blue",
    "starting": "cyan",
    "nothing": "bright_black",
    "breaker": "bold red",
}
NUMBERS = ("waiting", "due", "running", "failed", "done 1h", "average")


def register(cli: typer.Typer) -> None:
    """Add the commands."""
    cli.command()(status)


def status(app: AppOption = None, as_json: JsonOption = False) -> None:
    """What runs, what waits and why, and who works."""
    loaded = load_app(app)
    from windlass.watch.status import operate

    loaded.prepare()
    found = operate.look(loaded.fleet, loaded.registry)
    warn_missing(found.missing)
    if as_json:
        print_json(plain(found))
        return
    for name in found.shards:
        is_missing = Text("  does not answer", style="bold red")
        known = Text(f"  schema {found.schema}")
        console.print(Text(name, style="bold") + (is_missing if name in found.missing else known))
    console.print()
    _print_kinds(found)
    console.print()
    _print_workers(found)
    _print_failures(found)


def _print_kinds(found: AppStatus) -> None:
    if not found.kinds:
        say("No kind is declared yet.")
        return
    whole = table("kind", "why", *NUMBERS, "next", right=NUMBERS, wrap=("why",))
    reasons = table("kind", "why", "next", wrap=("why",))
    counts = table("kind", *NUMBERS, right=NUMBERS)
    for kind in found.kinds:
        name = Text(kind.kind, style="bold")
        why = Text(kind.why, style=WHY_STYLE.get(kind.why.split()[0], "yellow"))
        cells, following = _cells(kind), _next(kind, found.now)
        whole.add_row(name, why, *cells, following)
        reasons.add_row(name, why, following)
        counts.add_row(name, *cells)
    print_fitting(whole, reasons, counts)


def _cells(kind: KindStatus) -> list[Text]:
    average = kind.average_milliseconds
    return [
        Text(count_text(kind.waiting)),
        Text(count_text(kind.due)),
        Text(count_text(kind.running)),
        Text(count_text(kind.failed), style="red" if kind.failed else ""),
        Text(f"{kind.done_last_hour:,}"),
        Text("-" if average is None else f"{average:,.1f} ms"),
    ]


def _print_workers(found: AppStatus) -> None:
    if not found.workers:
        console.print(Text("No worker is running.", style="yellow"))
        return
    shown = table("worker", "host", "pid", "joined", "kinds", right=("worker", "pid", "kinds"))
    for worker in found.workers:
        shown.add_row(
            str(worker.id),
            Text(worker.host),
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
            Text(failure.kind),
            Text(failure.error, style="red"),
        )
    console.print(shown)


def _next(kind: KindStatus, now: int) -> str:
    if kind.sweep is not None:
        return kind.sweep
    if kind.every is not None:
        return f"every {kind.every}"
    return "" if kind.cron is None else f"{when(kind.next_due_at, now=now)}  ({kind.cron})"
