"""A task that notes when it started, for the latency scenario."""

from __future__ import annotations

import os
import time
from pathlib import Path

from bench.contract import url
from bench.tally import FOLDER_VARIABLE
from windlass import App

app = App(url())


def note(number: int) -> Path:
    """Where the start of task `number` is noted."""
    return Path(os.environ[FOLDER_VARIABLE], f"{number}.started")


@app.task
async def stamp(number: int) -> None:
    started = time.time_ns()
    draft = note(number).with_suffix(".draft")
    draft.write_text(str(started))
    draft.rename(note(number))
