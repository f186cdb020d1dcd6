"""The Dockerfile from its first line to its last, on copies of this machine."""

import os
import shutil
import signal
import socket
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest

from scripts.deploy import DEPLOY
from scripts.release import pythons
from scripts.release.content import tracked_files
from tests.story.deploy.dockerfile import ignored_by, in_context, stages_of
from tests.story.deploy.machine import Copy, build, namespace
from tests.tidy.source import ROOT
from tests.wait import eventually

DOCKER = DEPLOY / "docker"
SYSTEM = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@pytest.fixture(scope="module")
def image(tmp_path_factory) -> Copy:
    """The image that the Dockerfile builds."""
    if os.name != "posix" or os.geteuid() != 0 or not shutil.which("unshare"):
        pytest.skip("only root on Linux can change its root")
    python = pythons.find("3.13")
    npm = shutil.which("npm")
    if python is None or npm is None:
        pytest.skip("Python 3.13 and npm play the base images, and one is missing")
    place, context = tmp_path_factory.mktemp("image"), tmp_path_factory.mktemp("context")
    ignored = ignored_by(DOCKER / "Dockerfile.dockerignore")
    for name in tracked_files():
        if in_context(name, ignored):
            (context / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, context / name)
    bases = {
        "python": f"{python.parent}:{SYSTEM}",
        "node": f"{Path(npm).parent}:{SYSTEM}",
    }
    with ExitStack() as stack:
        try:
            own = stack.enter_context(namespace(place))
        except PermissionError as problem:
            pytest.skip(f"this machine lets nobody mount: {problem}")
        yield build(stages_of(DOCKER / "Dockerfile"), context, own, place, bases)


@pytest.mark.slow
def test_the_image_is_built_and_its_worker_and_console_run_as_nobody(image, sqlite_url):
    final = stages_of(DOCKER / "Dockerfile")[-1]
    entry, health = final.words("ENTRYPOINT"), ["python", "/opt/windlass/healthy.py"]
    # What an app's own Dockerfile does.
    shutil.copy(DOCKER / "shop.py", image.within("shop.py"))
    image.within("data").mkdir()
    os.chown(image.within("data"), 10001, 10001)
    image.environment["WINDLASS_DATABASE_URL"] = "sqlite:////srv/app/data/shop.db"
    ports = [_free_port() for _ in range(2)]
    worker = ["worker", "shop:app", "--health", f"127.0.0.1:{ports[0]}", "--grace", "30s"]
    console = ["console", "shop:app", "--port", str(ports[1])]

    version = image.run([*entry, "--version"])
    who = image.run(["id", "-u"])
    where = image.run(["python", "-c", "import windlass.web.static as s; print(s.is_built())"])
    image.run([*entry, "migrate", "--app", "shop:app"])
    with ExitStack() as stack:
        started = []
        for words in (worker, console):
            process = subprocess.Popen(image.command([*entry, *words]), stderr=subprocess.PIPE)
            stack.callback(process.kill)
            started.append(process)
        for port in ports:
            asked = image.command([*health, f"http://127.0.0.1:{port}/readyz"])
            eventually(
                lambda asked=asked: subprocess.run(asked, check=False).returncode == 0,
                60,
                what="an answer of 200",
                poll=0.3,
            )
        for process in started:
            process.send_signal(signal.SIGTERM)
        codes = [process.wait(60) for process in started]

    assert version.startswith("windlass 0.")
    assert who == "10001\n"
    assert where == "True\n"
    assert codes == [0, 0]
    # Nothing that built it is in it.
    assert not image.within("/build").exists()


def _free_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return bound.getsockname()[1]
