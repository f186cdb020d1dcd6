"""`windlass flow show --watch` on a real terminal, and `windlass callback` as a real process."""

import json
import signal
import sys
import urllib.error
import urllib.request

import pytest

from tests.cli.terminal import Terminal, shown
from tests.fixture.command import open_module
from tests.server.process import free_port
from tests.spawn import Forked
from tests.wait import eventually
from windlass import Status

YARD = """
import time
from pathlib import Path

import windlass
from windlass import App, External

app = App({url!r})

@app.task
def wait_for_gate() -> None:
    while not Path("gate").exists():
        time.sleep(0.01)

@app.task
def tell() -> None: ...

@app.flow
def gated(flow):
    flow.add(tell, after=flow.add(wait_for_gate))

@app.task
def part(number: int) -> None:
    if number % 100 == 7:
        raise ValueError("a part that is broken, of which much could be said on a wide terminal")

@app.flow
def fan(flow):
    flow.add(tell, after=flow.each(part, range(200)), name="after")

class Yard(External):
    def submit(self) -> str:
        Path("secret").write_text(windlass.context().secret)
        return "handle"

    def poll(self, handles):
        return {{}}

yard = app.external("yard", Yard(), every="1h")
"""


@pytest.fixture
def yard(sqlite_url, write_module, monkeypatch):
    yield from open_module(YARD.format(url=sqlite_url), write_module, monkeypatch)


@pytest.fixture
def started(yard, folder):
    """Starts `windlass` processes, and ends them."""
    processes = []

    def start(*arguments):
        command = [sys.executable, "-m", "windlass", *arguments]
        with (folder / "log").open("ab") as log:
            process = Forked(command, cwd=folder, stdout=log, stderr=log)
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.kill()
        process.wait()


def test_watching_a_run_ends_with_it(yard, started, folder):
    run = yard.gated.start()
    started("worker", f"{yard.__name__}:app")

    with Terminal("flow", "show", str(run.id), "--watch") as terminal:
        terminal.wait_for("wait_for_gate")
        terminal.resize(40)
        terminal.wait_for("running")
        (folder / "gate").touch()
        assert terminal.close() == 0
        assert "100.0 %" in terminal.text

    assert run.status() is Status.SUCCEEDED


def test_ctrl_c_ends_the_watching_and_not_the_run(yard, folder):
    run = yard.gated.start()

    with Terminal("flow", "show", str(run.id), "--watch") as terminal:
        terminal.wait_for("wait_for_gate")
        terminal.type("\x03")
        assert terminal.close() == 0

    assert run.status() is Status.RUNNING


def test_a_fan_is_one_line_and_a_node_is_one_line_at_any_width(yard):
    run = yard.fan.start()
    yard.app.drain()

    for columns in (80, 40):
        drawn = shown("flow", "show", str(run.id), columns=columns)
        lines = drawn.splitlines()
        assert max(map(len, lines)) <= columns
        tree = [line.split("● ")[1].split()[0] for line in lines if "● " in line]
        assert tree == ["part-1", "part-8", "part-108", "after"]
        assert "part-1 … part-200" in drawn


def test_runs_are_listed_on_a_narrow_terminal(yard):
    run = yard.gated.start()

    line = shown("flow", "list", columns=44).splitlines()[-1]

    assert line.split()[:3] == [str(run.id), "gated", "running"]


def call(address, secret, body, **headers):
    request = urllib.request.Request(
        address,
        data=json.dumps(body).encode(),
        headers={"Authorization": f"Bearer {secret}", **headers},
    )
    try:
        with urllib.request.urlopen(request, timeout=10) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as problem:
        return problem.code, json.load(problem)
    except OSError:
        return None, None


def test_a_callback_reaches_the_process_that_listens(yard, started, folder):
    ref = yard.yard.enqueue()
    yard.app.drain()
    secret, port = (folder / "secret").read_text(), free_port()
    listening = started("callback", f"{yard.__name__}:app", "--port", str(port))
    address = f"http://127.0.0.1:{port}/callback/{ref.id}"

    eventually(lambda: call(address, "forged", {"ok": True})[0] == 404, 30)
    assert ref.status() is Status.EXTERNAL
    assert call(address, secret, {"ok": "yes"})[0] == 400
    assert call(address + "0", secret, {"ok": True})[0] == 404
    assert call(address, secret, {"ok": True, "result": 7}) == (200, {"changed": True})
    assert call(address, secret, {"ok": False}) == (200, {"changed": False})
    listening.send_signal(signal.SIGTERM)

    assert listening.wait(20) == 0
    assert ref.result(timeout=1) == 7
