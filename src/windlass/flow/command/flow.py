"""`windlass flow list|show|start|retry|skip|cancel|import|export`, and `windlass callback`."""

from __future__ import annotations

import signal
import sys
import time
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from windlass.app import App
from windlass.cli.audit import audit_log
from windlass.cli.load import AppArgument, AppOption, JsonOption, load_app
from windlass.cli.output import (
    COLOURS,
    check_watch,
    complain,
    console,
    counted,
    done,
    iso,
    parse_json,
    print_json,
    say,
    status_text,
    table,
    timestamp,
    visible,
    warn_missing,
    when,
)
from windlass.errors import DatabaseUnavailable, NotPossible
from windlass.flow.command.picture import draw
from windlass.flow.declare import FlowRun
from windlass.flow.model.node import arguments_of, head_of
from windlass.flow.model.run import FlowProgress
from windlass.flow.store.flow import RunRow
from windlass.value.duration import format_duration
from windlass.value.status import Status
from windlass.watch.audit.model import Action
from windlass.watch.audit.operate import LONGEST_TOLD

REDRAW_SECONDS = 0.5
BAR = 30
FORMATS = ("mermaid", "dot", "json")

cli = typer.Typer(help="Look at flows and their runs, start them, and have them go on.")

RunArgument = Annotated[int, typer.Argument(metavar="RUN", help="The id of the run.")]
ArgumentsArgument = Annotated[
    str | None, typer.Argument(metavar="JSON", help="Its arguments: an object or a list.")
]
NodeOption = Annotated[str | None, typer.Option("--node", help="Only this node.")]


def register(root: typer.Typer) -> None:
    """Add `windlass callback`."""
    root.command()(callback)


@cli.command("list")
def list_runs(
    app: AppOption = None,
    flow: Annotated[str | None, typer.Option("--flow", help="Only runs of this flow.")] = None,
    status: Annotated[str | None, typer.Option("--status", help="Only runs in this state.")] = None,
    limit: Annotated[int, typer.Option("--limit", help="How many at most.")] = 50,
    as_json: JsonOption = False,
) -> None:
    """List runs, newest first, after the flows and templates that can be started."""
    loaded = load_app(app)
    found = loaded.flows.runs(kind=flow, status=_status(status), limit=limit)
    warn_missing(found.missing)
    if as_json:
        print_json([_run_for_programs(run) for run in found])
        return
    templates = [f"{row.name} (version {row.version})" for row in loaded.flow_template.listing()]
    say(f"flows: {', '.join([*loaded.flow.names, *templates]) or 'none'}")
    if not found:
        say("No run was started yet; windlass flow start FLOW starts one.")
        return
    now = loaded.clock.now()
    # On a narrow terminal, what tells one run from another.
    is_wide = console.width >= 60
    more = ("key", "left", "started", "why") if is_wide else ()
    listed = table("run", "flow", "status", "took", *more, cut=("why",) if is_wide else ())
    for run in found:
        cells: list[str | Text] = [
            str(run.id),
            Text(run.kind, style="bold"),
            status_text(run.status),
        ]
        cells.append(_took(run.created_at, run.finished_at, now))
        if is_wide:
            cells += [Text(visible(run.key or "-")), f"{run.left:,}"]
            cells += [when(run.created_at, now=now), Text(visible(run.remark or ""))]
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
    """Draw a run: its nodes with their states and durations, below what they wait for."""
    check_watch(watch, as_json=as_json)
    loaded = load_app(app)
    found = loaded.flows.ref(run)
    if watch:
        _watch(loaded, found)
    elif as_json:
        print_json(_for_programs(loaded, found))
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
    args, kwargs = _arguments(arguments)
    told = (arguments or "{}")[:LONGEST_TOLD]
    with audit_log(loaded).record(Action.FLOW_START, flow, arguments=told, key=key) as entry:
        handle: Any = loaded.flow_template.flow(flow)
        started = (handle if key is None else handle.using(key=key)).start(*args, **kwargs)
        message = entry.says(f"run {started.id} of {flow} is started")
    _report(as_json, {"id": started.id}, message)


@cli.command()
def retry(
    run: RunArgument, node: NodeOption = None, app: AppOption = None, as_json: JsonOption = False
) -> None:
    """Have the failed nodes of a run, or one of them, run again."""
    loaded = load_app(app)
    with audit_log(loaded).record(Action.FLOW_RETRY, str(run), node=node) as entry:
        count = loaded.flows.retry(run, node)
        begin = "begins" if count == 1 else "begin"
        entry.says(f"{counted(count, 'node')} of run {run} {begin} again")
        if not count:
            entry.says(f"nothing to retry: no node of run {run} has failed")
    if count or as_json:
        _report(as_json, {"nodes": count}, entry.outcome)
    else:
        say(entry.outcome)


@cli.command()
def skip(
    run: RunArgument,
    node: Annotated[str, typer.Argument(metavar="NODE", help="The node.")],
    app: AppOption = None,
    as_json: JsonOption = False,
) -> None:
    """Count a node as succeeded, and go on."""
    loaded = load_app(app)
    with audit_log(loaded).record(Action.FLOW_SKIP, str(run), node=node) as entry:
        loaded.flows.skip(run, node)
        message = entry.says(f"{node} of run {run} counts as succeeded")
    _report(as_json, {"node": node}, message)


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
        if not loaded.flows.cancel(run, reason):
            raise NotPossible(f"run {run} has ended; there is nothing to cancel")
        message = entry.says(f"run {run} is cancelled")
    _report(as_json, {"cancelled": True}, message)


@cli.command("import")
def import_template(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the template.")],
    file: Annotated[str, typer.Argument(metavar="FILE", help="Its JSON; - is standard input.")],
    app: AppOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check a template, and save it as a new version if it has changed."""
    loaded = load_app(app)
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text()
    except OSError as problem:
        complain(f"{file}: {problem.strerror}")
        raise typer.Exit(2) from None
    with audit_log(loaded).record(Action.TEMPLATE_SAVE, name, file=file) as entry:
        loaded.flow_template(name, text)
        version = loaded.flow_template.row(name).version
        message = entry.says(f"{name} is saved as version {version}")
    _report(as_json, {"name": name, "version": version}, message)


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
    args, kwargs = _arguments(arguments)
    is_flow = what in loaded.flow.names
    if (args or kwargs) and not is_flow:
        complain("only a declared flow is drawn with arguments; leave JSON out")
        raise typer.Exit(2)
    if is_flow:
        handle: Any = loaded.flow.get(what)
        graph = handle.graph(*args, **kwargs)
    elif what.isdecimal():
        graph = loaded.flows.graph(int(what))
    elif form == "json":
        print_json(parse_json(loaded.flow_template.known(what).spec, what))
        return
    else:
        graph = loaded.flow_template.graph(loaded.flow_template.known(what))
    if form == "json":
        print_json(graph.json())
    else:
        sys.stdout.write(graph.mermaid() if form == "mermaid" else graph.dot())


def callback(
    app: AppArgument,
    host: Annotated[str, typer.Option("--host", help="Where to listen.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", help="On which port.")] = 8765,
) -> None:
    """Hear from external systems over HTTP how their tasks ended, until Ctrl-C."""
    from windlass.external.route.server import make_server

    loaded = load_app(app)
    loaded.prepare()
    server = make_server(loaded, host, port)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    say(f"listening on http://{host}:{server.server_address[1]}/callback/...")
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        server.server_close()


def _arguments(given: str | None) -> tuple[list[Any], dict[str, Any]]:
    found = {} if given is None else parse_json(given, "JSON")
    if isinstance(found, list):
        return found, {}
    if not isinstance(found, dict):
        complain("JSON is neither an object nor a list of arguments")
        raise typer.Exit(2)
    return [], found


def _watch(loaded: App, run: FlowRun) -> None:
    """Draw until the run ends or Ctrl-C, on a screen of its own; the last picture stays."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    drawn: RenderableType = _picture(loaded, run)
    try:
        with Live(console=console, screen=True, auto_refresh=False) as live:
            while True:
                live.update(drawn, refresh=True)
                if run.status().is_final:
                    break
                time.sleep(REDRAW_SECONDS)
                try:
                    drawn = _picture(loaded, run)
                except DatabaseUnavailable as away:
                    drawn = Group(Text(str(away), style="red"), drawn)
    except KeyboardInterrupt:
        pass
    console.print(_picture(loaded, run))


def _picture(loaded: App, run: FlowRun) -> RenderableType:
    row, progress = loaded.flows.run(run.id), run.progress()
    now = loaded.clock.now()
    head = table("run", str(run.id), wrap=(str(run.id),))
    head.add_row("flow", Text(row.kind, style="bold"))
    head.add_row("status", status_text(row.status))
    head.add_row("progress", _bar(progress))
    head.add_row("nodes", _counts(progress))
    head.add_row("started", f"{timestamp(row.created_at)} ({when(row.created_at, now=now)})")
    head.add_row("took", _took(row.created_at, row.finished_at, now))
    if row.remark:
        head.add_row("why", Text(visible(row.remark), style="red"))
    nodes = loaded.flows.nodes(run.id, results=False)
    graph = loaded.flows.graph(run.id, arguments=False)
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


def _status(name: str | None) -> Status | None:
    if name is None:
        return None
    try:
        return Status.named(name)
    except KeyError:
        known = ", ".join(str(status) for status in Status)
        complain(f"--status {name} is not one of {known}")
        raise typer.Exit(2) from None


def _run_for_programs(run: RunRow) -> dict[str, object]:
    head = head_of(run.payload)
    return {
        "id": run.id,
        "flow": run.kind,
        "key": run.key,
        "status": str(run.status),
        "left": run.left,
        "arguments": arguments_of(run.payload),
        "version": None if head is None else head.version,
        "started_at": iso(run.created_at),
        "finished_at": iso(run.finished_at),
        "error": run.remark,
    }


def _for_programs(loaded: App, run: FlowRun) -> dict[str, object]:
    progress = run.progress()
    return {
        **_run_for_programs(loaded.flows.run(run.id)),
        "progress": {"total": progress.total, "percent": progress.percent}
        | {str(status): count for status, count in progress.counts.items()},
        "nodes": [
            {
                **{each.name: getattr(node, each.name) for each in fields(node)},
                "status": str(node.status),
                "due_at": iso(node.due_at),
                "started_at": iso(node.started_at),
                "finished_at": iso(node.finished_at),
            }
            for node in run.nodes()
        ],
        "edges": run.graph().json()["edges"],
    }


def _report(as_json: bool, facts: dict[str, object], message: str) -> None:
    if as_json:
        print_json(facts)
    else:
        done(message)
