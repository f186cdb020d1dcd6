"""`windlass worker`, `console` and `dev`: processes that run until a signal."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from rich.console import Console

from windlass.cli.endpoint import (
    Endpoint,
    PlainAnswer,
    Request,
    guarded_page,
    health_page,
    open_page,
    ready_page,
)
from windlass.cli.load import AppArgument, end_quietly, load_app
from windlass.cli.log import Shown, is_set_up, live_line, set_up_logs
from windlass.cli.output import complain, count_text, refuse, say
from windlass.cli.supervise import Supervisor, send_pulses
from windlass.errors import WindlassError
from windlass.fork import CHILD

if TYPE_CHECKING:
    from windlass.app import App
    from windlass.cli.supervise import Stoppable
    from windlass.value.metric import MetricValue
    from windlass.web.link import Link
    from windlass.web.proxy import Proxy

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
ConsumeOption = Annotated[
    list[str] | None,
    typer.Option(
        "--consume",
        metavar="KIND",
        help="Consume only messages of this kind, besides the tasks; repeatable; or all, or none.",
    ),
]
HealthOption = Annotated[
    str | None,
    typer.Option(
        "--health",
        metavar="HOST:PORT",
        help="Serve /healthz and /readyz there, without a credential.",
    ),
]
MetricsOption = Annotated[
    str | None,
    typer.Option(
        "--metrics",
        metavar="HOST:PORT",
        help="Serve /metrics for Prometheus there; to serve other machines, set a token.",
    ),
]
MetricsTokenOption = Annotated[
    str | None,
    typer.Option(
        "--metrics-token",
        envvar="WINDLASS_METRICS_TOKEN",
        show_envvar=True,
        help="The bearer token that /metrics asks for, at least 16 characters.",
    ),
]
LogOption = Annotated[bool, typer.Option("--json", help="Log JSON lines.")]
HostOption = Annotated[str, typer.Option("--host", help="The address to listen on.")]
PortOption = Annotated[
    int, typer.Option("--port", min=0, max=65_535, help="The port; 0 picks a free port.")
]
# All users can see options in the process list, so the environment is safer.
SecretOption = Annotated[
    str | None,
    typer.Option(
        "--secret",
        envvar="WINDLASS_CONSOLE_SECRET",
        show_envvar=True,
        help="The secret to log in with; without it, a link is printed that works once. To "
        "listen beyond this machine it must have at least 16 characters.",
    ),
]
ViewerSecretOption = Annotated[
    str | None,
    typer.Option(
        "--viewer-secret",
        envvar="WINDLASS_CONSOLE_VIEWER_SECRET",
        show_envvar=True,
        help="A second secret, for people who may view but not act.",
    ),
]
ReadOnlyOption = Annotated[bool, typer.Option("--read-only", help="View only: nobody may act.")]
RateOption = Annotated[
    str | None,
    typer.Option(
        "--rate",
        metavar="RATE",
        help="How many requests each token of the role producer may send, such as 100/s.",
    ),
]
ProxyHeaderOption = Annotated[
    str | None,
    typer.Option(
        "--proxy-header",
        metavar="HEADER",
        help="The header in which a trusted proxy names the user, such as X-Forwarded-User.",
    ),
]
ProxyAddressOption = Annotated[
    list[str] | None,
    typer.Option(
        "--proxy-address",
        metavar="ADDRESS",
        help="The address or network of the proxy; from others its headers are ignored; "
        "repeatable.",
    ),
]
ProxyRoleHeaderOption = Annotated[
    str | None,
    typer.Option(
        "--proxy-role-header", metavar="HEADER", help="The header with the role of the user."
    ),
]
ProxyRoleOption = Annotated[
    str,
    typer.Option(
        "--proxy-role",
        metavar="ROLE",
        help='The role of users without one in the header; "none" refuses them.',
    ),
]
OpenOption = Annotated[
    bool, typer.Option("--open", help="Open the console in the browser, logged in by the link.")
]
# Names the folder of the link to the process that serves the console of `dev`.
LINK_FOLDER = "WINDLASS_CONSOLE_LINK"


def worker(
    app: AppArgument,
    processes: ProcessesOption = 1,
    concurrency: ConcurrencyOption = None,
    kind: KindOption = None,
    shard: ShardOption = None,
    consume: ConsumeOption = None,
    grace: GraceOption = None,
    once: Annotated[bool, typer.Option("--once", help="Run what is due, then exit.")] = False,
    health: HealthOption = None,
    metrics: MetricsOption = None,
    metrics_token: MetricsTokenOption = None,
    as_json: LogOption = False,
) -> None:
    """Run tasks until SIGTERM, then finish the running ones; a second SIGTERM stops at once."""
    end_quietly()
    loaded = load_app(app)
    console = begin_logs(as_json=as_json)
    if grace is not None:
        loaded.set_grace(grace)
    loaded.chosen(kind, _consumed(consume))
    for name in shard or []:
        loaded.fleet.named(name)
    served = Served(health, metrics, metrics_token or None)
    measured = served.measure(loaded)
    loaded.prepare()
    if once and processes > 1:
        refuse("--once runs in this process alone; leave --processes out")
    if processes > 1 and CHILD not in os.environ:
        loaded.close()
        supervisor = Supervisor(sys.argv[1:], processes=processes)
        served.start(fatal=lambda: None, trouble=supervisor.trouble, samples=supervisor.samples)
        sys.exit(supervise(supervisor, loaded, console))
    made = loaded.worker(
        kinds=kind,
        concurrency=concurrency,
        until_idle=once,
        shards=shard,
        consume=_consumed(consume),
    )
    if CHILD not in os.environ:
        served.start(fatal=lambda: made.fatal, trouble=made.trouble, samples=measured)
    leave(run_until_signal(made, loaded, console, None if metrics is None else measured))


def _consumed(given: list[str] | None) -> list[str] | None:
    """The consumers that a worker runs; None: all that it serves."""
    if not given or given == ["all"]:
        return None
    return [] if given == ["none"] else given


def console(
    app: AppArgument,
    host: HostOption = "127.0.0.1",
    port: PortOption = 8484,
    secret: SecretOption = None,
    viewer_secret: ViewerSecretOption = None,
    read_only: ReadOnlyOption = False,
    rate: RateOption = None,
    proxy_header: ProxyHeaderOption = None,
    proxy_address: ProxyAddressOption = None,
    proxy_role_header: ProxyRoleHeaderOption = None,
    proxy_role: ProxyRoleOption = "viewer",
    open_it: OpenOption = False,
) -> None:
    """Serve the web console of an app; without a secret, print a link that logs you in once."""
    end_quietly()
    loaded = load_app(app)
    from windlass.web.serve import bind, check_host, serve

    secret, viewer_secret = secret or None, viewer_secret or None
    proxy = _proxy(proxy_header, proxy_address or [], proxy_role_header, proxy_role)
    check_host(host, secret, viewer_secret, proxy=proxy)
    bound = bind(host, port)
    with nullcontext() if proxy is not None else _link(secret) as link:
        site = _site(
            loaded, secret, viewer_secret, link, proxy=proxy, read_only=read_only, rate=rate
        )
        set_up_logs(as_json=False, console=None)
        loaded.prepare()
        how = "log in by the proxy" if secret is None else "log in with the secret"
        _tell(bound, link, "read-only" if read_only else how, open_it=open_it)
        watcher = loaded.outside_watcher()
        watcher.start()
        serve(site, bound, proxy=proxy)
        watcher.stop()
    loaded.close()


def dev(
    app: AppArgument,
    concurrency: ConcurrencyOption = None,
    kind: KindOption = None,
    host: HostOption = "127.0.0.1",
    port: PortOption = 8484,
    secret: SecretOption = None,
    open_it: OpenOption = False,
    as_json: LogOption = False,
) -> None:
    """Run one worker and the console, and restart them when the code changes."""
    end_quietly()
    secret = secret or None
    if CHILD in os.environ:
        # Not for the processes that handlers start.
        folder = os.environ.pop(LINK_FOLDER, None)
        loaded = load_app(app)
        console = begin_logs(as_json=as_json)
        loaded.prepare()
        _measure(loaded)
        made = loaded.worker(kinds=kind, concurrency=concurrency)
        with _console_beside(loaded, host=host, port=port, secret=secret, folder=folder):
            code = run_until_signal(made, loaded, console)
        leave(code)
    console = begin_logs(as_json=as_json)
    with ExitStack() as stack:
        # Chosen once, so that a restarted process uses the same port and link.
        free = _announce(stack, host, port, secret, open_it=open_it)
        supervisor = Supervisor([*sys.argv[1:], "--port", str(free)], processes=1, reload=True)
        code = supervise(supervisor, None, console)
    sys.exit(code)


def begin_logs(*, as_json: bool) -> Console | None:
    """Set up logs, unless the app has; the terminal, if a live line may be drawn there."""
    console = None
    if CHILD not in os.environ and not is_set_up():
        console = _terminal(as_json=as_json)
    set_up_logs(as_json=as_json, console=console)
    return console


@dataclass(frozen=True)
class Served:
    """What a worker or a consumer serves over HTTP, and where."""

    health: str | None
    metrics: str | None
    token: str | None

    def measure(self, app: App) -> Callable[[], list[MetricValue]]:
        """Count from now on, if metrics are asked for. Raises if they cannot be served so."""
        from windlass.watch.metric import process
        from windlass.watch.metric.exposition import need_client

        if self.metrics is not None:
            need_client()
            guarded_page(lambda: PlainAnswer(200, ""), self.metrics, self.token)
            process.measure(app.registry)
        return partial(process.samples, app.registry)

    def start(
        self,
        *,
        fatal: Callable[[], str | None],
        trouble: Callable[[], str | None],
        samples: Callable[[], list[MetricValue]],
    ) -> None:
        """Serve from now on; one server, if both are at one address."""
        pages: dict[str, dict[str, Callable[[Request], PlainAnswer]]] = {}
        if self.health is not None:
            pages[self.health] = {
                "/healthz": open_page(lambda: health_page(fatal())),
                "/readyz": open_page(lambda: ready_page(trouble())),
            }
        if self.metrics is not None:
            page = guarded_page(lambda: _metrics_page(samples()), self.metrics, self.token)
            pages.setdefault(self.metrics, {})["/metrics"] = page
        for address, found in pages.items():
            Endpoint(address, found).start()


def _measure(app: App) -> None:
    """Count what the worker does, if the console beside it can expose that."""
    from windlass.watch.metric.exposition import is_installed
    from windlass.watch.metric.process import measure

    if is_installed():
        measure(app.registry)


def _metrics_page(samples: list[MetricValue]) -> PlainAnswer:
    from windlass.watch.metric.exposition import expose

    made = expose(samples)
    return PlainAnswer(200, made.text, made.media_type)


def run_until_signal(
    made: Stoppable,
    app: App,
    console: Console | None,
    samples: Callable[[], list[MetricValue]] | None = None,
    *,
    due: Callable[[], str] | None = None,
) -> int:
    """Run a worker or a consumer in this process until a signal stops it; its exit code.

    `due` is what the live line shows as due; by default the number of due rows.
    """
    is_child = CHILD in os.environ
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
            with live_line(console, lambda: _shown(made), due or _due_counter(app)):
                run()
        else:
            if is_child:
                send_pulses(made, samples)
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


def _leave_anyway(made: Stoppable) -> None:
    time.sleep(2.0)
    try:
        made.leave("stopped at once")
    finally:
        os._exit(0)


def supervise(supervisor: Supervisor, app: App | None, console: Console | None) -> int:
    """Supervise, and show the progress on the terminal; returns the exit code."""
    if console is None:
        return supervisor.run()
    due = _due_counter(app) if app is not None else lambda: "-"
    with live_line(console, supervisor.shown, due):
        return supervisor.run()


def _terminal(*, as_json: bool) -> Console | None:
    """The terminal, if standard error is one and the log is not JSON."""
    console = Console(stderr=True, highlight=False)
    return console if console.is_terminal and not as_json else None


def _shown(made: Stoppable) -> Shown:
    pulse = made.pulse()
    return Shown(1, pulse.running, pulse.done, pulse.failed)


def _due_counter(app: App) -> Callable[[], str]:
    """The number of due rows, counted every two seconds on its own thread."""
    text = "-"

    def count() -> None:
        from windlass.watch.operate.status import due_count

        nonlocal text
        while True:
            try:
                text = count_text(due_count(app.fleet, app.registry))
            except Exception:
                text = "?"
            time.sleep(2.0)

    threading.Thread(target=count, daemon=True).start()
    return lambda: text


def _link(secret: str | None) -> AbstractContextManager[Link | None]:
    """What logs one browser in if there is no secret."""
    from windlass.web.link import Link

    return nullcontext() if secret is not None else Link.made()


def _proxy(
    header: str | None, addresses: list[str], role_header: str | None, role: str
) -> Proxy | None:
    """The proxy that the options name."""
    from windlass.web.proxy import Proxy

    if header is None:
        if addresses or role_header is not None:
            refuse("--proxy-address and --proxy-role-header need --proxy-header: who is the user?")
        return None
    if not addresses:
        refuse(
            f"--proxy-header {header} needs --proxy-address: without it everybody who sends that "
            "header would be let in"
        )
    default = None if role == "none" else role
    return Proxy(header, addresses, role_header=role_header, role=default)


def _site(
    app: App,
    secret: str | None,
    viewer_secret: str | None,
    link: Link | None,
    *,
    proxy: Proxy | None = None,
    read_only: bool = False,
    rate: str | None = None,
) -> Any:
    """The console of an app."""
    from windlass.web.credential import Credentials
    from windlass.web.site import make

    credentials = Credentials(secret, viewer_secret, link)
    return make(app, credentials, proxy=proxy, read_only=read_only, rate=rate)


def _tell(bound: socket.socket, link: Link | None, how: str, *, open_it: bool) -> None:
    """Say where the console is and how to get in; open it if that is asked for."""
    from windlass.web.serve import open_browser, url_of

    address = url_of(bound)
    if link is None:
        say(f"The console is at {address}; {how}.")
        where = address
    else:
        say(f"The console is at {link.at(address)} (this link logs you in, once)")
        where = link.page.as_uri()
    if open_it:
        open_browser(bound, where)


def _announce(stack: ExitStack, host: str, port: int, secret: str | None, *, open_it: bool) -> int:
    """Say where the console of `dev` will be; its port, which is another one if `port` is used."""
    try:
        from windlass.web.serve import bind, check_host
    except WindlassError as problem:
        complain(str(problem))
        return port
    check_host(host, secret)
    link = stack.enter_context(_link(secret))
    if link is not None:
        os.environ[LINK_FOLDER] = str(link.folder)
    with bind(host, port, or_any=True) as bound:
        _tell(bound, link, "log in with the secret", open_it=open_it)
        return int(bound.getsockname()[1])


def _console_beside(
    app: App, *, host: str, port: int, secret: str | None, folder: str | None
) -> AbstractContextManager[object]:
    """The console, served beside the worker if its extra is installed."""
    try:
        from windlass.web.link import Link
        from windlass.web.serve import beside, bind

        link = None if folder is None else Link(Path(folder))
        return beside(_site(app, secret, None, link), bind(host, port))
    except WindlassError as problem:
        complain(str(problem))
        return nullcontext()
