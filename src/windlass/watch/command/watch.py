"""`windlass status`, `migrate`, `check`, `audit` and `watch`."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from windlass.cli.load import AppArgument, AppOption, JsonOption, end_quietly, load_app
from windlass.cli.log import set_up_logs
from windlass.cli.output import (
    console,
    count_text,
    counted,
    done,
    note,
    plain,
    print_fitting,
    print_json,
    refuse,
    say,
    table,
    visible,
    warn_missing,
    when,
)

if TYPE_CHECKING:
    from windlass.watch.model import AppStatus, AuditEntry, KindStatus
    from windlass.watch.operate.check import DatabaseHealth
    from windlass.watch.operate.tables import Plan, WayBack

WHY_STYLE = {
    "running": "blue",
    "starting": "cyan",
    "nothing": "bright_black",
    "breaker": "bold red",
}
NUMBERS = ("waiting", "due", "running", "failed", "done 1h", "average")


def status(app: AppOption = None, as_json: JsonOption = False) -> None:
    """What runs, what waits and why, and who works."""
    loaded = load_app(app)
    from windlass.watch.operate import status as operate

    loaded.prepare()
    found = operate.look(loaded.fleet, loaded.registry)
    warn_missing(found.missing)
    if as_json:
        print_json(plain(found))
        return
    for name in found.shards:
        is_missing = Text("  does not answer", style="bold red")
        known = Text(f"  schema {found.schema}")
        if found.pending:
            lacks = ", ".join(found.pending)
            known += Text(f"  {lacks} pending: windlass migrate", style="yellow")
        console.print(Text(name, style="bold") + (is_missing if name in found.missing else known))
    console.print()
    _print_kinds(found)
    console.print()
    _print_workers(found)
    _print_failures(found)


def migrate(
    app: AppOption = None,
    plan: Annotated[
        bool,
        typer.Option("--plan", help="Say what would be done and locked, and for how long."),
    ] = False,
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="VERSION", help="Go back to a version, or a release (0.1.0)."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before going back.")] = False,
    sql: Annotated[bool, typer.Option("--sql", help="Print the SQL, change nothing.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Create or upgrade the tables, say what that would do, or go back to older ones."""
    if sum((sql, plan, to is not None)) > 1:
        refuse("give one of --plan, --to and --sql")
    loaded = load_app(app, needs_kinds=False)
    from windlass.watch.operate import tables as operate

    if sql:
        text = operate.script(loaded.fleet)
        print_json({"sql": text}) if as_json else typer.echo(text, nl=False)
        return
    if plan:
        _print_plans(operate.plans(loaded.fleet), as_json=as_json)
        return
    before = operate.versions(loaded.fleet)
    if to is not None and not yes:
        _ask_to_go_back(operate.losses(loaded.fleet, to), to)
    version = loaded.migrate() if to is None else operate.go_back(loaded.fleet, to)
    facts = [{"database": name, "from": found, "to": version} for name, found in before]
    if as_json:
        print_json(facts[0] if len(facts) == 1 else {**facts[0], "shards": facts})
        return
    for name, found in before:
        if found == version:
            done(f"{name} is up to date (version {version})")
        else:
            done(f"{name} is now at version {version} (was {found or 'empty'})")


def _print_plans(plans: list[Plan], *, as_json: bool) -> None:
    if as_json:
        found = plain(plans)
        print_json(found[0] if len(found) == 1 else {**found[0], "shards": found})
        return
    for each in plans:
        if not each.steps:
            done(f"{each.database} is up to date (version {each.version})")
            continue
        pending = ", ".join(each.pending)
        say(f"{each.database} has version {each.version or 'none'}; pending: {pending}")
        shown = table("version", "step", "blocks", "rows", "takes", right=("rows",), wrap=("step",))
        for step in each.steps:
            style = "" if step.is_online else "yellow"
            took = f"about {step.seconds:,.0f} s" if step.seconds >= 1 else "a moment"
            rows = f"{step.rows:,}" if step.rows else "-"
            shown.add_row(
                step.version, step.operation, Text(step.blocks, style=style), rows, Text(took)
            )
        console.print(shown)
        if all(step.is_online for step in each.steps):
            say("Workers can go on working meanwhile.")
        else:
            say("Workers wait while a step blocks them.")


def _ask_to_go_back(losses: list[WayBack], to: str) -> None:
    for each in losses:
        for step in each.steps:
            note(f"{each.database}: {step}")
    lost = any(each.steps for each in losses)
    if lost and not typer.confirm(f"Go back to {to}, and lose what these have?", err=True):
        refuse("nothing was changed", code=1)


def check(app: AppOption = None, as_json: JsonOption = False) -> None:
    """Find what is wrong with the app before it runs; exit code 1 if anything is."""
    loaded = load_app(app)
    from windlass.watch.operate import check as operate

    findings = operate.check(loaded.fleet, loaded.registry)
    errors = sum(finding.level == "error" for finding in findings)
    if as_json:
        print_json(findings)
    else:
        for database in operate.health(loaded.fleet):
            _print_link(database)
        for finding in findings:
            style = "bold red" if finding.level == "error" else "yellow"
            line = Text(f"{finding.level:8}", style=style) + Text(
                f"{finding.about}  ", style="bold"
            )
            console.print(line + Text(finding.text))
        summary = ", ".join(
            (
                counted(len(loaded.registry.kinds), "kind"),
                counted(errors, "error"),
                counted(len(findings) - errors, "warning"),
            )
        )
        say(summary) if findings else done(summary)
    if errors:
        raise typer.Exit(1)


def audit(
    app: AppOption = None,
    who: Annotated[str | None, typer.Option("--who", help="Only what this person did.")] = None,
    about: Annotated[
        str | None, typer.Option("--about", help="Only what was done to this kind, task or run.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="At most this many.")] = 20,
    as_json: JsonOption = False,
) -> None:
    """List what operators did, newest first: who, by which means, what, and the outcome."""
    loaded = load_app(app, needs_kinds=False)
    from windlass.watch.operate import audit as operate

    loaded.prepare()
    found = operate.listing(loaded.fleet, limit=limit, who=who, about=about)
    warn_missing(found.missing)
    if as_json:
        print_json(plain(found))
        return
    if not found:
        say("No operator has done anything yet." if who is about is None else "No entry matches.")
        return
    now = loaded.clock.now()
    shown = table("when", "who", "via", "action", "about", "outcome", wrap=("outcome",))
    for entry in found:
        shown.add_row(
            when(entry.acted_at, now=now),
            visible(entry.who),
            entry.via,
            Text(entry.action, style="bold"),
            visible(entry.about or "-"),
            _outcome(entry),
        )
    console.print(shown)


def watch(app: AppArgument, as_json: JsonOption = False) -> None:
    """Watch from outside until SIGTERM: alert when no worker is left or a database is gone."""
    end_quietly()
    loaded = load_app(app)
    set_up_logs(as_json=as_json, console=None)
    if not loaded.channels:
        say("No channel is declared: alerts are written, and not sent. Declare one: app.alert_to")
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: stopped.set())
    watcher = loaded.outside_watcher()
    watcher.start()
    stopped.wait()
    watcher.stop()
    watcher.join(timeout=30.0)
    loaded.close()


def _print_link(database: DatabaseHealth) -> None:
    """As whom a server is connected, and whether the connection is encrypted."""
    if database.user is not None:
        how = "not encrypted" if database.tls is None else f"encrypted by {database.tls}"
        line = Text(f"  {database.dialect} {database.server}, as {visible(database.user)}, {how}")
        console.print(Text(database.name, style="bold") + line)


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


def _outcome(entry: AuditEntry) -> Text:
    if entry.ok is None:
        return Text("did not end", style="yellow")
    return Text(visible(entry.outcome or ""), style="" if entry.ok else "red")
