"""What processes of the tests of named runs do: `python -m tests.fault.face.runs WHAT URL LOG`."""

import asyncio
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from tests.fault.crew import Process
from windlass import App, RunLost
from windlass.control.engine.register import Register
from windlass.control.model import control as rules

RACERS = 50
FEW_RACERS = 12


class Log:
    """Lines that several processes append."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, *words: object) -> None:
        # One short write to a file opened for appending is never torn or overwritten.
        file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            os.write(file, (" ".join(map(str, words)) + "\n").encode())
        finally:
            os.close(file)

    def lines(self) -> list[str]:
        written = self.path.read_text() if self.path.exists() else ""
        return written[: written.rfind("\n") + 1].splitlines()


def race(url: str, log: Log, racers: int = RACERS) -> None:
    """Many processes wait at a gate, and start the same run when it opens."""
    gate, opener = os.pipe()
    ready, telling = os.pipe()
    children = []
    for _ in range(racers):
        pid = os.fork()
        if pid == 0:
            os.close(opener)
            app = App(url)
            app.prepare()
            app.control.get("load")
            os.write(telling, b".")
            os.read(gate, 1)
            reply = app.control.start("load")
            log.write(reply.code, os.getpid(), reply.data["batch"], reply.data.get("who"))
            os._exit(0)
        children.append(pid)
    waiting = 0
    while waiting < racers:
        waiting += len(os.read(ready, racers))
    os.close(opener)
    codes = [os.waitpid(pid, 0)[1] for pid in children]
    sys.exit(max(codes))


def small_race(url: str, log: Log) -> None:
    """As `race`, with fewer."""
    race(url, log, FEW_RACERS)


def load(url: str, log: Log) -> None:
    """Three steps; the second never ends, and the process is killed in it."""
    with App(url).control("load", data={"pid": os.getpid()}, lease="2s") as run:
        if run.step(1):
            log.write("step", 1)
        assert run.step("rows", lambda: 42) == 42
        if run.step(2):
            log.write("step", 2)
            wait_for_ever()


def linger(url: str, log: Log) -> None:
    """Hold a run that has expired until another has taken it over, and then go on."""
    app = App(url)
    try:
        with app.control("load", expires="1ms") as run:
            log.write("began", run.batch)
            while app.control.get("load").batch == run.batch:
                time.sleep(0.01)
            run.step(2)
            log.write("stepped")
    except RunLost:
        late = [app.control.finish("load", batch=run.batch), app.control.get("load")]
        log.write("lost", late[0].code)


def hold(url: str, log: Log) -> None:
    """Hold a run until a signal comes."""
    with App(url).control("load", lease="2s") as run:
        run.step("wait")
        log.write("began", run.batch)
        wait_for_ever()


def fork(url: str, log: Log) -> None:
    """Children leave the block in their own ways, which is nothing to its run."""
    with App(url).control("load") as run:
        child = os.fork()
        if child == 0:
            sys.exit(3)
        log.write("exited", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        ready, telling = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(telling, b".")
            wait_for_ever()
        os.read(ready, 1)
        os.kill(child, signal.SIGTERM)
        log.write("killed", -os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        run.step(1)
        log.write("stepped")


def together(url: str, log: Log) -> None:
    """Three runs of one event loop, one of them in a sync block."""
    app = App(url)

    async def all_of_them() -> None:
        holders = hold_async(app, log, "a"), hold_async(app, log, "b"), hold_sync(app, log, "c")
        await asyncio.gather(*holders)

    asyncio.run(all_of_them())


def in_turn(url: str, log: Log) -> None:
    """Three runs of one event loop in sync blocks: each has ended before the next one does."""
    app = App(url)

    async def all_of_them() -> None:
        await asyncio.gather(*(hold_sync(app, log, each) for each in "abc"))

    asyncio.run(all_of_them())


async def hold_async(app: App, log: Log, partition: str) -> None:
    async with app.control("load", partition, expires="1h"):
        log.write("began", partition)
        await asyncio.Event().wait()


async def hold_sync(app: App, log: Log, partition: str) -> None:
    with app.control("load", partition, expires="1h"):
        log.write("began", partition)
        await asyncio.Event().wait()


def nested(url: str, log: Log) -> None:
    """SIGTERM comes while the end of the inner run is written."""
    app = App(url)
    change = Register.change

    def slow(self: Register, key: Any, batch: Any, rule: Any, *args: Any, **facts: Any) -> Any:
        if rule is rules.finish:
            os.kill(os.getpid(), signal.SIGTERM)
        return change(self, key, batch, rule, *args, **facts)

    with app.control("load", "outer", expires="1h"):
        Register.change = slow
        with app.control("load", "inner", expires="1h"):
            pass
        log.write("went on")


def own(url: str, log: Log) -> None:
    """The program minds SIGTERM itself."""

    def handle(*_: object) -> None:
        log.write("handled")
        os._exit(7)

    signal.signal(signal.SIGTERM, handle)
    hold(url, log)


def wait_for_ever() -> None:
    while True:
        time.sleep(0.01)


def start(what: str, *, url: str, log: Log) -> Process:
    """A process of its own that does that."""
    command = ["tests.fault.face.runs", what, url, str(log.path)]
    return Process(command, folder=log.path.parent, name=what, url=url)


if __name__ == "__main__":
    parts = (race, small_race, load, linger, hold, fork, together, in_turn, nested, own)
    part = next(part for part in parts if part.__name__ == sys.argv[1])
    part(sys.argv[2], Log(Path(sys.argv[3])))
