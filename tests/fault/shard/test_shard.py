"""Shards whose servers die, and movers that are killed between any two of their steps."""

import random
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import select

from tests.fault.crew import Process
from tests.fault.jobs import Effects
from tests.wait import eventually
from windlass import App, Status
from windlass.database import schema
from windlass.value.status import Status as State

MODULE = """
from pathlib import Path

from tests.fault.shard.test_shard import declare

app, work, level = declare({urls!r}, Path({effects!r}), members={members!r})
"""

# For each step, a process that kills itself when it is about to take it.
KILLED_MOVERS = """
import os, signal, sys
import tests.fault.shard.test_shard
from windlass.core.shard import move
from windlass.operate.shard import operate as shard

move.BATCH, move.PAGE, shard.HEARD_SECONDS = 3, 10, 0.0

def die(*_args, **_options):
    os.kill(os.getpid(), signal.SIGKILL)

for step in sys.argv[1:]:
    if os.fork() == 0:
        import served

        setattr(move.Mover, step, die)
        shard.move(served.app.fleet, "1", dead_after=2_000_000, due=True)
        os._exit(0)
    _, status = os.wait()
    print(step, os.waitstatus_to_exitcode(status), flush=True)
"""

STEPS = ("_move", "_finish", "_copy", "_next", "_arrive", "_close")
NAMES = [f"load-{number}" for number in range(12)]


def declare(urls, effects_path, *, members=None):
    """An app over shards whose tasks leave a trace when they run."""
    app = App(*urls, lease="5s", dead_after="2s", grace="10s", members=members)
    effects = Effects(effects_path)

    @app.task(keep="1h")
    def work(number: int) -> int:
        effects.append("begin")
        return number

    @app.rolling(every="1d")
    def level(code: str) -> str:
        return f"{code} seen"

    return app, work, level


class Fleet:
    """An app over shards in this process, and other processes that serve it."""

    def __init__(self, folder: Path, urls: list[str], *, members: str | None = None) -> None:
        self.folder = folder
        self.urls = urls
        effects = folder / "effects"
        self.app, self.work, self.level = declare(urls, effects, members=members)
        self.effects = Effects(effects)
        self.app.migrate()
        text = MODULE.format(urls=urls, effects=str(effects), members=members)
        (folder / "served.py").write_text(text)
        self.processes: list[Process] = []

    def run(self, *command: str) -> Process:
        name = f"process-{len(self.processes) + 1}"
        made = Process(list(command), folder=self.folder, name=name, url=self.urls[0])
        self.processes.append(made)
        return made

    def worker(self) -> Process:
        process = self.run("windlass", "worker", "served:app", "--json")
        eventually(lambda: process.has_joined(len(self.urls)), 20.0, what="a worker of all shards")
        return process

    def rows(self) -> list[list[dict]]:
        return [
            shard.database.read(
                lambda connection: [
                    dict(row) for row in connection.execute(select(schema.task)).mappings()
                ]
            )
            for shard in self.app.fleet.shards
        ]

    def close(self) -> None:
        for process in self.processes:
            if process.is_running:
                process.kill()
        self.app.close()


@contextmanager
def fleet_over(folder: Path, *urls: str, members: str | None = None) -> Iterator[Fleet]:
    fleet = Fleet(folder, list(urls), members=members)
    try:
        yield fleet
    finally:
        fleet.close()


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def fleet(request, site_of, tmp_path) -> Iterator[Fleet]:
    """Two shards of one engine, durable ones."""
    if request.param == "sqlite":
        urls = [f"sqlite:///{tmp_path / name}.db" for name in "ab"]
    else:
        urls = [site_of(request.param).url, site_of(request.param).url]
    with fleet_over(tmp_path, *urls) as made:
        yield made


def test_a_mover_that_is_killed_before_any_step_loses_and_doubles_nothing(fleet, tmp_path):
    (tmp_path / "killed.py").write_text(KILLED_MOVERS)
    numbers = range(60)
    fleet.work.using(delay="1h").enqueue_many(
        [{"number": number} for number in numbers], keys=[f"k{number}" for number in numbers]
    )
    fleet.level.add(f"c{number}" for number in range(40))
    for name in NAMES:
        fleet.app.control.start(name)
        fleet.app.control.finish(name)
    shard = fleet.app.fleet.shards[0]
    fleet.app.fleet.change(lambda roster: roster.drained(shard.ring))

    killed = fleet.run("killed", *STEPS)
    assert killed.wait(60) == 0, killed.log
    moved = fleet.run("windlass", "shard", "move", "1", "--app", "served:app", "--json")

    assert killed.log.splitlines() == [f"{step} -9" for step in STEPS]
    assert moved.wait(60) == 0, moved.log
    emptied, full = fleet.rows()
    assert emptied == []
    assert Counter(row["task_key"] for row in full) == Counter(
        [*(f"k{number}" for number in numbers), *(f"c{number}" for number in range(40))]
    )
    assert {(row["status"], row["batch"], row["attempt"]) for row in full} == {(0, None, 0)}
    assert fleet.level.freshness().total == 40
    assert {fleet.app.control.get(name).status for name in NAMES} == {0}


@pytest.mark.slow
def test_rows_move_under_load_while_movers_are_killed_at_random(fleet, tmp_path):
    chance = random.Random(5)
    fleet.worker()
    shard = fleet.app.fleet.shards[0]
    refs = []

    for turn in range(6):
        delay = f"{chance.randint(1, 4)}s"
        many = [{"number": turn * 100 + index} for index in range(40)]
        keys = [f"k{turn}-{index}" for index in range(40)]
        refs += fleet.work.using(delay=delay).enqueue_many(many, keys=keys)
        refs += fleet.work.using(delay=delay).enqueue_many(many)
        refs += fleet.work.enqueue_many(many[:5])
        drains = turn % 2 == 0
        fleet.app.fleet.change(
            lambda roster, drains=drains: (
                roster.drained(shard.ring) if drains else roster.opened(shard.ring)
            )
        )
        mover = fleet.run("windlass", "shard", "move", "1", "--app", "served:app")
        time.sleep(chance.uniform(0.4, 0.9))
        mover.kill()
    fleet.app.fleet.change(lambda roster: roster.drained(shard.ring))
    last = fleet.run("windlass", "shard", "move", "1", "--app", "served:app", "--json")

    assert last.wait(60) == 0, last.log
    eventually(
        lambda: all(ref.status() is Status.SUCCEEDED for ref in refs), 30.0, what="all tasks done"
    )
    begun = fleet.effects.count("begin")
    assert {ref.id for ref in refs} == begun.keys()
    assert {number: times for number, times in begun.items() if times != 1} == {}
    assert fleet.rows()[0] == []


def test_a_server_that_is_killed_takes_nothing_of_the_others_with_it(site_of, tmp_path):
    site = site_of("postgresql")
    assert site.server is not None
    with fleet_over(tmp_path, f"sqlite:///{tmp_path / 'a.db'}", site.url) as fleet:
        fleet.worker()
        before = fleet.work.enqueue_many([{"number": number} for number in range(50)])
        before += [fleet.work.enqueue(number) for number in range(20)]

        site.server.kill()
        began = time.monotonic()
        during = [fleet.work.enqueue(number) for number in range(100)]
        enqueued = time.monotonic() - began
        eventually(
            lambda: all(ref.status() is Status.SUCCEEDED for ref in during), 10.0, what="the tasks"
        )
        took = time.monotonic() - began

        site.server.start()
        eventually(
            lambda: all(shard.is_up for shard in fleet.app.fleet.shards), 20.0, what="a shard back"
        )
        after = [fleet.work.enqueue(number) for number in range(20)]
        eventually(
            lambda: all(ref.status() is Status.SUCCEEDED for ref in (*before, *after)),
            40.0,
            what="all tasks",
        )

        assert enqueued < 5.0
        assert took < 12.0
        assert len({ref.id >> 48 for ref in after}) == 2
        rows = [row for shard in fleet.rows() for row in shard]
        assert Counter(row["id"] for row in rows) == Counter(
            ref.id for ref in (*before, *during, *after)
        )
        assert {row["status"] for row in rows} == {State.SUCCEEDED}


@pytest.mark.slow
def test_a_supervised_worker_serves_all_shards_and_leaves_cleanly(fleet):
    process = fleet.run("windlass", "worker", "served:app", "--processes", "2", "--json")
    refs = [fleet.work.enqueue(number) for number in range(40)]
    eventually(lambda: all(ref.status() is Status.SUCCEEDED for ref in refs), 30.0, what="tasks")
    eventually(lambda: process.has_joined(4), 30.0, what="two workers of two shards")

    assert process.terminate() == 0
    left = [
        row
        for shard in fleet.app.fleet.shards
        for row in shard.database.read(
            lambda connection: connection.execute(select(schema.worker.c.left_why)).all()
        )
    ]
    assert [row.left_why for row in left] == ["stopped"] * 4
