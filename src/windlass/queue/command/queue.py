"""`windlass queue list|show|failed|retry|drop`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer
from rich.text import Text

from windlass.app import App
from windlass.cli.load import AppOption, JsonOption, audit_log, load_app
from windlass.cli.output import (
    console,
    count_text,
    counted,
    moment_text,
    plain,
    print_json,
    refuse,
    report,
    say,
    table,
    visible,
    when,
)
from windlass.queue.operate import operate
from windlass.queue.operate.operate import QueueView
from windlass.value.rate import rate_text
from windlass.view.action import Action

NUMBERS = ("in", "retrying", "failed", "out", "waiting", "unsent")
LONGEST_BODY = 200

cli = typer.Typer()

QueueArgument = Annotated[
    str, typer.Argument(metavar="QUEUE", help="The queue, or the kind that consumes it.")
]
IdOption = Annotated[
    list[int] | None,
    typer.Option("--id", help="Only the message with this id; may be repeated."),
]


@cli.command("list")
def list_queues(app: AppOption = None, as_json: JsonOption = False) -> None:
    """List queues: what comes in, what goes out, and what failed."""
    loaded = _load(app)
    found = operate.listing(loaded.fleet, loaded.registry)
    if as_json:
        print_json(plain(list(found)))
        return
    if not found:
        say("No queue is used; consume one with @app.consume, or send to one with app.publish.")
        return
    now = loaded.clock.now()
    listed = table(
        "queue", "consumers", "carries", *NUMBERS, "oldest", "state", right=NUMBERS, wrap=("state",)
    )
    for each in found:
        listed.add_row(
            Text(visible(each.name), style="bold"),
            ", ".join(each.kinds) or "-",
            ", ".join(each.carries) or "-",
            _rate(each.received_per_second),
            count_text(each.retrying),
            _bad(each.failed),
            _rate(each.sent_per_second),
            count_text(each.waiting),
            _bad(each.unsent),
            when(each.oldest_at, now=now),
            _state(each),
        )
    console.print(listed)


@cli.command()
def show(queue: QueueArgument, app: AppOption = None, as_json: JsonOption = False) -> None:
    """Show one queue, and ask its broker how many messages wait there."""
    loaded = _load(app)
    found = operate.show(loaded.fleet, loaded.registry, queue)
    if as_json:
        print_json(plain(found))
        return
    now = loaded.clock.now()
    listed = table("queue", found.name, wrap=(found.name,))
    listed.add_row("broker", found.address + ("" if found.is_tested else " (not tested)"))
    depth = "-" if found.depth is None else f"{found.depth:,}"
    listed.add_row("at the broker", depth)
    listed.add_row("consumers", ", ".join(found.kinds) or "-")
    if found.carries:
        listed.add_row("carries", ", ".join(found.carries))
    listed.add_row("in", _rate(found.received_per_second))
    listed.add_row("tried again", count_text(found.retrying))
    listed.add_row("failed", _bad(found.failed))
    listed.add_row("out", _rate(found.sent_per_second))
    listed.add_row("waiting", count_text(found.waiting))
    listed.add_row("unsent", _bad(found.unsent))
    if found.oldest_at is not None:
        listed.add_row("oldest", moment_text(found.oldest_at, now=now))
    if found.answered_at is not None:
        listed.add_row("last answer", moment_text(found.answered_at, now=now))
    problem = found.problem or found.error
    if problem is not None:
        listed.add_row("error", Text(problem, style="red"))
    console.print(listed)


@cli.command()
def failed(
    queue: QueueArgument,
    app: AppOption = None,
    limit: Annotated[int, typer.Option("--limit", help="How many at most.")] = 100,
    as_json: JsonOption = False,
) -> None:
    """List failed messages with their bodies, newest first."""
    loaded = _load(app)
    found = operate.failed(loaded.fleet, loaded.registry, queue, limit=limit)
    if as_json:
        print_json(plain(list(found)))
        return
    if not found:
        say(f"{queue} has no failed messages.")
        return
    now = loaded.clock.now()
    listed = table("id", "message", "failed", "tries", "body", "error", wrap=("body", "error"))
    for each in found:
        body = f"({len(each.body):,} characters of base64)" if each.is_binary else each.body
        if each.is_cut:
            body = f"(only the beginning) {body}"
        listed.add_row(
            str(each.id),
            Text(visible(each.message_id)),
            when(each.failed_at, now=now),
            f"{each.tries:,}",
            Text(visible(body[:LONGEST_BODY])),
            Text(visible(each.error or ""), style="red"),
        )
    console.print(listed)


@cli.command()
def retry(
    queue: QueueArgument,
    app: AppOption = None,
    message: IdOption = None,
    as_json: JsonOption = False,
) -> None:
    """Try failed messages again: all, or those with these ids."""
    _change(
        app,
        queue,
        message,
        Action.QUEUE_RETRY,
        operate.retry,
        ("retried", "are tried again"),
        as_json,
    )


@cli.command()
def drop(
    queue: QueueArgument,
    app: AppOption = None,
    message: IdOption = None,
    everything: Annotated[bool, typer.Option("--all", help="All failed messages.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Delete failed messages: those with these ids, or all."""
    if not message and not everything:
        refuse("name the messages with --id, or give --all; windlass queue failed lists them")
    _change(
        app, queue, message, Action.QUEUE_DROP, operate.drop, ("dropped", "were deleted"), as_json
    )


def _change(
    app: str | None,
    queue: str,
    ids: list[int] | None,
    action: Action,
    change: Callable[..., int],
    words: tuple[str, str],
    as_json: bool,
) -> None:
    loaded = _load(app)
    with audit_log(loaded).record(action, queue, messages=ids) as entry:
        count = change(loaded.fleet, loaded.registry, queue, ids or None)
        text = entry.says(f"{counted(count, 'message')} of {queue} {words[1]}")
    report(text, {words[0]: count}, as_json=as_json)


def _load(app: str | None) -> App:
    loaded = load_app(app)
    loaded.prepare()
    return loaded


def _rate(per_second: float) -> str:
    return rate_text(per_second) if per_second else "-"


def _bad(count: int) -> Text:
    return Text(count_text(count), style="red" if count else "")


def _state(view: QueueView) -> Text:
    if view.error is not None:
        return Text(view.error, style="red")
    return Text("ok" if view.answered_at is not None else "-")
