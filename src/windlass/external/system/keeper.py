"""The process that runs one command: `python -m windlass.external.system.keeper FOLDER LOCK`.

This process and the command inherit the open lock file, LOCK: it is locked while one of them lives.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path


def main() -> None:
    """Run the command and write its exit code."""
    place, lock = Path(sys.argv[1]), int(sys.argv[2])
    _write(place / "pid", str(os.getpid()))
    signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        argv = json.loads((place / "command").read_text())
        code = subprocess.run(argv, check=False, pass_fds=(lock,)).returncode
    except (OSError, ValueError) as problem:
        sys.stderr.write(f"{problem}\n")
        code = 127
    _write(place / "exit", str(code))


def _write(path: Path, text: str) -> None:
    """Write a file in one step, so that it is never half written."""
    part = path.with_suffix(".part")
    part.write_text(text)
    part.replace(path)


if __name__ == "__main__":
    main()
