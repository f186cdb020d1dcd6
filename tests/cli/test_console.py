"""`windlass console` and `windlass dev`, as processes of their own."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote, urlsplit

import httpx

from tests.spawn import Forked
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
        self.link = line.removeprefix("The console is at ").split()[0].strip(";")
        address = self.link.partition("/login?token=")[0]
        self.client = httpx.Client(base_url=address, trust_env=False, timeout=20)
        eventually(self.is_up, 60, what="the console")

    def follow_link(self) -> httpx.Response:
        """Do as a browser does with the link that was printed."""
        return self.client.get(self.link, follow_redirects=True)

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
    with Forked(
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
        locked = console.client.get("/api/kinds").status_code
        entered = console.follow_link()
        kinds = {kind["kind"] for kind in console.client.get("/api/kinds").json()}
        with console.client.stream("GET", "/api/events"):
            code = console.stop()

    assert {"send_mail", "quick", "refuse", "nightly"} <= kinds
    assert locked == 401
    assert entered.url.path == "/"
    assert not entered.url.query
    assert "this link logs you in, once" in console.said
    assert code == 0


def test_the_link_is_for_one_browser_and_is_not_logged(folder, sqlite_shop):
    with served(folder, "console", f"{sqlite_shop.__name__}:app", "--port", "0") as console:
        console.follow_link()
        with httpx.Client(base_url=console.client.base_url, trust_env=False) as other:
            other.get(console.link, follow_redirects=True)
            overview = other.get("/api/overview").status_code
        console.stop()
        errors = console.process.stderr.read()

    assert overview == 401
    assert console.link.partition("token=")[2] not in errors


def test_open_starts_the_browser_with_a_private_page_and_not_with_the_link(
    folder, sqlite_shop, tmp_path
):
    opened = tmp_path / "opened"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {opened}.part\nmv {opened}.part {opened}\n')
    browser.chmod(0o755)

    arguments = ("console", f"{sqlite_shop.__name__}:app", "--port", "0", "--open")
    with served(folder, *arguments, BROWSER=str(browser)) as console:
        eventually(opened.exists, 60, what="the browser")
        argument = opened.read_text().strip()
        page = Path(unquote(urlsplit(argument).path))
        text = page.read_text()
        mode = page.parent.stat().st_mode & 0o777
        console.follow_link()
        is_gone = not page.exists()
        console.stop()

    assert argument.startswith("file:///")
    assert console.link not in argument
    assert console.link in text
    assert (mode, is_gone) == (0o700, True)
    assert not page.parent.exists()


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


def test_a_short_secret_is_refused_where_others_can_reach_the_console(windlass, sqlite_shop):
    command = ("console", f"{sqlite_shop.__name__}:app", "--host", "0.0.0.0")

    answer = windlass(*command, "--secret", "fifteen letters")
    viewer = windlass(*command, "--secret", SECRET, "--viewer-secret", "fifteen letters")

    assert (answer.code, viewer.code) == (1, 1)
    assert "the secret has 15 characters and is easy to guess; give at least 16" in answer.err
    assert "the viewer_secret has 15 characters" in viewer.err
    assert "fifteen letters" not in answer.err + viewer.err


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
            locked = dev.client.get("/api/rings").status_code
            dev.follow_link()
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

    assert locked == 401
    assert f":{port}/" not in dev.said
    assert len(ring["members"]) == 1
    assert result == "sent to a@b.c"
    assert code == 0


def test_a_session_of_dev_outlives_a_change_of_the_code_and_its_link_does_not_work_again(
    folder, sqlite_shop
):
    def pid() -> int | None:
        try:
            members = dev.client.get("/api/rings").json()["rings"][0]["members"]
        except httpx.TransportError:
            return None
        return members[0]["pid"] if len(members) == 1 else None

    with served(folder, "dev", f"{sqlite_shop.__name__}:app", "--port", "0") as dev:
        dev.follow_link()
        before = eventually(pid, 60, what="the worker")
        (folder / "changed.py").write_text("changed = True\n")
        eventually(lambda: pid() not in (None, before), 60, what="the next worker", poll=0.2)
        with httpx.Client(base_url=dev.client.base_url, trust_env=False) as other:
            other.get(dev.link, follow_redirects=True)
            overview = other.get("/api/overview").status_code
        dev.stop()

    assert overview == 401
