"""`windlass worker`: run tasks."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer
from rich.console import Console

from windlass.cli.early import end_quietly
from windlass.cli.load import AppArgument, load_app
from windlass.cli.log import LiveLine, Shown, set_up_logs
from windlass.cli.output import complain, count_text
from windlass.cli.supervise import Pulses, Supervisor
from windlass.fork import CHILD

if TYPE_CHECKING:
    from windlass.app import AnyWorker, App

ProcessesOption = Annotated[
    int, typer.Option("--processes", min=1, max=256, help="How many worker processes.")
]
ConcurrencyOption = Annotated[
    int | None,
    typer.Option("--concurrency", min=1, max=10_000, help="Tasks at a time in each process."),
]
KindOption = Annotated[
    list[str] | None, typer.Option("--kind", help="Run only this kind; repeatable.")
]
GraceOption = Annotated[
    str | None,
    typer.Option("--grace", help="How long SIGTERM waits for running tasks, such as 30s."),
]
ShardOption = Annotated[
    list[str] | None,
    typer.Option("--shard", help="Use only this shard: its number or database; repeatable."),
]
LogOption = Annotated[bool, typer.Option("--json", help="Log JSON lines.")]


def register(cli: typer.Typer) -> None:
    cli.command()(worker)


def worker(
    app: AppArgument,
    processes: ProcessesOption = 1,
    concurrency: ConcurrencyOption = None,
    kind: KindOption = None,
    shard: ShardOption = None,
    grace: GraceOption = None,
    once: Annotated[bool, typer.Option("--once", help="Run what is due, then exit.")] = False,
    as_json: LogOption = False,
) -> None:
    """Run tasks until SIGTERM, then finish the running ones; a second SIGTERM stops at once."""
    end_quietly()
    loaded = load_app(app)
    if grace is not None:
        loaded.set_grace(grace)
    loaded.registry.chosen(kind or [])
    for name in shard or []:
        loaded.fleet.named(name)
    loaded.prepare()
    if once and processes > 1:
        complain("--once runs in this process alone; leave --processes out")
        raise typer.Exit(2)
    if processes > 1 and CHILD not in os.environ:
        loaded.close()
        sys.exit(_supervise(loaded, processes, as_json=as_json))
    made = loaded.worker(kinds=kind, concurrency=concurrency, until_idle=once, shards=shard)
    leave(run_worker(made, loaded, as_json=as_json))


def run_worker(made: AnyWorker, app: App, *, as_json: bool) -> int:
    """Run one worker in this process until a signal stops it; returns the exit code."""
    is_child = CHILD in os.environ
    console = None if is_child else terminal(as_json=as_json)
    set_up_logs(as_json=as_json, console=console)
    # Shorter turns between handlers and database threads keep commits fast under load.
    sys.setswitchinterval(0.0005)

    def on_signal(_number: int, _frame: object) -> None:
        made.stop()
        if made.stops_at_once:
            # A handler may block the event loop; then only this thread can end the process.
            threading.Thread(target=_leave_anyway, args=(made,), daemon=True).start()

    def run() -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, on_signal)
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        executor = ThreadPoolExecutor(thread_name_prefix="windlass-call")
        loop.set_default_executor(executor)
        loop.run_until_complete(made.run())
        executor.shutdown(wait=False, cancel_futures=True)

    try:
        if console is not None:
            with LiveLine(console, lambda: _shown(made), _DueCounter(app)):
                run()
        else:
            if is_child:
                Pulses.send_from(made)
            run()
    except Exception as problem:
        complain(f"{type(problem).__name__}: {problem}")
        return 1
    app.close()
    return 0 if made.left_cleanly else 1


def leave(code: int) -> NoReturn:
    """End the process, even if threads of handlers cannot be stopped."""
    deadline = time.monotonic() + 0.5
    others = [
        thread
        for thread in threading.enumerate()
        if not thread.daemon and thread is not threading.main_thread()
    ]
    for thread in others:
        thread.join(max(0.0, deadline - time.monotonic()))
    if any(thread.is_alive() for thread in others):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def _leave_anyway(made: AnyWorker) -> None:
    time.sleep(2.0)
    try:
        made.leave("stopped at once")
    finally:
        os._exit(0)


def _supervise(app: App, processes: int, *, as_json: bool) -> int:
    console = terminal(as_json=as_json)
    set_up_logs(as_json=as_json, console=console)
    supervisor = Supervisor(sys.argv[1:], processes=processes)
    return show(supervisor, app, console)


def show(supervisor: Supervisor, app: App | None, console: Console | None) -> int:
    """Supervise, and show the progress on the terminal; returns the exit code."""
    if console is None:
        return supervisor.run()
    due = _DueCounter(app) if app is not None else lambda: "-"
    with LiveLine(console, supervisor.pulses.shown, due):
        return supervisor.run()


def terminal(*, as_json: bool) -> Console | None:
    """The terminal, if standard error is one and the log is not JSON."""
    console = Console(stderr=True, highlight=False)
    return console if console.is_terminal and not as_json else None


def _shown(made: AnyWorker) -> Shown:
    pulse = made.pulse()
    return Shown(1, pulse.running, pulse.done, pulse.failed)


class _DueCounter:
    """The number of due rows, counted every two seconds on its own thread."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._text = "-"
        threading.Thread(target=self._count, daemon=True).start()

    def __call__(self) -> str:
        return self._text

    def _count(self) -> None:
        from windlass.watch.status.operate import due_count

        while True:
            try:
                self._text = count_text(due_count(self._app.fleet, self._app.registry))
            except Exception:
                self._text = "?"
            time.sleep(2.0)
