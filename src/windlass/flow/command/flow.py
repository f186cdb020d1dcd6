"""The command `windlass flow`: list, show, start, retry, skip, cancel, import, export."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from windlass.app import App
from windlass.cli.commands import values_of
from windlass.cli.load import AppOption, JsonOption, audit_log, load_app
from windlass.cli.output import (
    COLOURS,
    check_watch,
    complain,
    console,
    counted,
    iso,
    parse_status,
    plain,
    print_json,
    redraw,
    report,
    say,
    status_text,
    table,
    timestamp,
    visible,
    warn_missing,
    when,
)
from windlass.errors import NotPossible
from windlass.flow.command.picture import draw
from windlass.flow.model.run import FlowProgress
from windlass.flow.operate.run import FlowRun
from windlass.flow.operate.view import FlowRunView
from windlass.value.duration import format_duration
from windlass.view.action import LONGEST_TOLD, Action

BAR = 30
FORMATS = ("mermaid", "dot", "json")

cli = typer.Typer()

RunArgument = Annotated[int, typer.Argument(metavar="RUN", help="The id of the run.")]
ArgumentsArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="NAME=VALUE", help="Its arguments, or one JSON object or list."),
]
NodeOption = Annotated[str | None, typer.Option("--node", help="Only this node.")]


@cli.command("list")
def list_runs(
    app: AppOption = None,
    flow: Annotated[str | None, typer.Option("--flow", help="Only runs of this flow.")] = None,
    status: Annotated[str | None, typer.Option("--status", help="Only runs in this state.")] = None,
    limit: Annotated[int, typer.Option("--limit", help="How many at most.")] = 50,
    as_json: JsonOption = False,
) -> None:
    """List the flows and templates that can be started, then the runs, newest first."""
    loaded = load_app(app)
    found = loaded.flows.runs(kind=flow, status=parse_status(status), limit=limit)
    warn_missing(found.missing)
    if as_json:
        print_json([_run_json(run) for run in found])
        return
    templates = [f"{row.name} (version {row.version})" for row in loaded.flow_template.listing()]
    say(f"flows: {', '.join([*loaded.flow.names, *templates]) or 'none'}")
    if not found:
        say("No run matches; windlass flow start FLOW starts one.")
        return
    now = loaded.clock.now()
    is_wide = console.width >= 60
    more = ("key", "left", "started", "why") if is_wide else ()
    listed = table("run", "flow", "status", "took", *more, cut=("why",) if is_wide else ())
    for run in found:
        name, status_cell = Text(run.flow, style="bold"), status_text(run.status)
        took = _took(run.created_at, run.finished_at, now)
        cells: list[str | Text] = [str(run.id), name, status_cell, took]
        if is_wide:
            cells += [Text(visible(run.key or "-")), f"{run.left:,}"]
            cells += [when(run.created_at, now=now), Text(visible(run.error or ""))]
        listed.add_row(*cells)
    console.print(listed)


@cli.command()
def show(
    run: RunArgument,
    app: AppOption = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Draw it again until it ends, or until Ctrl-C.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Draw a run: its nodes with status and duration, below the nodes that they wait for."""
    check_watch(watch, as_json=as_json)
    loaded = load_app(app)
    found = loaded.flows.ref(run)
    if watch:
        _watch(loaded, found)
    elif as_json:
        print_json(_detail_json(loaded, found))
    else:
        console.print(_picture(loaded, found))


@cli.command()
def start(
    flow: Annotated[str, typer.Argument(metavar="FLOW", help="A declared flow or a template.")],
    arguments: ArgumentsArgument = None,
    key: Annotated[str | None, typer.Option("--key", help="Start it once under this key.")] = None,
    app: AppOption = None,
    as_json: JsonOption = False,
) -> None:
    """Start a flow or a template."""
    loaded = load_app(app)
    args, kwargs = _arguments(loaded, flow, arguments)
    told = " ".join(arguments or ["{}"])[:LONGEST_TOLD]
    with audit_log(loaded).record(Action.FLOW_START, flow, arguments=told, key=key) as entry:
        handle: Any = loaded.flow_template.flow(flow)
        started = (handle if key is None else handle.using(key=key)).start(*args, **kwargs)
        message = entry.says(
            f"run {started.id} of {flow} is started"
            if started.created
            else f"{flow} with key {key} was already started as run {started.id}"
        )
    report(message, {"id": started.id, "created": started.created}, as_json=as_json)


@cli.command()
def retry(
    run: RunArgument, node: NodeOption = None, app: AppOption = None, as_json: JsonOption = False
) -> None:
    """Run the failed nodes of a run again, or one of them."""
    loaded = load_app(app)
    with audit_log(loaded).record(Action.FLOW_RETRY, str(run), node=node) as entry:
        count = loaded.flows.ref(run).retry(node)
        begin = "begins" if count == 1 else "begin"
        entry.says(f"{counted(count, 'node')} of run {run} {begin} again")
        if not count:
            entry.says(f"nothing to retry: no node of run {run} has failed")
    if count or as_json:
        report(entry.outcome, {"nodes": count}, as_json=as_json)
    else:
        say(entry.outcome)


@cli.command()
def skip(
    run: RunArgument,
    node: Annotated[str, typer.Argument(metavar="NODE", help="The node.")],
    app: AppOption = None,
    as_json: JsonOption = False,
) -> None:
    """Count a node as succeeded, and continue."""
    loaded = load_app(app)
    with audit_log(loaded).record(Action.FLOW_SKIP, str(run), node=node) as entry:
        loaded.flows.ref(run).skip(node)
        message = entry.says(f"{node} of run {run} counts as succeeded")
    report(message, {"node": node}, as_json=as_json)


@cli.command()
def cancel(
    run: RunArgument,
    reason: Annotated[str, typer.Option("--reason", help="Why.")] = "",
    app: AppOption = None,
    as_json: JsonOption = False,
) -> None:
    """End a run; exit code 1 if it had ended."""
    loaded = load_app(app)
    with audit_log(loaded).record(Action.FLOW_CANCEL, str(run), reason=reason) as entry:
        if not loaded.flows.ref(run).cancel(reason):
            raise NotPossible(f"run {run} has ended; there is nothing to cancel")
        message = entry.says(f"run {run} is cancelled")
    report(message, {"cancelled": True}, as_json=as_json)


@cli.command("import")
def import_template(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the template.")],
    file: Annotated[
        typer.FileText, typer.Argument(metavar="FILE", help="Its JSON; - is standard input.")
    ],
    app: AppOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check a template, and save it as a new version if it has changed."""
    loaded = load_app(app)
    with audit_log(loaded).record(Action.TEMPLATE_SAVE, name, file=file.name) as entry:
        loaded.flow_template(name, file.read())
        version = loaded.flow_template.row(name).version
        message = entry.says(f"{name} is saved as version {version}")
    report(message, {"name": name, "version": version}, as_json=as_json)


@cli.command()
def export(
    what: Annotated[str, typer.Argument(metavar="WHAT", help="A run, a flow or a template.")],
    arguments: ArgumentsArgument = None,
    form: Annotated[str, typer.Option("--format", help="mermaid, dot or json.")] = "mermaid",
    app: AppOption = None,
) -> None:
    """Print the graph of a run, a template, or a flow with these arguments."""
    if form not in FORMATS:
        complain(f"--format {form} is not one of {', '.join(FORMATS)}")
        raise typer.Exit(2)
    loaded = load_app(app)
    args, kwargs = _arguments(loaded, what, arguments)
    is_flow = what in loaded.flow.names
    if (args or kwargs) and not is_flow:
        complain("only a declared flow is drawn with arguments; leave JSON out")
        raise typer.Exit(2)
    if is_flow:
        handle: Any = loaded.flow.get(what)
        graph = handle.graph(*args, **kwargs)
    elif what.isdecimal():
        graph = loaded.flows.ref(int(what)).graph()
    elif form == "json":
        print_json(loaded.flow_template.row(what).spec)
        return
    else:
        graph = loaded.flow_template.graph(loaded.flow_template.row(what))
    if form == "json":
        print_json(graph.json())
    else:
        sys.stdout.write(graph.mermaid() if form == "mermaid" else graph.dot())


def _arguments(loaded: App, flow: str, given: list[str] | None) -> tuple[list[Any], dict[str, Any]]:
    kind = loaded.registry.kinds.get(flow)
    found = values_of(given or [], {} if kind is None else kind.arguments.types)
    return (found, {}) if isinstance(found, list) else ([], found)


def _watch(loaded: App, run: FlowRun) -> None:
    is_over = False

    def draw_run() -> RenderableType:
        nonlocal is_over
        # Before the picture, so that the last picture shows the end.
        is_over = run.status().is_final
        return _picture(loaded, run)

    redraw(draw_run, until=lambda: is_over)


def _picture(loaded: App, run: FlowRun) -> RenderableType:
    view, progress = loaded.flows.run(run.id), run.progress()
    now = loaded.clock.now()
    head = table("run", str(run.id), wrap=(str(run.id),))
    head.add_row("flow", Text(view.flow, style="bold"))
    head.add_row("status", status_text(view.status))
    head.add_row("progress", _bar(progress))
    head.add_row("nodes", _counts(progress))
    head.add_row("started", f"{timestamp(view.created_at)} ({when(view.created_at, now=now)})")
    head.add_row("took", _took(view.created_at, view.finished_at, now))
    if view.error:
        head.add_row("why", Text(visible(view.error), style="red"))
    nodes, graph = run.nodes(results=False), run.graph(arguments=False)
    return Group(head, Text(), *draw(graph, nodes, now))


def _bar(progress: FlowProgress) -> Text:
    filled = int(BAR * progress.percent / 100)
    bar = Text("█" * filled, style="green") + Text("░" * (BAR - filled), style="bright_black")
    return bar + Text(f" {progress.percent:.1f} %")


def _counts(progress: FlowProgress) -> Text:
    parts = [
        Text(f"{count:,} {status}", style=COLOURS[status])
        for status, count in sorted(progress.counts.items())
    ]
    return Text(f"{progress.total:,}: ") + Text(", ").join(parts)


def _took(begin: int | None, end: int | None, now: int) -> str:
    return "-" if begin is None else format_duration(max(0, (end or now) - begin))


def _run_json(run: FlowRunView) -> dict[str, object]:
    return {
        **plain(run, without=("nodes", "template", "created_at")),
        "arguments": run.arguments,
        "started_at": iso(run.created_at),
    }


def _detail_json(loaded: App, run: FlowRun) -> dict[str, object]:
    progress = run.progress()
    return {
        **_run_json(loaded.flows.run(run.id)),
        "progress": {"total": progress.total, "percent": progress.percent}
        | {str(status): count for status, count in progress.counts.items()},
        "nodes": plain(run.nodes()),
        "edges": run.graph().json()["edges"],
    }
