"""`windlass console` and `windlass dev`, as processes of their own."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from tests.wait import eventually
from windlass.web.serve import bind

SECRET = "correct horse battery staple"


class Served:
    """A command that serves the console."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        line = process.stdout.readline()
        assert line.startswith("The console is at http://"), line + process.stderr.read()
        self.said = line
        address = line.removeprefix("The console is at ").split(";")[0].strip().rstrip(".")
        self.client = httpx.Client(base_url=address, trust_env=False, timeout=20)
        eventually(self.is_up, 60, what="the console")

    def is_up(self) -> bool:
        assert self.process.poll() is None, self.process.stderr.read()
        try:
            return self.client.get("/api/health").status_code == 200
        except httpx.TransportError:
            return False

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


@contextmanager
def served(folder, *arguments: str, **environment: str) -> Iterator[Served]:
    with subprocess.Popen(
        [sys.executable, "-m", "windlass", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONUNBUFFERED": "1", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield Served(process)
        finally:
            process.kill()


def test_the_console_is_served_until_it_is_told_to_stop(folder, sqlite_shop):
    with served(folder, "console", f"{sqlite_shop.__name__}:app", "--port", "0") as console:
        kinds = {kind["kind"] for kind in console.client.get("/api/kinds").json()}
        with console.client.stream("GET", "/api/events"):
            code = console.stop()

    assert {"send_mail", "quick", "refuse", "nightly"} <= kinds
    assert "anyone on this machine may act" in console.said
    assert code == 0


def test_answers_are_sent_without_delay():
    with bind("127.0.0.1", 0) as bound:
        assert bound.proto == socket.IPPROTO_TCP


def test_the_secret_comes_from_the_environment_and_is_not_said(folder, sqlite_shop):
    with served(
        folder,
        *("console", f"{sqlite_shop.__name__}:app", "--port", "0", "--read-only"),
        WINDLASS_CONSOLE_SECRET=SECRET,
    ) as console:
        closed = console.client.get("/api/overview").status_code
        bearer = {"Authorization": f"Bearer {SECRET}"}
        opened = console.client.get("/api/overview", headers=bearer).status_code
        change = console.client.post("/api/switches/quick/pause", json={}, headers=bearer)
        console.stop()
        errors = console.process.stderr.read()

    assert (closed, opened, change.status_code) == (401, 200, 403)
    assert SECRET not in console.said + errors


def test_it_does_not_start_where_others_could_reach_it_without_a_secret(windlass, sqlite_shop):
    answer = windlass("console", f"{sqlite_shop.__name__}:app", "--host", "0.0.0.0")

    assert answer.code == 1
    assert "without a secret the console is served to this machine only" in answer.err
    assert "--secret or $WINDLASS_CONSOLE_SECRET" in answer.err


def test_a_port_that_is_taken_is_told(windlass, sqlite_shop):
    with bind("127.0.0.1", 0) as taken:
        taken.listen()
        port = str(taken.getsockname()[1])
        answer = windlass("console", f"{sqlite_shop.__name__}:app", "--port", port)

    assert answer.code == 1
    assert f"cannot serve on 127.0.0.1:{port}" in answer.err
    assert "give another --port" in answer.err


def test_an_empty_secret_is_none(windlass, sqlite_shop, monkeypatch):
    monkeypatch.setenv("WINDLASS_CONSOLE_SECRET", "")

    answer = windlass("console", f"{sqlite_shop.__name__}:app", "--host", "0.0.0.0")

    assert answer.code == 1
    assert "without a secret" in answer.err


def test_dev_has_a_worker_and_the_console_and_takes_another_port_if_need_be(folder, sqlite_shop):
    with bind("127.0.0.1", 0) as taken:
        taken.listen()
        port = str(taken.getsockname()[1])
        with served(folder, "dev", f"{sqlite_shop.__name__}:app", "--port", port) as dev:
            (ring,) = eventually(
                lambda: [
                    each for each in dev.client.get("/api/rings").json()["rings"] if each["members"]
                ],
                60,
                what="the worker",
            )
            ref = sqlite_shop.send_mail.enqueue("a@b.c")
            result = ref.result(timeout="30s")
            code = dev.stop()

    assert f":{port}" not in dev.said
    assert len(ring["members"]) == 1
    assert result == "sent to a@b.c"
    assert code == 0
