"""Run one command of the benchmark to its end."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).parent.parent
LIMIT_SECONDS = 1800


class CommandFailed(Exception):
    """A command ended badly; the message is the end of what it said."""


def run(command: list[str], environment: dict[str, str]) -> str:
    """What the command printed; it sees our environment, and `environment` on top."""
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        output, errors = process.communicate(timeout=LIMIT_SECONDS)
    finally:
        # Told, not killed: it may have workers of its own to stop.
        process.terminate()
        process.wait()
    if process.returncode:
        raise CommandFailed(errors.strip()[-1500:])
    return output
