"""Worker processes over one database, and the accounts of what they did."""

import contextlib
import os
import signal
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
from sqlalchemy import select

from tests.fault.jobs import Jobs
from tests.server.process import children_of
from tests.spawn import Spawned
from tests.wait import eventually
from windlass.database.schema import task, worker
from windlass.value.status import Status

ROOT = Path(__file__).resolve().parents[2]

MODULE = """
from pathlib import Path

from tests.fault.jobs import Jobs

app = Jobs({url!r}, Path({effects!r}), **{options!r}).app
"""


@dataclass(frozen=True)
class Row:
    """What the database says of a task."""

    id: int
    status: Status
    attempt: int
    lost: int
    batch: int | None
    worker: int | None
    started_at: int | None
    finished_at: int | None
    due_at: int | None
    remark: str | None


class Process:
    """One `windlass worker` process, or a supervisor with its children."""

    def __init__(self, command: list[str], *, folder: Path, name: str, url: str) -> None:
        self.log_path = folder / f"{name}.log"
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "src"))),
            "PYTHONFAULTHANDLER": "1",
            "WINDLASS_DATABASE_URL": url,
        }
        self._process = Spawned(*command, folder=folder, log=self.log_path, environment=environment)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def kill(self) -> None:
        """kill -9, and wait until it is gone."""
        self._process.kill()
        self._process.wait()

    def pause(self) -> None:
        """Stop it, and wait until each of its threads stands still: one may be writing a file."""
        self.signal(signal.SIGSTOP)
        eventually(self._stands_still, what="a process that stands still")

    def _stands_still(self) -> bool:
        threads = Path(f"/proc/{self.pid}/task").glob("*/stat")
        # After the name, which may have anything in it, comes the state.
        return all(each.read_text().rpartition(")")[2].split()[0] == "T" for each in threads)

    def resume(self) -> None:
        self.signal(signal.SIGCONT)

    def terminate(self, timeout: float = 20.0) -> int:
        """Ask it to stop in good order; its exit code."""
        self.signal(signal.SIGTERM)
        return self.wait(timeout)

    def wait(self, timeout: float = 20.0) -> int:
        return self._process.wait(timeout)

    @property
    def log(self) -> str:
        return self.log_path.read_text(errors="replace")

    def events(self, name: str) -> list[dict[str, Any]]:
        """The events of that name in its log, in order."""
        found = []
        for line in self.log.splitlines():
            with contextlib.suppress(msgspec.DecodeError):
                event = msgspec.json.decode(line)
                if isinstance(event, dict) and event.get("event") == name:
                    found.append(event)
        return found

    def has_joined(self, times: int = 1) -> bool:
        if not self.is_running:
            raise AssertionError(f"the worker ended with {self._process.returncode}:\n{self.log}")
        return len(self.events("worker.joined")) >= times

    @property
    def workers(self) -> list[int]:
        """The ids under which it joined."""
        return [event["worker"] for event in self.events("worker.joined")]


class Crew:
    """Starts worker processes, and ends all of them at the end of the test."""

    def __init__(self, folder: Path, url: str, **options: str) -> None:
        self.folder = folder
        self.url = url
        self.processes: list[Process] = []
        self._numbers = count(1)
        effects = folder / "effects"
        self.settings = {"lease": "5s", "dead_after": "2s", "grace": "10s", **options}
        self.jobs = Jobs(url, effects, **self.settings)
        self.effects = self.jobs.effects
        self.jobs.app.migrate()
        module = MODULE.format(url=url, effects=str(effects), options=self.settings)
        (folder / "served.py").write_text(module)

    def start(
        self,
        *options: str,
        url: str | None = None,
        members: str | None = None,
        prelude: str = "",
        joined: bool = True,
    ) -> Process:
        """Start a worker and wait until it has joined.

        `url` and `members` lead it another way there; `prelude` is run before its app is made.
        """
        number = next(self._numbers)
        module = "served"
        if url or members or prelude:
            module = f"served_{number}"
            source = (self.folder / "served.py").read_text()
            for usual, other in ((self.url, url), (self.settings.get("members"), members)):
                if usual and other:
                    source = source.replace(usual, other)
            (self.folder / f"{module}.py").write_text(prelude + source)
        command = ["windlass", "worker", f"{module}:app", "--json", *options]
        process = Process(command, folder=self.folder, name=f"worker-{number}", url=url or self.url)
        self.processes.append(process)
        if joined:
            eventually(process.has_joined, 60.0, what="a worker that has joined")
        return process

    def start_many(self, count: int, *options: str) -> list[Process]:
        """Start that many workers at once, and wait until all have joined."""
        started = [self.start(*options, joined=False) for _ in range(count)]
        for process in started:
            eventually(process.has_joined, 60.0, what="a worker that has joined")
        return started

    def close(self) -> None:
        for process in self.processes:
            children = children_of(process.pid)
            for pid in (process.pid, *children):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            process.wait()
        self.jobs.app.close()

    def rows(self, ids: Iterable[int] | None = None) -> dict[int, Row]:
        """The rows of the database, by id."""
        columns = [task.c[name] for name in Row.__dataclass_fields__]
        query = select(*columns)
        found = self.jobs.app.database.read(lambda connection: connection.execute(query).all())
        wanted = None if ids is None else set(ids)
        rows = [Row(row[0], Status(row[1]), *row[2:]) for row in found]
        return {row.id: row for row in rows if wanted is None or row.id in wanted}

    def wait_busy(self, *processes: Process) -> None:
        """Wait until each of these has ended some tasks."""
        pids = {process.pid for process in processes or self.processes}

        def are_busy() -> bool:
            return pids <= {effect.pid for effect in self.effects.all() if effect.what == "end"}

        eventually(are_busy, 60.0, what="workers that are all busy")

    def wait_busy_with(self, ids: Iterable[int], process: Process) -> None:
        """Wait until this process has ended one of these tasks."""
        wanted = set(ids)

        def is_busy() -> bool:
            ended = [effect for effect in self.effects.all() if effect.what == "end"]
            return any(each.pid == process.pid and each.task_id in wanted for each in ended)

        eventually(is_busy, 20.0, what="a worker that is busy")

    def wait_written_down(self, count: int) -> None:
        """Until so many rows are known to run: what has just begun is not written down."""

        def are_known() -> bool:
            rows = self.rows().values()
            return sum(row.status == Status.RUNNING for row in rows) == count

        eventually(are_known, what=f"{count} rows that are marked as running")

    def left(self) -> dict[int, str | None]:
        """Why each worker left, by id; None while it is there."""
        query = select(worker.c.id, worker.c.left_at, worker.c.left_why)
        found = self.jobs.app.database.read(lambda connection: connection.execute(query).all())
        return {row[0]: None if row[1] is None else row[2] for row in found}

    def done(self) -> int:
        """How many tasks have succeeded."""
        return sum(row.status is Status.SUCCEEDED for row in self.rows().values())

    def are_done(self, ids: Iterable[int]) -> bool:
        """Whether all have succeeded; fails when one never will."""
        ends = (Status.SUCCEEDED, Status.FAILED, Status.CANCELLED)
        query = select(task.c.id, task.c.status).where(task.c.status.in_(ends))
        found = self.jobs.app.database.read(lambda connection: connection.execute(query).all())
        wanted = set(ids)
        ended = {row.id: Status(row.status) for row in found if row.id in wanted}
        failed = {key: status for key, status in ended.items() if status is not Status.SUCCEEDED}
        assert not failed, f"{len(failed)} tasks did not succeed, as {next(iter(failed.items()))}"
        return len(ended) == len(wanted)

    def wait_done(self, ids: Iterable[int], timeout: float = 30.0) -> dict[int, Row]:
        """Wait until all have succeeded; their rows."""
        wanted = set(ids)
        try:
            eventually(lambda: self.are_done(wanted), timeout, what=f"{len(wanted)} tasks done")
        except AssertionError as error:
            open_rows = [
                row for row in self.rows(wanted).values() if row.status is not Status.SUCCEEDED
            ]
            logs = "\n".join(process.log[-3000:] for process in self.processes)
            raise AssertionError(
                f"{error}; {len(open_rows)} open: {open_rows[:5]}\n{logs}"
            ) from None
        return self.rows(wanted)


def ids_of(refs: Iterable[Any]) -> list[int]:
    return [ref.id for ref in refs]


def check_accounts(crew: Crew, ids: Iterable[int], *, slept: Collection[int] = ()) -> None:
    """Nothing is lost, attempts are right, and every run is accounted for.

    An attempt that was handed back is not counted, so effects may exceed attempts only there.
    """
    rows = crew.rows(ids)
    begun, ended = crew.effects.count("begin"), crew.effects.count("end")
    assert set(rows) == set(ids)
    assert {row.id for row in rows.values() if row.status is not Status.SUCCEEDED} == set()
    assert {row.id: row.attempt for row in rows.values() if row.attempt != 1 + row.lost} == {}
    assert {number for number in rows if not ended[number]} == set()
    assert {number for number in rows if begun[number] < ended[number]} == set()
    check_fences(crew, slept=slept)


def check_fences(crew: Crew, *, slept: Collection[int] = ()) -> None:
    """A later attempt of a task always has the larger fence.

    A process that was stopped may be late with what it began to do before: its fence is then the
    smaller one, by which everybody knows it.
    """
    in_time: dict[int, list[int]] = {}
    late: dict[int, set[int]] = {}
    for effect in crew.effects.all():
        if effect.what != "begin":
            continue
        if effect.pid in slept:
            late.setdefault(effect.task_id, set()).add(effect.fence)
        else:
            in_time.setdefault(effect.task_id, []).append(effect.fence)
    assert {number: seen for number, seen in in_time.items() if seen != sorted(set(seen))} == {}
    assert {
        number for number, seen in in_time.items() if max(late.get(number, {0})) >= seen[-1]
    } == set()
