"""The contract that every system keeps that runs flows, so that one clock serves all.

A system is a command that takes the name of a shape. It starts what it needs,
declares the shape, runs a small one to be warm and says `warm`. Then it runs the
shape, says `ran`, runs it again a few times if that is quick, and prints one
line of JSON:

    {"seconds": [1.2, 1.1, 1.1], "more": {"until recorded": [4.1, 4.0, 4.2]}}

`seconds` are from the call that starts a run until all of it is done; `more` is
whatever else a system can tell about the same runs.

This module needs nothing but Python, because peers import it from environments
of their own. `BENCH_URL` names the store, `BENCH_TALLY` a folder for the run.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from bench.contract import end_in_order_when_told
from bench.flow import journal
from bench.flow.shape import Shape, named
from bench.tally import FOLDER_VARIABLE

WARM = "warm"
RAN = "ran"
WARM_SHAPE = "fan-10"
REPEAT = 3
REPEAT_BELOW_SECONDS = 10.0

After = Callable[[], dict[str, float]]
"""Tells more seconds of a run that is done, each under a title; it is called off the clock."""

Run = Callable[[], After | None]
"""Runs a declared shape to its end."""

Declare = Callable[[Shape], Run]
"""Makes a shape known, as code that is imported long before a run does."""


def main(system: Callable[[], AbstractContextManager[Declare]]) -> None:
    """Run the shape of the command line and print what it took."""
    end_in_order_when_told()
    shape = named(sys.argv[1])
    journal.make()
    with system() as declare:
        _, after = _timed(declare(named(WARM_SHAPE)), named(WARM_SHAPE))
        if after:
            after()
        run = declare(shape)
        print(WARM, flush=True)
        seconds: list[float] = []
        more: dict[str, list[float]] = defaultdict(list)
        begin = time.monotonic()
        while len(seconds) < REPEAT and time.monotonic() - begin < REPEAT_BELOW_SECONDS:
            taken, after = _timed(run, shape)
            print(RAN, flush=True)
            seconds.append(taken)
            for title, figure in (after() if after else {}).items():
                more[title].append(figure)
        print(json.dumps({"seconds": seconds, "more": more}), flush=True)


def folder() -> Path:
    """An empty folder for the system's own files; it is gone after the run."""
    return Path(os.environ[FOLDER_VARIABLE])


def _timed(run: Run, shape: Shape) -> tuple[float, After | None]:
    journal.clear()
    begin = time.perf_counter()
    after = run()
    seconds = time.perf_counter() - begin
    journal.check(shape)
    return seconds, after
