"""The process that runs one command: `python -m windlass.external.system.keeper FOLDER LOCK`.

Both are open files that it inherits. The command inherits LOCK, too: it is locked while one of them
lives.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

from windlass.external.system.private import read_text, write_text


def main() -> None:
    """Run the command and write its exit code."""
    folder, lock = int(sys.argv[1]), int(sys.argv[2])
    write_text(folder, "pid", str(os.getpid()))
    signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        argv = json.loads(read_text(folder, "command"))
        code = subprocess.run(argv, check=False, pass_fds=(lock,)).returncode
    except (OSError, ValueError) as problem:
        sys.stderr.write(f"{problem}\n")
        code = 127
    write_text(folder, "exit", str(code))


if __name__ == "__main__":
    main()
