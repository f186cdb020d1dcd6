"""The private servers of the tests do what fault tests rely on."""

import os
import signal
import subprocess
import sys
from urllib.parse import urlsplit

import psycopg
import pymysql
import pytest

from tests.fixture.database import SERVERS
from tests.server import Etcd, MariaDB, MySQL, PostgreSQL, ServerMissing, ZooKeeper
from tests.server.process import children_of
from tests.tidy.source import ROOT
from tests.wait import eventually

START_AND_SLEEP = """
import signal
from tests.server import {name}
server = {name}(fast=True).start()
print(server.pid, server.directory, flush=True)
signal.pause()
"""

HOW = pytest.mark.parametrize(
    "how",
    [
        pytest.param(signal.SIGKILL, id="killed"),
        pytest.param(signal.SIGINT, id="interrupted", marks=pytest.mark.slow),
    ],
)


# MySQL is started, killed and ended by the code of MariaDB, and takes four times as long.
OWN = [PostgreSQL, MariaDB, pytest.param(MySQL, marks=pytest.mark.slow)]


@pytest.fixture(params=OWN, ids=SERVERS, scope="module")
def own_server(request):
    try:
        server = request.param()
    except ServerMissing as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(error.reason)
    with server:
        yield server


@pytest.fixture
def server(own_server):
    return own_server.start()


def test_what_was_committed_survives_the_death_of_the_server(server):
    with connect(server.url) as connection:
        connection.cursor().execute("create table mark (id integer)")
        connection.cursor().execute("insert into mark values (7)")
        connection.commit()

    server.kill()
    server.start()

    with connect(server.url) as connection, connection.cursor() as cursor:
        cursor.execute("select id from mark")
        assert cursor.fetchall() in ([(7,)], ((7,),))


def test_a_killed_server_leaves_no_process(server):
    open_connection = connect(server.url)
    processes = [server.pid, *children_of(server.pid)]

    server.kill()

    assert not server.is_running
    eventually(lambda: not any(map(is_alive, processes)), what="the end of all processes")
    open_connection.close()


def test_a_restarted_server_keeps_its_address(server):
    url = server.url

    server.restart()

    assert server.url == url
    connect(url).close()


@HOW
def test_a_server_ends_with_the_run_that_started_it(own_server, how):
    check_end_with_its_run(type(own_server).__name__, how)


@HOW
def test_a_coordinator_ends_with_the_run_that_started_it(coordinator, how):
    check_end_with_its_run(type(coordinator).__name__, how)


def test_a_coordinator_keeps_its_address_when_it_is_killed_and_forgets_only_when_told(coordinator):
    url = coordinator.url

    coordinator.kill()
    assert not coordinator.is_running
    assert coordinator.data.exists()
    coordinator.lose_data()
    coordinator.start()

    assert coordinator.url == url
    coordinator.ping()


@pytest.mark.parametrize("kind", [Etcd, ZooKeeper])
def test_a_coordinator_that_is_not_installed_is_named(kind, monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("tests.server.process.shutil.which", lambda *_, **__: None)

    with pytest.raises(ServerMissing, match="make servers"):
        kind()


def test_a_system_without_apt_is_told_which_server_is_missing(tmp_path):
    done = unpack(PATH=str(tmp_path), WINDLASS_SERVERS=str(tmp_path / "servers"))

    assert done.returncode == 0
    assert "not unpacked: mysql: this system has no apt" in done.stderr
    assert "tests that need it will be skipped" in done.stderr
    assert not (tmp_path / "servers" / "mysql").exists()


def test_what_was_unpacked_is_not_fetched_again(tmp_path):
    (tmp_path / "mysql").mkdir()
    (tmp_path / "mysql" / "version").write_text("9.7.4\n")

    done = unpack(PATH="", WINDLASS_SERVERS=str(tmp_path))

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def unpack(**environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "scripts.newer_servers", "mysql"],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def check_end_with_its_run(name: str, how: signal.Signals) -> None:
    script = START_AND_SLEEP.format(name=name)
    run = subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    pid, directory = run.stdout.readline().split()

    run.send_signal(how)
    run.communicate()

    eventually(lambda: not is_alive(int(pid)), what="the end of the server")
    eventually(lambda: not os.path.exists(directory), what="the removal of its files")


def connect(url: str):
    parts = urlsplit(url)
    if parts.scheme == "postgresql":
        return psycopg.connect(url)
    return pymysql.connect(
        host=parts.hostname,
        port=parts.port,
        user=parts.username,
        database=parts.path.removeprefix("/"),
        ssl_disabled=True,
    )


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
