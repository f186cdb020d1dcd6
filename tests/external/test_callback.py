"""The callback: one who knows the secret ends a task over HTTP, and no request does any harm."""

import contextlib
import json
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

import windlass
from tests.external.job_server import JobServer
from tests.external.system import Spark
from tests.server.process import free_port
from tests.wait import eventually
from windlass import Status
from windlass.external import HttpJob
from windlass.external.command.server import LARGEST_HEAD, MOST_CONNECTIONS, CallbackServer

HEAD = b"POST /callback/1 HTTP/1.1\r\nAuthorization: Bearer x\r\n"


@pytest.fixture
def jobs(tmp_path) -> Iterator[JobServer]:
    server = JobServer(tmp_path, free_port())
    yield server.start()
    server.kill()


@pytest.fixture
def server(app):
    server = CallbackServer(app.external, "127.0.0.1", 0)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def test_a_callback_with_the_secret_of_the_task_ends_it(app, jobs, server):
    address = f"http://127.0.0.1:{server.server_address[1]}"
    http = app.external(
        "called",
        HttpJob(f"{jobs.url}/jobs", f"{jobs.url}/jobs/{{handle}}", callback=address),
        every="1h",
    )
    ref = http.enqueue(name="report")
    app.drain()
    job = jobs.jobs()[str(ref.id)]

    def call(secret, body=b'{"ok": true, "result": 5}', scheme="Bearer"):
        request = urllib.request.Request(
            job["callback"], data=body, headers={"Authorization": f"{scheme} {secret}"}
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as response:
                return response.status, json.load(response)
        except urllib.error.HTTPError as problem:
            return problem.code, json.load(problem)

    assert call("wrong")[0] == 404
    assert call(job["secret"], b"nonsense")[0] == 400
    assert call(job["secret"], b"[" * 100_000)[0] == 400
    assert call(job["secret"], scheme="Basic")[0] == 401
    assert ref.status() is Status.EXTERNAL
    assert call(job["secret"], scheme="bearer") == (200, {"changed": True})
    assert call(job["secret"]) == (200, {"changed": False})
    assert ref.result(timeout=1) == 5


@pytest.mark.mostly("sqlite")
@pytest.mark.parametrize(
    ("path", "length", "status"),
    [
        ("/callback/1", "-1", 400),
        ("/callback/1", "abc", 400),
        ("/callback/1", "\u00b2", 400),
        ("/callback/1", "9" * 40, 413),
        ("/callback/1", str(2 * 1024 * 1024), 413),
        ("/callback/" + "9" * 40, "11", 404),
        ("/callback/" + "9" * 19, "11", 404),
        ("/callback/%C2%B2", "11", 404),
        ("/elsewhere", "11", 404),
        ("/callback/1", None, 411),
    ],
)
def test_a_request_that_makes_no_sense_is_answered(server, path, length, status, capfd):
    said = "" if length is None else f"Content-Length: {length}\r\n"
    head = f"POST {path} HTTP/1.1\r\nAuthorization: Bearer x\r\n{said}\r\n"
    with socket.create_connection(server.server_address, timeout=30) as connection:
        connection.sendall(head.encode("latin-1") + b'{"ok":true}')
        answer = connection.recv(1_000)

    assert answer.split()[1] == str(status).encode()
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.mostly("sqlite")
def test_a_body_that_does_not_come_is_not_waited_for_forever(server, monkeypatch):
    monkeypatch.setattr("windlass.external.command.server.CallbackHandler.timeout", 0.2)
    head = b"POST /callback/1 HTTP/1.1\r\nAuthorization: Bearer x\r\nContent-Length: 50\r\n\r\n{"
    with socket.create_connection(server.server_address, timeout=30) as connection:
        connection.sendall(head)
        assert connection.recv(1_000).split()[1] == b"408"


@contextlib.contextmanager
def dripping(server, count: int, *, begin: bytes = b"") -> Iterator[list[socket.socket]]:
    """Connections that send a byte now and then, until the server closes them."""
    with contextlib.ExitStack() as stack:
        connections = [
            stack.enter_context(socket.create_connection(server.server_address, timeout=30))
            for _ in range(count)
        ]
        for connection in connections:
            connection.sendall(begin)
        stop = threading.Event()

        def drip() -> None:
            while not stop.wait(0.05):
                for connection in connections:
                    with contextlib.suppress(OSError):
                        connection.send(b"x", socket.MSG_DONTWAIT)

        thread = threading.Thread(target=drip)
        thread.start()
        try:
            yield connections
        finally:
            stop.set()
            thread.join()


def threads_of_the_server() -> int:
    return sum("process_request_thread" in thread.name for thread in threading.enumerate())


def answer_of(connection: socket.socket) -> bytes:
    """The status of the answer; nothing if the server only closes the connection."""
    try:
        said = connection.recv(1_000)
    except ConnectionError:
        said = b""
    return said.split()[1] if said else b""


@pytest.mark.mostly("sqlite")
@pytest.mark.parametrize("begin", [b"", HEAD, HEAD + b"Content-Length: 1000000\r\n\r\n"])
def test_connections_that_drip_hold_few_threads_and_nobody_back(server, begin):
    with dripping(server, 200, begin=begin):
        eventually(lambda: threads_of_the_server() == MOST_CONNECTIONS, 30)

        with socket.create_connection(server.server_address, timeout=60) as honest:
            honest.sendall(HEAD + b'Content-Length: 11\r\n\r\n{"ok":true}')
            answer = answer_of(honest)
        threads = threads_of_the_server()

    assert answer == b"404"
    assert threads <= MOST_CONNECTIONS
    eventually(lambda: not threads_of_the_server(), 30)


@pytest.mark.mostly("sqlite")
@pytest.mark.parametrize(
    ("begin", "answer"),
    [(b"", b""), (HEAD + b"X: ", b""), (HEAD + b"Content-Length: 1000000\r\n\r\n", b"408")],
    ids=["nothing", "head", "body"],
)
def test_a_request_that_drips_has_no_more_than_its_time(server, monkeypatch, begin, answer):
    monkeypatch.setattr("windlass.external.command.server.REQUEST_SECONDS", 0.5)

    with dripping(server, 1, begin=begin) as (connection,):
        assert answer_of(connection) == answer


@pytest.mark.mostly("sqlite")
@pytest.mark.parametrize("begin", [b"POST /", HEAD + b"X: ", HEAD])
def test_a_head_that_does_not_end_is_not_read_into_memory(server, begin):
    with socket.create_connection(server.server_address, timeout=30) as connection:
        connection.sendall(begin)
        lines = b"".join(b"Y: " + b"y" * 5_000 + b"\r\n" for _ in range(14))
        connection.sendall(lines if begin == HEAD else b"x" * LARGEST_HEAD)

        assert answer_of(connection) == b"431"


@pytest.mark.mostly("sqlite")
def test_more_callbacks_at_once_than_there_are_places_are_all_answered(server):
    body = b'Content-Length: 11\r\n\r\n{"ok":true}'

    def call(_: int) -> bytes:
        with socket.create_connection(server.server_address, timeout=60) as connection:
            connection.sendall(HEAD + body)
            return answer_of(connection)

    with ThreadPoolExecutor(4 * MOST_CONNECTIONS) as pool:
        answers = list(pool.map(call, range(4 * MOST_CONNECTIONS)))

    assert set(answers) == {b"404"}


@pytest.mark.mostly("sqlite")
def test_a_server_that_waits_for_a_place_can_be_shut_down(server, monkeypatch):
    monkeypatch.setattr("windlass.cli.connections.PATIENCE_SECONDS", 1_000)

    with dripping(server, 2 * MOST_CONNECTIONS):
        eventually(lambda: threads_of_the_server() == MOST_CONNECTIONS, 30)

        server.shutdown()


def test_a_callback_about_an_old_submission_is_answered_and_changes_nothing(app, clock, server):
    class Open(Spark):
        def submit(self, job: str) -> str:
            self.secrets.append(windlass.context().secret)
            return super().submit(job)

    system = Open()
    system.secrets = []
    again = app.external("again", system, every="1h", retries=1)
    ref = again.enqueue("load")
    app.drain()
    address = f"http://127.0.0.1:{server.server_address[1]}/callback/{ref.id}"

    def call(secret):
        headers = {"Authorization": f"Bearer {secret}"}
        request = urllib.request.Request(address, data=b'{"ok": false}', headers=headers)
        with urllib.request.urlopen(request, timeout=30) as response:
            return json.load(response)

    assert call(system.secrets[0]) == {"changed": True}
    clock.forward("1m")
    app.drain()

    assert call(system.secrets[0]) == {"changed": False}
    assert ref.status() is Status.EXTERNAL
    assert call(system.secrets[1]) == {"changed": True}
    assert ref.status() is Status.FAILED
