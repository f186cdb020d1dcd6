"""The life of one private server process."""

import atexit
import contextlib
import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
import tempfile
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Self

from scripts import newer_servers
from tests.wait import eventually

# The environment variable that says which servers are tested: "" those of the system, "newest" the
# newest releases, "pgbouncer" PostgreSQL behind a pooler.
WHICH = "WINDLASS_TEST_SERVERS"

START_SECONDS = 60.0
STOP_SECONDS = 60.0

# Runs beside the server and holds a pipe from us. When the pipe closes because we
# are gone, however that came about, it ends the server and removes its files.
GUARD = """
trap '' INT TERM HUP
read -r _
kill "-$3" "$1"
for _ in 1 2 3 4 5 6 7 8 9 10; do kill -0 "$1" || break; sleep 0.3; done
kill -KILL "$1"
rm -rf "$2"
"""


class ServerMissing(Exception):
    """The server's programs are not installed here."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Daemon(ABC):
    """A server that lives in a directory of its own, listening on one port of the loopback.

    `fast` gives up durability for speed: right for tests that never kill the server.
    Port and data outlive `stop` and `kill`; `close` removes them.
    """

    account: str
    """The system's user that owns the server when we are root."""

    stop_signal = signal.SIGTERM
    quick_signal = signal.SIGQUIT
    """Ends a `fast` server whose data nobody needs any more."""

    def __init__(self, *, fast: bool = False) -> None:
        self.fast = fast
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: subprocess.Popen[bytes] | None = None
        self.find()
        self.directory = Path(tempfile.mkdtemp(prefix=f"windlass-{type(self).__name__.lower()}-"))
        self._user = self.account if os.geteuid() == 0 else None
        if self._user:
            shutil.chown(self.directory, self._user, self._user)
        atexit.register(self.close)

    @property
    @abstractmethod
    def url(self) -> str:
        """Where clients find it."""

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int | None:
        """The process that the server's other processes come from, while it runs."""
        return self._process.pid if self._process is not None else None

    @property
    def log(self) -> Path:
        return self.directory / "server.log"

    def start(self) -> Self:
        """Start the server and wait until it answers; the first time, create its data."""
        if self.is_running:
            return self
        is_new = not self.data.exists()
        if is_new:
            self.create()
        self.launch()
        self.wait()
        if is_new:
            self.prepare()
        return self

    def launch(self) -> None:
        """Start the server's process, and do not wait for it."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self.command(), stdout=log, stderr=log, **self._as_account()
            )
        self._guard = self._start_guard(self._process.pid)

    def wait(self) -> None:
        """Wait until the server answers."""
        eventually(self._answers, START_SECONDS, what=f"{type(self).__name__} on {self.port}")

    def stop(self) -> None:
        """Shut the server down in good order, closing its clients' connections."""
        self._end(self.stop_signal)

    def kill(self) -> None:
        """End every process of the server at once, with no chance to write anything more."""
        if self._process is None:
            return
        # A stopped parent cannot start another child while its children are listed.
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGSTOP)
            for child in children_of(self._process.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)
        self._end(signal.SIGKILL)

    def restart(self) -> Self:
        """Stop the server, if it runs, and start it on the same port with the same data."""
        self.stop()
        return self.start()

    def close(self) -> None:
        """Stop the server and remove its files."""
        atexit.unregister(self.close)
        if self.fast:
            self._end(self.quick_signal)
        else:
            self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def data(self) -> Path:
        return self.directory / "data"

    @abstractmethod
    def find(self) -> None:
        """Find the server's programs, or raise `ServerMissing`."""

    @abstractmethod
    def create(self) -> None:
        """Make the server's data directory."""

    def prepare(self) -> None:  # noqa: B027 - most need nothing
        """Make what is there from the first start on."""

    @abstractmethod
    def command(self) -> list[str]:
        """The command that runs the server in the foreground."""

    @abstractmethod
    def ping(self) -> None:
        """Connect and disconnect, or raise what the driver raises."""

    def run(self, command: list[str], *, given: str = "") -> None:
        """Run one of the server's tools to its end, as the server's user."""
        account = self._as_account()
        del account["stdin"]
        text = given.encode()
        done = subprocess.run(command, input=text, capture_output=True, check=False, **account)
        if done.returncode:
            output = (done.stdout + done.stderr).decode(errors="replace")
            raise RuntimeError(f"{command[0]} failed with {done.returncode}:\n{output}")

    def _answers(self) -> bool:
        if not self.is_running:
            lines = self.log.read_text(errors="replace").splitlines()[-20:]
            raise RuntimeError(f"{type(self).__name__} did not start:\n" + "\n".join(lines))
        try:
            self.ping()
        except Exception:  # noqa: BLE001 - each driver has its own errors
            return False
        return True

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(how)
            try:
                self._process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None
        if self._guard is not None:
            self._guard.kill()
            self._guard.communicate()
            self._guard = None

    def _start_guard(self, pid: int) -> subprocess.Popen[bytes]:
        how = self.quick_signal.name.removeprefix("SIG")
        return subprocess.Popen(
            ["/bin/sh", "-c", GUARD, "guard", str(pid), str(self.directory), how],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def _as_account(self) -> dict[str, object]:
        # A session of its own keeps the terminal's Ctrl-C away from the server.
        options: dict[str, object] = {
            "cwd": self.directory,
            "env": {"PATH": os.defpath, "LC_ALL": "C.UTF-8"},
            "start_new_session": True,
            "stdin": subprocess.DEVNULL,
        }
        if self._user:
            group = pwd.getpwnam(self._user).pw_gid
            options |= {"user": self._user, "group": group, "extra_groups": []}
        return options


class Server(Daemon):
    """A database server."""

    @property
    def url(self) -> str:
        """The URL of the database `windlass`, which exists from the first start on."""
        return self.url_of("windlass")

    def prepare(self) -> None:
        self.create_database("windlass")

    @abstractmethod
    def url_of(self, database: str) -> str:
        """The URL of one of the server's databases."""

    @abstractmethod
    def execute(self, *statements: str) -> None:
        """Run statements one by one, each in its own transaction, as the server's owner."""

    @abstractmethod
    def create_database(self, name: str) -> str:
        """Create an empty database and return its URL."""

    @abstractmethod
    def drop_database(self, name: str) -> None:
        """Drop a database, cutting off whoever is connected to it."""


def free_port() -> int:
    """A port nobody listens on, below those that the system hands to clients.

    So no outgoing connection can take it while its server is down.
    """
    candidates = random.sample(range(20_000, 32_000), 200)
    for port in candidates:
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise RuntimeError("no free port between 20000 and 32000")


def is_newest_wanted() -> bool:
    """Whether this run tests the newest release of each server, not those of the system."""
    return os.environ.get(WHICH) == "newest"


def newest_program(name: str, *, of: str) -> Path:
    """A program of the release that `scripts/newer_servers.py` unpacked."""
    if not newer_servers.is_there(of):
        raise ServerMissing(f"no newer {of} was unpacked; run: make newer-servers")
    return newer_servers.programs_of(of) / name


def find_program(name: str, *, beside: tuple[str, ...] = (), of: str = "") -> Path:
    """Find a program on the PATH, in the system's directories or in those given.

    It is the newest one of the server `of`, if such are wanted.
    """
    # Old poolers know no prepared statements, which drivers of users take for granted.
    if of and (is_newest_wanted() or os.environ.get(WHICH) == of):
        return newest_program(name, of=of)
    path = os.pathsep.join((*beside, os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"))
    found = shutil.which(name, path=path)
    if found is None:
        raise ServerMissing(f"program {name!r} not found; install its package: make servers")
    return Path(found)


def require_account(name: str) -> None:
    """Raise `ServerMissing` when we are root and the server's own user does not exist."""
    if os.geteuid() != 0:
        return
    try:
        pwd.getpwnam(name)
    except KeyError:
        raise ServerMissing(f"user {name!r} does not exist, and root may not run it") from None


def children_of(pid: int) -> list[int]:
    """The direct children of a process."""
    listed = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, check=False)
    return [int(child) for child in listed.stdout.split()]
