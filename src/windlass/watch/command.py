"""`windlass status`, `migrate`, `check`, `alerts`, `acknowledge` and `audit`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from windlass.cli.load import AppOption, JsonOption, audit_log, load_app
from windlass.cli.output import (
    console,
    count_text,
    counted,
    done,
    plain,
    print_fitting,
    print_json,
    refuse,
    say,
    table,
    timestamp,
    visible,
    warn_missing,
    when,
)
from windlass.value.duration import parse_duration

if TYPE_CHECKING:
    from windlass.watch.model import AlertView, AppStatus, AuditEntry, KindStatus
    from windlass.watch.operate.check import DatabaseHealth

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
        console.print(Text(name, style="bold") + (is_missing if name in found.missing else known))
    console.print()
    _print_kinds(found)
    console.print()
    _print_workers(found)
    _print_failures(found)


def migrate(
    app: AppOption = None,
    sql: Annotated[bool, typer.Option("--sql", help="Print the SQL, change nothing.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Create or upgrade the tables."""
    loaded = load_app(app, needs_kinds=False)
    from windlass.watch.operate import check as operate

    if sql:
        text = operate.migration_script(loaded.fleet)
        print_json({"sql": text}) if as_json else typer.echo(text, nl=False)
        return
    before = operate.versions(loaded.fleet)
    version = loaded.migrate()
    facts = [{"database": name, "from": found, "to": version} for name, found in before]
    if as_json:
        print_json(facts[0] if len(facts) == 1 else {**facts[0], "shards": facts})
        return
    for name, found in before:
        if found == version:
            done(f"{name} is up to date (version {version})")
        else:
            done(f"{name} is now at version {version} (was {found or 'empty'})")


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


def alerts(
    app: AppOption = None,
    only_open: Annotated[
        bool, typer.Option("--open", help="Only those that are not acknowledged.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """List the last alerts, newest first, and who acknowledged them."""
    loaded = load_app(app)
    listed = loaded.alerts()
    warn_missing(listed.missing)
    found = [alert for alert in listed if alert.is_open or not only_open]
    if as_json:
        print_json(plain(found))
    elif not found:
        say("No alert is open." if only_open else "No alerts.")
    else:
        _print_alerts(found, loaded.clock.now())


def acknowledge(
    alert: Annotated[int, typer.Argument(metavar="ALERT", help="The id of the alert.")],
    app: AppOption = None,
    quiet: Annotated[
        str | None,
        typer.Option("--for", metavar="DURATION", help="Stay quiet this long (1h)."),
    ] = None,
    undo: Annotated[bool, typer.Option("--undo", help="Mark as unread.")] = False,
    who: Annotated[str | None, typer.Option("--who", help="Who; default: user@host.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Acknowledge an alert, and all of its sort and kind; a new one is open again."""
    if undo and quiet is not None:
        refuse("give --for or --undo, not both")
    loaded = load_app(app, needs_kinds=False)
    from windlass.watch.operate import alert as operate

    log = audit_log(loaded, who)
    if undo:
        message = operate.recall(loaded.fleet, log, alert)
    else:
        length = None if quiet is None else parse_duration(quiet, what="--for")
        message = operate.acknowledge(loaded.fleet, log, alert, quiet=length)
    if as_json:
        print_json(plain(operate.get(loaded.fleet, alert)))
    else:
        done(message)


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


def _print_alerts(found: list[AlertView], now: int) -> None:
    columns = ("id", "raised", "what", "kind", "task", "text", "seen")
    shown = table(*columns, right=("id", "task"), wrap=("text", "seen"))
    for alert in found:
        shown.add_row(
            str(alert.id),
            when(alert.raised_at, now=now),
            Text(alert.what, style="bold red" if alert.is_open else "bright_black"),
            Text(alert.kind or "-"),
            str(alert.task_id or "-"),
            Text(alert.text, style="" if alert.is_open else "bright_black"),
            Text(_seen(alert, now), style="bright_black"),
        )
    console.print(shown)


def _seen(alert: AlertView, now: int) -> str:
    if alert.seen_by is None or alert.seen_at is None:
        return "-"
    text = f"{visible(alert.seen_by)}, {when(alert.seen_at, now=now)}"
    return text if alert.quiet_until is None else f"{text}; until {timestamp(alert.quiet_until)}"


def _outcome(entry: AuditEntry) -> Text:
    if entry.ok is None:
        return Text("did not end", style="yellow")
    return Text(visible(entry.outcome or ""), style="" if entry.ok else "red")
