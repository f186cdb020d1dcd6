"""`windlass task list|show|retry|cancel|enqueue`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from windlass.app import App
from windlass.cli.commands import values_of
from windlass.cli.load import AppOption, JsonOption, audit_log, load_app
from windlass.cli.output import (
    console,
    counted,
    moment_text,
    parse_status,
    plain,
    print_json,
    refuse,
    report,
    say,
    status_text,
    table,
    timestamp,
    visible,
    warn_missing,
    when,
)
from windlass.operate.task import operate
from windlass.value.duration import parse_duration
from windlass.value.status import Status
from windlass.value.task import ProgressView, RunLogView, TaskFilter
from windlass.view.action import Action

cli = typer.Typer()

IdsArgument = Annotated[list[int] | None, typer.Argument(metavar="ID", help="The ids of tasks.")]
KindOption = Annotated[str | None, typer.Option("--kind", help="All of this kind.")]
StatusOption = Annotated[
    str | None, typer.Option("--status", help="Those in this status, for example failed.")
]
SinceOption = Annotated[
    str | None, typer.Option("--since", help="Those enqueued in this time, such as 2h.")
]
# What can be retried, and what can be cancelled.
RETRIED = (Status.FAILED, Status.CANCELLED)
CANCELLED = (Status.WAITING, Status.RUNNING, Status.EXTERNAL)

IdArgument = Annotated[int, typer.Argument(metavar="ID", help="The id of the task.")]


@cli.command("list")
def list_tasks(
    app: AppOption = None,
    kind: Annotated[str | None, typer.Option("--kind", help="Only this kind.")] = None,
    status: Annotated[
        str | None, typer.Option("--status", help="Only this status, for example failed.")
    ] = None,
    key: Annotated[str | None, typer.Option("--key", help="Only this key.")] = None,
    lane: Annotated[str | None, typer.Option("--lane", help="Only this lane.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="At most this many.")] = 20,
    before: Annotated[
        int | None, typer.Option("--before", help="Older than this id: the next page.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List tasks, newest first."""
    loaded = _load(app)
    wanted = TaskFilter(kind=kind, status=parse_status(status), key=key, lane=lane, before=before)
    found = operate.listing(loaded.fleet, wanted, limit=limit)
    warn_missing(found.missing)
    if as_json:
        print_json(plain(found, without=("batch",)))
        return
    if not found:
        say("No task matches. A success without a key or a result is not kept.")
        return
    now = loaded.clock.now()
    columns = ("id", "kind", "key", "status", "attempts", "due", "remark")
    shown = table(*columns, right=("id", "attempts"), wrap=("remark",))
    for task in found:
        how = Text((task.remark or "").splitlines()[0] if task.remark else "")
        shown.add_row(
            str(task.id),
            task.kind,
            task.key or "-",
            status_text(task.status),
            str(task.attempt),
            when(task.due_at, now=now),
            how if task.progress is None else Text(_progress(task.progress)),
        )
    console.print(shown)
    if len(found) == limit:
        console.print(Text(f"more: --before {found[-1].id}", style="bright_black"))


@cli.command()
def show(
    task_id: IdArgument,
    app: AppOption = None,
    logs: Annotated[
        bool, typer.Option("--logs", help="Also what its runs logged, if its kind keeps that.")
    ] = False,
    search: Annotated[
        str | None, typer.Option("--search", help="Only log lines that contain this text.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show one task with its arguments, its result and its last errors."""
    loaded = _load(app)
    detail = operate.show(loaded.fleet, loaded.registry, task_id)
    warn_missing(detail.missing)
    told = operate.logs_of(loaded.fleet, task_id, search=search).runs if logs or search else None
    if as_json:
        task = plain(detail.task, without=("batch", "is_rolling", "can_retry", "can_cancel"))
        task |= plain(detail, without=("task", "flow"))
        print_json(task if told is None else task | {"logs": plain(told)})
        return
    shard_name = None if loaded.fleet.single is not None else detail.shard
    console.print(_facts(detail.task, now=loaded.clock.now(), shard=shard_name))
    for failure in detail.failures:
        title = f"attempt {failure.attempt}, {timestamp(failure.failed_at)}"
        console.print(
            Panel(Text(failure.trace.rstrip()), title=title, title_align="left", style="red")
        )
    if told is not None:
        _print_logs(told)


@cli.command()
def retry(
    ids: IdsArgument = None,
    app: AppOption = None,
    kind: KindOption = None,
    status: StatusOption = None,
    since: SinceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Let failed or cancelled tasks run again: by their ids, or all that match."""
    loaded = _load(app)
    if ids is not None and _one_way(ids, kind, status, since):
        for number in ids:
            with audit_log(loaded).record(Action.TASK_RETRY, str(number)) as entry:
                message = entry.says(operate.must_retry(loaded.fleet, number))
            _say_one(ids, number, "waiting", message, as_json=as_json)
        _say_all(ids, "waiting", as_json=as_json)
        return
    wanted = _matching(loaded, kind, since, _status(status, Status.FAILED), RETRIED)
    with audit_log(loaded).record(Action.TASK_RETRY, kind, **_told(wanted)) as entry:
        changed = _all_pages(lambda after: operate.retry_many(loaded.fleet, wanted, after=after))
        message = entry.says(f"{counted(changed, 'task')} will run again")
    report(message, {"changed": changed}, as_json=as_json)


@cli.command()
def cancel(
    ids: IdsArgument = None,
    app: AppOption = None,
    kind: KindOption = None,
    status: StatusOption = None,
    since: SinceOption = None,
    reason: Annotated[
        str, typer.Option("--reason", help="Why, for the people who read it later.")
    ] = "",
    as_json: JsonOption = False,
) -> None:
    """End tasks that have not ended: by their ids, or all that match."""
    loaded = _load(app)
    if ids is not None and _one_way(ids, kind, status, since):
        for number in ids:
            with audit_log(loaded).record(Action.TASK_CANCEL, str(number), reason=reason) as entry:
                message = operate.must_cancel(loaded.fleet, loaded.registry, number, reason=reason)
                entry.says(message)
            _say_one(ids, number, "cancelled", message, as_json=as_json)
        _say_all(ids, "cancelled", as_json=as_json)
        return
    wanted = _matching(loaded, kind, since, _status(status, Status.WAITING), CANCELLED)
    told = _told(wanted)
    with audit_log(loaded).record(Action.TASK_CANCEL, kind, reason=reason, **told) as entry:
        changed = _all_pages(
            lambda after: operate.cancel_many(
                loaded.fleet, loaded.registry, wanted, after=after, reason=reason
            )
        )
        verb = "is" if changed == 1 else "are"
        message = entry.says(f"{counted(changed, 'task')} {verb} cancelled")
    report(message, {"changed": changed}, as_json=as_json)


def _one_way(ids: list[int], *filters: str | None) -> bool:
    """Whether tasks are given by their ids; ids and filters together are refused."""
    if ids and any(each is not None for each in filters):
        refuse("give either ids, or --kind, --status and --since")
    return bool(ids)


def _matching(
    loaded: App,
    kind: str | None,
    since: str | None,
    status: Status,
    allowed: tuple[Status, ...],
) -> TaskFilter:
    """The tasks that the options name; without --kind and --since it would be all of them."""
    if kind is None and since is None:
        refuse("which tasks? give their ids, or --kind, or --since, such as --since 2h")
    if status not in allowed:
        refuse(f"--status {status} is not one of {', '.join(map(str, allowed))}")
    after = None
    if since is not None:
        after = loaded.clock.now() - parse_duration(since, what="--since")
    return TaskFilter(kind=kind, status=status, created_after=after)


def _status(given: str | None, otherwise: Status) -> Status:
    found = parse_status(given)
    return otherwise if found is None else found


def _told(wanted: TaskFilter) -> dict[str, object]:
    since = None if wanted.created_after is None else timestamp(wanted.created_after)
    return {"status": str(wanted.status), "created_after": since}


def _all_pages(act: Callable[[str | None], operate.Bulk]) -> int:
    """Act on all pages; how many tasks changed."""
    after, changed = None, 0
    while True:
        done = act(after)
        changed, after = changed + done.changed, done.next
        if after is None:
            return changed


def _say_one(ids: list[int], number: int, status: str, message: str, *, as_json: bool) -> None:
    if len(ids) == 1 or not as_json:
        report(message, {"id": number, "status": status}, as_json=as_json)


def _say_all(ids: list[int], status: str, *, as_json: bool) -> None:
    if as_json and len(ids) > 1:
        print_json([{"id": number, "status": status} for number in ids])


@cli.command()
def enqueue(
    kind: Annotated[str, typer.Argument(metavar="KIND", help="The kind to enqueue.")],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME=VALUE", help="Its arguments, or one JSON object."),
    ] = None,
    app: AppOption = None,
    key: Annotated[str | None, typer.Option("--key", help="A key, unique in the kind.")] = None,
    delay: Annotated[str | None, typer.Option("--delay", help="Start later, as 5m.")] = None,
    priority: Annotated[
        int | None, typer.Option("--priority", help="Higher runs first; default: the kind's own.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Enqueue a task."""
    loaded = _load(app)
    declared = loaded.registry.get(kind)
    if declared.period is not None:
        refuse(
            f"kind {kind!r} is rolling: its items are not enqueued; use windlass rolling add",
            code=1,
        )
    values = values_of(arguments or [], declared.arguments.types)
    if not isinstance(values, dict):
        refuse('the arguments must be an object such as {"to": "a@b.c"}, or to=a@b.c, not a list')
    wait = None if delay is None else parse_duration(delay, what="--delay", zero=True)
    call, how = operate.call(kind, values, key=key, delay=wait, priority=priority)
    with audit_log(loaded).record(Action.TASK_ENQUEUE, kind, key=key, delay=delay) as entry:
        ref = loaded.submit(declared, [call], how)[0]
        message = entry.says(
            f"enqueued task {ref.id}"
            if ref.created
            else f"{kind} with key {key} was already enqueued as task {ref.id}"
        )
    report(message, {"id": ref.id, "created": ref.created}, as_json=as_json)


def _print_logs(runs: list[RunLogView]) -> None:
    if not runs:
        say("No log: nothing was logged or matches, or its kind does not keep logs (logs=...).")
    # Oldest first, as a log is read.
    for run in reversed(runs):
        dropped = f", {run.dropped} older records dropped" if run.dropped else ""
        title = f"log of attempt {run.attempt}, {timestamp(run.ended_at)}{dropped}"
        lines = [
            f"{timestamp(line.at)} {line.level:7} {line.logger}: {line.text}" for line in run.lines
        ]
        console.print(Panel(Text("\n".join(lines)), title=title, title_align="left"))


def _progress(found: ProgressView) -> str:
    """How far a task is, as in "30% (300 of 1,000): writing pages"."""
    shown = f"{found.done:,}"
    if found.percent is not None:
        shown = f"{found.percent:.0f}% ({found.done:,} of {found.total:,})"
    return shown if found.note is None else f"{shown}: {visible(found.note)}"


def _facts(task: operate.TaskFull, *, now: int, shard: str | None) -> Table:
    shown = table("task", str(task.id), wrap=(str(task.id),))
    shown.add_row("kind", Text(task.kind, style="bold"))
    shown.add_row("status", status_text(task.status))
    rows = {
        "progress": None if task.progress is None else _progress(task.progress),
        "key": task.key,
        "lane": task.lane,
        "arguments": task.payload,
        "result": task.result,
        "remark": task.remark,
        "attempts": f"{task.attempt}" + (f" ({task.lost} lost)" if task.lost else ""),
        "priority": str(task.priority) if task.priority else None,
        "last ended": None if task.last_status is None else str(task.last_status),
        "due": None if task.due_at is None else moment_text(task.due_at, now=now),
        "created": moment_text(task.created_at, now=now),
        "started": None if task.started_at is None else moment_text(task.started_at, now=now),
        "finished": None if task.finished_at is None else moment_text(task.finished_at, now=now),
        "carried by": None if task.via is None else f"queue {task.via}",
        "runs in": None if task.isolate is None else f"its own {task.isolate}",
        "worker": None if task.worker is None else str(task.worker),
        "shard": shard,
    }
    for name, value in rows.items():
        if value is not None:
            shown.add_row(name, Text(value))
    return shown


def _load(app: str | None) -> App:
    loaded = load_app(app)
    loaded.prepare()
    return loaded
