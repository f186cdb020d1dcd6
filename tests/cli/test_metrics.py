"""`/metrics` of real workers and of a real console, read as Prometheus reads it."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from contextlib import contextmanager

import pytest

from tests.cli.test_health import READY, ask, children_of, free_port, send
from tests.spawn import Forked, run_forked
from tests.wait import eventually
from tests.watch.metric.metered import Scrape
from windlass import __version__
from windlass.cli.endpoint import MOST_CONNECTIONS, Endpoint, PlainAnswer, guarded_page
from windlass.watch.metric.table import CARRIED, DATABASE, METRICS, PROCESS

WINDLASS = (sys.executable, "-m", "windlass")
TOKEN = "token of more than sixteen"
SHOP = """
import os, signal
from windlass import App, Keys
from windlass.ledger import Ledger
from windlass.queue import Queue

app = App({url!r}, dead_after="2s", lease="10s", late_after=None)

app.downstream("bank", rate="1000/s", concurrency=50)

@app.task
async def mail(to: str) -> None: ...

@app.task(downstream="bank", retries=2, backoff="1ms")
def pay(order: int) -> None:
    raise ValueError("the password is hunter2")

@app.task(max_lost=1)
async def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)

@app.rolling(every="10d")
def stock(code: str) -> None: ...

@app.sweep(Keys(1, 20), ranges=2)
def offer(key: int) -> None: ...

@app.consume(Queue("memory://", "product"))
def on_product(event: dict) -> None: ...

def fill():
    mail.enqueue_many([{{"to": f"{{number}}@secret.example"}} for number in range(200)])
    pay.enqueue_many([{{"order": number}} for number in range(5)])
    stock.add(["bolt", "nut"], now=True)

def hurt():
    kill.enqueue()
"""


def call(folder, name, function):
    """Call a function of the shop in a process of its own."""
    code = f"import {name}; {name}.{function}()"
    run_forked([sys.executable, "-c", code], cwd=folder)


@contextmanager
def running(folder, *arguments, **environment):
    process = Forked(
        [*WINDLASS, *arguments],
        cwd=folder,
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        env={**os.environ, **environment},
    )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()


def scraped(port, token=None):
    """What a scrape finds; None if it is not answered."""
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    asked = urllib.request.Request(f"http://127.0.0.1:{port}/metrics", headers=headers)
    try:
        with urllib.request.urlopen(asked, timeout=10) as answer:
            assert answer.headers["Content-Type"].startswith("text/plain")
            return Scrape(answer.read().decode())
    except OSError:
        return None


@pytest.fixture
def shop(write_module, database_url):
    return write_module(SHOP.format(url=database_url))


@pytest.fixture
def sqlite_shop(write_module, sqlite_url):
    return write_module(SHOP.format(url=sqlite_url))


@pytest.mark.everywhere
def test_a_worker_and_a_console_expose_what_the_table_has_and_what_was_run(
    folder, shop, database_url
):
    port, site = free_port(), free_port()
    call(folder, shop, "fill")
    with (
        running(folder, "worker", f"{shop}:app", "--metrics", f"127.0.0.1:{port}"),
        running(
            *(folder, "console", f"{shop}:app", "--port", str(site)),
            WINDLASS_CONSOLE_SECRET=TOKEN,
            WINDLASS_CONSOLE_VIEWER_SECRET=f"viewer {TOKEN}",
        ),
    ):
        eventually(lambda: ran_all(scraped(port)), timeout=90, what="the end of all tasks")
        worker = scraped(port)
        console = eventually(lambda: scraped(site, f"viewer {TOKEN}"), timeout=60, what="console")

    assert worker("task_done_total", kind="mail") == 200
    assert worker("task_started_total", kind="mail") == 200
    assert worker("task_duration_seconds_count", kind="mail") == 200
    assert worker("task_wait_seconds_count", kind="mail") == 200
    assert worker("task_failed_total", kind="pay") == 5
    assert worker("task_retried_total", kind="pay") == 10
    assert worker("task_started_total", kind="pay") == 15
    assert worker("task_wait_seconds_sum", kind="mail") > 0
    assert worker("task_done_total", kind="stock") == 2
    assert worker("task_done_total", kind="offer") == 20
    assert worker("worker_buckets", shard="1") == 256
    assert 0 <= worker("worker_heartbeat_age_seconds", shard="1") < 30
    assert worker("worker_guarded", shard="1") == 1
    assert worker("event_total", event="task.failed") == 5
    assert console("worker_alive", shard="1") == 1
    assert console("task_due", kind="mail", shard="1") == 0
    assert console("rolling_items", kind="stock") == 2

    assert worker.names == {metric.name for metric in PROCESS}
    assert console.names - worker.names == {metric.name for metric in DATABASE}
    # Nothing is carried here.
    rest = {metric.name for metric in CARRIED}
    assert console.names | worker.names == METRICS.keys() - rest
    for found in (worker, console):
        assert "hunter2" not in found.text
        assert "secret.example" not in found.text
        assert TOKEN not in found.text
        assert database_url not in found.text


def ran_all(found):
    """Whether all that `fill` enqueued has ended."""
    if found is None:
        return False
    ended = [
        ("done", "mail", 200),
        ("failed", "pay", 5),
        ("done", "stock", 2),
        ("done", "offer", 20),
    ]
    return all(found(f"task_{how}_total", kind=kind) == count for how, kind, count in ended)


@pytest.mark.mostly("sqlite")
def test_a_supervisor_adds_its_processes_up_and_keeps_what_a_killed_one_did(folder, shop):
    port = free_port()
    address = f"127.0.0.1:{port}"
    options = ("--processes", "2", "--metrics", address, "--health", address)
    with running(folder, "worker", f"{shop}:app", *options) as process:
        eventually(lambda: ask(port, "/readyz") == READY, timeout=90, what="readiness")
        call(folder, shop, "fill")
        eventually(lambda: ran_all(scraped(port)), timeout=90, what="the end of all tasks")
        before = set(children_of(process.pid))

        call(folder, shop, "hurt")
        eventually(
            lambda: len(set(children_of(process.pid)) - before) == 1, timeout=60, what="a new one"
        )
        eventually(
            lambda: (found := scraped(port)) and found("worker_buckets", shard="1") == 256,
            timeout=60,
            what="all buckets",
        )

        assert ran_all(scraped(port))
        poison = eventually(
            lambda: (found := scraped(port)) and found("event_total", event="task.poison"),
            timeout=60,
            what="the poison",
        )
        assert poison == 1


@pytest.mark.mostly("sqlite")
def test_a_stopped_worker_process_has_an_old_heartbeat(folder, sqlite_shop):
    port = free_port()
    options = ("--processes", "2", "--metrics", f"127.0.0.1:{port}")

    def age():
        found = scraped(port)
        return found and found("worker_heartbeat_age_seconds", shard="1")

    def both_work():
        found = scraped(port)
        return found and found("worker_concurrency") == 200 and age() is not None

    with running(folder, "worker", f"{sqlite_shop}:app", *options) as process:
        eventually(both_work, timeout=90, what="two workers")
        child = children_of(process.pid)[0]

        os.kill(child, signal.SIGSTOP)
        try:
            eventually(lambda: (age() or 0) > 8, timeout=60, what="an old heartbeat")
        finally:
            os.kill(child, signal.SIGCONT)


@pytest.mark.mostly("sqlite")
def test_a_token_is_asked_for_if_there_is_one(folder, sqlite_shop):
    port = free_port()
    options = ("--metrics", f"127.0.0.1:{port}", "--health", f"127.0.0.1:{port}")
    with running(*(folder, "worker", f"{sqlite_shop}:app", *options), WINDLASS_METRICS_TOKEN=TOKEN):
        eventually(lambda: ask(port, "/readyz") == READY, timeout=60, what="readiness")

        assert ask(port, "/metrics")[0] == 401
        assert scraped(port, "another token of sixteen") is None
        assert scraped(port, TOKEN)("info", version=__version__) == 1


@pytest.mark.parametrize("address", ["0.0.0.0:9108", "[::]:9108", "example.com:9108", "10.0.0.7:1"])
def test_other_machines_need_a_token(windlass, sqlite_shop, address):
    answer = windlass("worker", f"{sqlite_shop}:app", "--metrics", address)

    assert answer.code == 1
    assert "set one with $WINDLASS_METRICS_TOKEN" in answer.err
    assert "Traceback" not in answer.err


def test_a_short_token_is_refused(windlass, sqlite_shop, monkeypatch):
    monkeypatch.setenv("WINDLASS_METRICS_TOKEN", "short")

    answer = windlass("worker", f"{sqlite_shop}:app", "--metrics", "0.0.0.0:0")

    assert answer.code == 1
    assert "at least 16" in answer.err
    assert "'short'" not in answer.err


def test_without_the_extra_a_worker_says_how_to_get_it(windlass, sqlite_shop, monkeypatch):
    monkeypatch.setitem(sys.modules, "prometheus_client", None)

    answer = windlass("worker", f"{sqlite_shop}:app", "--metrics", "127.0.0.1:0")

    assert answer.code == 1
    assert "pip install 'windlass[metrics]'" in answer.err
    assert "Traceback" not in answer.err


# The small server.


@pytest.fixture
def page():
    """A page for this machine only."""
    made = guarded_page(lambda: PlainAnswer(200, "windlass_info 1\n"), "127.0.0.1:0", None)
    endpoint = Endpoint("127.0.0.1:0", {"/metrics": made})
    endpoint.start()
    yield int(endpoint.address.rpartition(":")[2])
    endpoint.close()


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:9108", "[::1]:9108", "LOCALHOST:1"])
def test_without_a_token_this_machine_may_read_metrics(page, host):
    answer = send(page, f"GET /metrics HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())

    assert answer.endswith("windlass_info 1\n")


def test_a_name_of_another_site_that_points_here_is_refused(page):
    answer = send(page, b"GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n")

    assert answer.startswith("HTTP/1.1 403 ")
    assert "windlass_info" not in answer


def test_slow_dripping_scrapers_give_way_to_others(page):
    drips = [socket.create_connection(("127.0.0.1", page)) for _ in range(MOST_CONNECTIONS)]
    try:
        for each in drips:
            each.sendall(b"GET /metrics HTTP/1.1\r\n")

        def drip_and_ask():
            for each in drips:
                with contextlib.suppress(OSError):
                    each.sendall(b"x")
            return ask(page, "/metrics", timeout=10) == (200, "windlass_info 1\n")

        eventually(drip_and_ask, timeout=30, what="an answer")
    finally:
        for each in drips:
            each.close()


@pytest.mark.parametrize(
    "header",
    ["", "Authorization: Basic eA==", "Authorization: Bearer", "Authorization: Bearer wrong"],
)
def test_a_wrong_credential_is_refused(header):
    made = guarded_page(lambda: PlainAnswer(200, "secret\n"), "0.0.0.0:0", TOKEN)
    endpoint = Endpoint("127.0.0.1:0", {"/metrics": made})
    endpoint.start()
    try:
        port = int(endpoint.address.rpartition(":")[2])
        lines = "\r\n".join(["GET /metrics HTTP/1.1", "Host: shop", *filter(None, [header])])

        answer = send(port, f"{lines}\r\n\r\n".encode())

        assert answer.startswith("HTTP/1.1 401 ")
        assert "WWW-Authenticate: Bearer" in answer
        assert "secret" not in answer
    finally:
        endpoint.close()
