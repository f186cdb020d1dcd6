"""The process that runs a command for `Command`: `python -m windlass.external.keeper FOLDER`."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path


def main() -> None:
    """Run the command once, however often it is asked for, and leave its exit code behind."""
    place, argv = Path(sys.argv[1]), sys.argv[2:]
    lock = os.open(place / "lock", os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return
    if (place / "exit").exists():
        return
    _write(place / "pid", str(os.getpid()))
    signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        code = subprocess.run(argv, check=False, pass_fds=()).returncode
    except OSError as problem:
        sys.stderr.write(f"{problem}\n")
        code = 127
    _write(place / "exit", str(code))


def _write(path: Path, text: str) -> None:
    """Write a file that is there as a whole or not at all."""
    part = path.with_suffix(".part")
    part.write_text(text)
    part.replace(path)


if __name__ == "__main__":
    main()
