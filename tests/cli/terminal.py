"""`windlass` on a real terminal: a pseudo-terminal of a given width, with what is typed there."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from typing import Self

LONGEST_SECONDS = 30.0
# Its terminal becomes the one that controls it: what is typed there may be a signal.
IN_CONTROL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


class Terminal:
    """A process whose controlling terminal is ours."""

    def __init__(self, *arguments: str, columns: int = 80) -> None:
        self._end, other = pty.openpty()
        fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
        self.process = subprocess.Popen(
            [sys.executable, "-c", IN_CONTROL, "-m", "windlass", *arguments],
            stdin=other,
            stdout=other,
            stderr=other,
            env=environment | {"TERM": "xterm-256color"},
            start_new_session=True,
        )
        os.close(other)
        self._seen = b""

    @property
    def text(self) -> str:
        """All that was shown so far, without colours."""
        return ESCAPES.sub("", self._seen.decode(errors="replace")).replace("\r\n", "\n")

    def wait_for(self, words: str) -> None:
        self._read(lambda: words in self.text)

    def type(self, keys: str) -> None:
        os.write(self._end, keys.encode())

    def resize(self, columns: int) -> None:
        """Make the window narrower or wider; the process is told."""
        fcntl.ioctl(self._end, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))

    def close(self) -> int:
        """Read to the end; the exit code."""
        self._read(lambda: False)
        return self.process.wait(LONGEST_SECONDS)

    def hang_up(self) -> None:
        """Close the terminal under the process."""
        os.close(self._end)
        self._end = os.open(os.devnull, os.O_RDONLY)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._end)

    def _read(self, is_enough) -> None:
        deadline = time.monotonic() + LONGEST_SECONDS
        while not is_enough():
            ready, _, _ = select.select([self._end], [], [], max(0, deadline - time.monotonic()))
            assert ready, f"nothing more was shown after:\n{self.text}"
            try:
                block = os.read(self._end, 65_536)
            except OSError:
                block = b""
            if not block:
                break
            self._seen += block


def shown(*arguments: str, columns: int) -> str:
    """What a command shows on a terminal of that width."""
    with Terminal(*arguments, columns=columns) as terminal:
        assert terminal.close() == 0, terminal.text
        return terminal.text
