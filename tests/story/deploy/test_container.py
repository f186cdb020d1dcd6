"""The Dockerfile and the Compose file, as far as they can be tried without Docker."""

import os
import re
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack

import pytest
import yaml

from scripts.deploy import DEPLOY
from scripts.release.content import tracked_files
from tests.spawn import Forked
from tests.story.deploy.dockerfile import copies_of, ignored_by, in_context, stages_of
from tests.story.reader import check_options
from tests.tidy.source import ROOT
from tests.wait import eventually

DOCKER = DEPLOY / "docker"
STAGES = stages_of(DOCKER / "Dockerfile")
COMPOSE = yaml.safe_load((DOCKER / "compose.yaml").read_text())
PORTS = ("8484", "8485")


def test_what_the_dockerfile_copies_is_in_the_repository_and_in_the_context():
    ignored = ignored_by(DOCKER / "Dockerfile.dockerignore")
    context = {name for name in tracked_files() if in_context(name, ignored)}

    copied = [copies_of(said) for stage in STAGES for step, said in stage.steps if step == "COPY"]

    sources = [source for taken, names, _ in copied if taken is None for source in names]
    missing = [
        source
        for source in sources
        if not any(name == source or name.startswith(f"{source}/") for name in context)
    ]
    assert sources
    assert missing == []
    assert {taken for taken, _, _ in copied} - {None} <= {stage.name for stage in STAGES}
    # Only what is copied makes a new build necessary.
    roots = {name.split("/")[0] for name in context}
    assert roots == {source.split("/")[0] for source in sources}


def test_the_image_runs_as_nobody_and_starts_the_command_itself():
    final = STAGES[-1]

    assert final.last("USER") == "10001:10001"
    assert "--uid 10001" in "".join(said for step, said in final.steps if step == "RUN")
    assert final.words("ENTRYPOINT") == ["windlass"]
    assert subprocess.run([sys.executable, "-m", "windlass", *final.words("CMD")], check=True)
    health = final.last("HEALTHCHECK")
    assert health.endswith('CMD ["python", "/opt/windlass/healthy.py"]')
    assert ("COPY", "deploy/docker/healthy.py /opt/windlass/healthy.py") in final.steps


def test_nothing_secret_is_in_the_image_and_all_that_is_installed_is_pinned():
    told = (DOCKER / "Dockerfile").read_text()

    installs = re.findall(r"pip install [^\\&\n]*", told)
    assert installs
    assert all("--require-hashes" in each or "--no-deps" in each for each in installs)
    assert not re.search(r"^(ARG|ENV).*(SECRET|PASSWORD|TOKEN)", told, re.MULTILINE)


def test_the_compose_file_starts_commands_that_there_are_and_lets_workers_finish():
    services = COMPOSE["services"]
    ours = {name: each for name, each in services.items() if name != "database"}

    for each in ours.values():
        check_options(" ".join(["windlass", *each["command"]]))
        assert set(each["depends_on"]) <= set(services)
        assert each["read_only"]
        assert each["cap_drop"] == ["ALL"]

    assert (DOCKER / COMPOSE["x-windlass"]["volumes"][0].split(":")[0]).is_file()
    build = services["migrate"]["build"]
    assert (DOCKER / build["context"] / build["dockerfile"]).resolve() == DOCKER / "Dockerfile"
    worker = services["worker"]
    grace = int(worker["command"][worker["command"].index("--grace") + 1].removesuffix("s"))
    assert int(worker["stop_grace_period"].removesuffix("s")) >= grace + 15


@pytest.mark.mostly("sqlite")
def test_the_services_of_the_compose_file_run_as_written(empty_database_url, tmp_path):
    (tmp_path / "shop.py").write_text((DOCKER / "shop.py").read_text())
    free = dict(zip(PORTS, _free_ports(2), strict=True))
    environment = os.environ | {
        "WINDLASS_DATABASE_URL": empty_database_url,
        "WINDLASS_CONSOLE_SECRET": "correct horse battery",
    }

    def start(name):
        words = [_moved(word, free) for word in COMPOSE["services"][name]["command"]]
        words += ["--port", free["8484"]] if name == "console" else []
        command = [sys.executable, "-m", "windlass", *words]
        return Forked(command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE)

    def is_healthy(name):
        address = _moved(COMPOSE["services"][name]["healthcheck"]["test"][-1], free)
        command = [sys.executable, DOCKER / "healthy.py", address]
        return subprocess.run(command, check=False).returncode == 0

    assert start("migrate").wait(60) == 0
    with ExitStack() as stack:
        started = [start("worker"), start("console")]
        for process in started:
            stack.callback(process.kill)
        eventually(lambda: is_healthy("worker"), 60, what="a worker that is alive")
        eventually(lambda: is_healthy("console"), 60, what="a console that is alive")
        for process in started:
            process.send_signal(signal.SIGTERM)
        codes = [process.wait(60) for process in started]

    assert codes == [0, 0]
    assert not is_healthy("worker")


def _moved(word: str, free: dict[str, str]) -> str:
    """The same with ports that are free on this machine."""
    for port, other in free.items():
        word = word.replace(port, other)
    return word


def _free_ports(count: int) -> list[str]:
    with ExitStack() as stack:
        bound = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in bound:
            each.bind(("127.0.0.1", 0))
        return [str(each.getsockname()[1]) for each in bound]


def test_the_files_are_told_in_the_guide():
    guide = (ROOT / "docs" / "guide" / "deploy.md").read_text()

    for folder in sorted(path.name for path in DEPLOY.iterdir() if path.is_dir()):
        assert f"deploy/{folder}" in guide
