"""`/healthz` and `/readyz` of real workers."""

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import contextmanager

import pytest

from tests.server import PostgreSQL
from tests.spawn import Forked, run_forked
from tests.wait import eventually
from windlass import BadInput
from windlass.cli.endpoint import MOST_CONNECTIONS, Endpoint, PlainAnswer, open_page

SHOP = """
import time
from windlass import App

app = App({url!r}, dead_after="2s", lease="10s")

@app.task(timeout="1m")
async def block(path: str) -> None:
    import os
    while not os.path.exists(path):
        time.sleep(0.01)
"""


WINDLASS = (sys.executable, "-m", "windlass")
READY = (200, "ok\n")


def free_port():
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return bound.getsockname()[1]


def ask(port, path, timeout=5.0):
    """The status and the text of an answer; None if there is none."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=timeout) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as problem:
        return problem.code, problem.read().decode()
    except OSError:
        return None


def says(port, path, status, text):
    return lambda: (found := ask(port, path)) and found[0] == status and text in found[1]


@contextmanager
def worker(folder, name, port, *arguments):
    process = Forked(
        [*WINDLASS, "worker", f"{name}:app", "--health", f"127.0.0.1:{port}", *arguments],
        cwd=folder,
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGCONT)
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()


@pytest.fixture
def shop(write_module, sqlite_url):
    return write_module(SHOP.format(url=sqlite_url))


def enqueue_block(folder, name, end):
    """Enqueue a task that blocks the event loop until the file `end` is there."""
    arguments = json.dumps({"path": str(end)})
    command = [*WINDLASS, "task", "enqueue", "block", arguments, "--app", f"{name}:app"]
    run_forked(command, cwd=folder)


@pytest.mark.mostly("sqlite")
def test_a_worker_is_alive_and_ready_while_it_takes_work(folder, shop):
    port = free_port()
    with worker(folder, shop, port):
        eventually(lambda: ask(port, "/readyz") == READY, timeout=60, what="readiness")

        assert ask(port, "/healthz") == READY
        assert ask(port, "/healthz?verbose=1") == READY
        assert ask(port, "/") == (404, "there is nothing here\n")
        assert ask(port, "/metrics")[0] == 404


@pytest.mark.mostly("sqlite")
def test_a_stopped_process_does_not_answer_until_it_goes_on(folder, shop):
    port = free_port()
    with worker(folder, shop, port) as process:
        eventually(lambda: ask(port, "/readyz") == READY, timeout=60, what="readiness")

        process.send_signal(signal.SIGSTOP)
        eventually(lambda: ask(port, "/healthz", timeout=1.0) is None, what="silence")
        process.send_signal(signal.SIGCONT)

        eventually(lambda: ask(port, "/readyz") == READY, timeout=60, what="readiness again")


@pytest.mark.mostly("sqlite")
def test_a_worker_answers_while_a_handler_blocks_its_event_loop(folder, shop, tmp_path):
    port = free_port()
    end = tmp_path / "end"
    with worker(folder, shop, port):
        eventually(lambda: ask(port, "/readyz") == READY, timeout=60, what="readiness")
        enqueue_block(folder, shop, end)

        blocked = says(port, "/readyz", 503, "not ready: a handler blocks its event loop")
        eventually(blocked, timeout=60, what="the truth")
        assert ask(port, "/healthz") == READY
        end.touch()

        eventually(lambda: ask(port, "/readyz") == READY, timeout=60, what="readiness again")


@pytest.mark.mostly("sqlite")
def test_a_worker_that_is_stopping_is_not_ready(folder, shop, tmp_path):
    port = free_port()
    end = tmp_path / "end"
    with worker(folder, shop, port) as process:
        eventually(lambda: ask(port, "/readyz") == READY, timeout=60, what="readiness")
        enqueue_block(folder, shop, end)
        blocked = says(port, "/readyz", 503, "a handler blocks its event loop")
        eventually(blocked, timeout=60, what="a running task")

        process.terminate()
        eventually(says(port, "/readyz", 503, "it is stopping"), timeout=30, what="the truth")
        end.touch()

        assert process.wait(60) == 0


@pytest.mark.mostly("sqlite")
def test_a_supervisor_answers_for_its_processes(folder, shop):
    port = free_port()
    with worker(folder, shop, port, "--processes", "2") as process:
        eventually(lambda: ask(port, "/readyz") == READY, timeout=90, what="readiness")
        children = children_of(process.pid)
        assert len(children) == 2

        for child in children:
            os.kill(child, signal.SIGSTOP)
        silent = says(port, "/readyz", 503, "no worker process takes work")
        eventually(silent, timeout=30, what="the truth")
        assert ask(port, "/healthz") == READY
        for child in children:
            os.kill(child, signal.SIGCONT)

        eventually(lambda: ask(port, "/readyz") == READY, timeout=60, what="readiness again")


@pytest.mark.slow
def test_a_worker_without_its_database_is_alive_and_not_ready(folder, write_module):
    port = free_port()
    with PostgreSQL() as server:
        name = write_module(SHOP.format(url=server.create_database("shop")))
        run_forked([*WINDLASS, "migrate", "--app", f"{name}:app"], cwd=folder)
        with worker(folder, name, port):
            eventually(lambda: ask(port, "/readyz") == READY, timeout=60, what="readiness")

            server.kill()
            eventually(says(port, "/readyz", 503, "not ready: it"), timeout=60, what="the truth")
            assert ask(port, "/healthz") == READY
            server.start()

            eventually(lambda: ask(port, "/readyz") == READY, timeout=90, what="readiness again")


def children_of(pid):
    found = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=True
    )
    return [int(line) for line in found.stdout.split()]


@pytest.fixture
def endpoint():
    fine = open_page(lambda: PlainAnswer(200, "ok\n"))
    made = Endpoint("127.0.0.1:0", {"/healthz": fine, "/bad": open_page(fail)})
    made.start()
    yield int(made.address.rpartition(":")[2])
    made.close()


def fail():
    raise RuntimeError("secret")


def send(port, raw):
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(raw)
        answer = b""
        while part := connection.recv(4096):
            answer += part
    return answer.decode()


def test_an_endpoint_answers_with_plain_text(endpoint):
    answer = send(endpoint, b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")

    head, _, body = answer.partition("\r\n\r\n")
    assert head.startswith("HTTP/1.1 200 OK\r\n")
    assert "Content-Type: text/plain; charset=utf-8" in head
    assert body == "ok\n"
    head_only = send(endpoint, b"HEAD /healthz HTTP/1.1\r\n\r\n")
    assert head_only.endswith("\r\n\r\n")


def test_an_endpoint_refuses_what_it_does_not_know_and_tells_no_secret(endpoint):
    assert " 405 " in send(endpoint, b"POST /healthz HTTP/1.1\r\n\r\n")
    assert " 404 " in send(endpoint, b"GET /etc/passwd HTTP/1.1\r\n\r\n")
    failed = send(endpoint, b"GET /bad HTTP/1.1\r\n\r\n")
    assert " 500 " in failed
    assert "secret" not in failed


@pytest.mark.parametrize("raw", [b"hello\r\n\r\n", b"\r\n\r\n", b"GET /" + b"x" * 20_000])
def test_an_endpoint_closes_what_is_no_request(endpoint, raw):
    try:
        answer = send(endpoint, raw)
    except ConnectionError:
        answer = ""

    assert answer == ""
    assert ask(endpoint, "/healthz") == READY


def test_slow_strangers_do_not_keep_an_endpoint_from_answering_for_long(endpoint):
    strangers = [
        socket.create_connection(("127.0.0.1", endpoint)) for _ in range(3 * MOST_CONNECTIONS)
    ]
    try:
        eventually(lambda: ask(endpoint, "/healthz") == READY, timeout=30, what="an answer")
    finally:
        for each in strangers:
            each.close()


@pytest.mark.parametrize("address", ["8485", ":8485", "127.0.0.1:", "127.0.0.1:http", "x:99999"])
def test_a_bad_address_is_refused(address):
    with pytest.raises(BadInput, match="is not HOST:PORT"):
        Endpoint(address, {})


def test_a_worker_says_that_its_address_is_taken(windlass, shop, endpoint):
    answer = windlass("worker", f"{shop}:app", "--health", f"127.0.0.1:{endpoint}")

    assert answer.code != 0
    assert f"cannot listen on 127.0.0.1:{endpoint}" in answer.err
    assert "Traceback" not in answer.err
