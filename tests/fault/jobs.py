"""The app that worker processes of the fault tests serve.

Every handler appends a line to the effects file when it begins and when it ends, so that a test can
count what really ran, whatever the rows say.
"""

import asyncio
import ctypes
import os
import signal
import threading
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import windlass
from windlass import App

KEEP = "1h"


@dataclass(frozen=True)
class Effect:
    """One line of the effects file."""

    what: str
    task_id: int
    attempt: int
    fence: int
    pid: int


class Effects:
    """What handlers did, in the order in which they did it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, what: str) -> None:
        run = windlass.context()
        line = f"{what} {run.task_id} {run.attempt} {run.fence} {os.getpid()}\n"
        # One short write to a file opened for appending is never torn or overwritten.
        file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            os.write(file, line.encode())
        finally:
            os.close(file)

    def is_first_death(self) -> bool:
        """Whether nobody has asked before: of all workers, one dies."""
        try:
            os.close(os.open(self.path.with_suffix(".dead"), os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True

    def all(self) -> list[Effect]:
        if not self.path.exists():
            return []
        lines = self.path.read_text().splitlines()
        return [Effect(what, *map(int, rest)) for what, *rest in map(str.split, lines)]

    def count(self, what: str) -> Counter[int]:
        """How often each task did `what`."""
        return Counter(effect.task_id for effect in self.all() if effect.what == what)


class Jobs:
    """The app and its kinds."""

    def __init__(self, url: str, effects: Path, **options: str) -> None:
        self.effects = Effects(effects)
        self.app = App(url, **options)
        declared = self.app.task(keep=KEEP)
        self.quick = declared(self._quick())
        self.brief = self.app.task(self._brief())
        # Whoever kills workers at random may meet one task more often than poison would be met.
        self.nap = self.app.task(keep=KEEP, max_lost=100)(self._nap())
        self.queued = self.app.task(
            keep=KEEP, max_lost=100, name="queued", lane=lambda seconds, lane: lane
        )(self._queued())
        self.brisk = self.app.task(
            keep=KEEP, max_lost=100, name="brisk", lane=lambda lane, is_last: lane
        )(self._brisk())
        self.block = declared(self._block())
        self.hog = declared(self._hog())
        self.die = declared(self._die())
        self.grab = declared(self._grab())
        self.hold = declared(self._hold())
        self.fork = declared(self._fork())
        self.stuck = self.app.task(keep=KEEP, timeout="500ms")(self._stuck())

    def _quick(self):
        effects = self.effects

        async def quick(number: int) -> None:
            effects.append("begin")
            effects.append("end")

        return quick

    def _brief(self):
        effects = self.effects

        async def brief(number: int) -> None:
            effects.append("end")

        return brief

    def _nap(self):
        effects = self.effects

        async def nap(seconds: float) -> None:
            effects.append("begin")
            try:
                await asyncio.sleep(seconds)
            except asyncio.CancelledError:
                effects.append("stopped")
                raise
            effects.append("end")

        return nap

    def _queued(self):
        effects = self.effects

        async def queued(seconds: float, lane: str) -> None:
            effects.append("begin")
            await asyncio.sleep(seconds)
            effects.append("end")

        return queued

    def _brisk(self):
        effects = self.effects

        async def brisk(lane: str, is_last: bool) -> None:
            effects.append("begin")
            if is_last and effects.is_first_death():
                os.kill(os.getpid(), signal.SIGKILL)
            effects.append("end")

        return brisk

    def _block(self):
        effects = self.effects

        def block(seconds: float) -> None:
            effects.append("begin")
            time.sleep(seconds)
            effects.append("end")

        return block

    def _hog(self):
        effects = self.effects

        async def hog(seconds: float) -> None:
            effects.append("begin")
            time.sleep(seconds)  # on the event loop, as it should not be
            effects.append("end")

        return hog

    def _die(self):
        effects = self.effects

        def die(seconds: float = 0.0) -> None:
            effects.append("begin")
            time.sleep(seconds)
            os.kill(os.getpid(), signal.SIGKILL)

        return die

    def _grab(self):
        effects, quick = self.effects, self.quick

        def grab(key: str) -> None:
            effects.append("begin")
            quick.using(key=key, on_conflict="skip").enqueue(0)
            effects.append("end")

        return grab

    def _stuck(self):
        effects = self.effects

        def stuck() -> None:
            effects.append("begin")
            threading.Event().wait()

        return stuck

    def _hold(self):
        effects = self.effects

        def hold(seconds: float) -> None:
            effects.append("begin")
            hold_gil(seconds)
            effects.append("end")

        return hold

    def _fork(self):
        effects = self.effects

        def fork(seconds: float) -> None:
            effects.append("begin")
            if not os.fork():
                # Of its own, but with all that its parent had open.
                os.setsid()
                time.sleep(seconds)
                os._exit(0)
            effects.append("end")

        return fork


def hold_gil(seconds: float) -> None:
    """Let no Python code run in this process: one call in C that keeps the GIL."""
    ctypes.PyDLL(None).poll(None, 0, int(seconds * 1_000))
