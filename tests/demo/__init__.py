"""`windlass demo` as a process, seen through the API of its console."""

import json
import os
import re
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.wait import eventually

# On a quiet machine each takes a few seconds.
PATIENCE = 60.0


class Demo:
    """A demo that runs, seen through the API of its console."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []
        self._opener: urllib.request.OpenerDirector | None = None
        threading.Thread(target=self._read, daemon=True).start()

    @property
    def url(self) -> str:
        return eventually(self._url, PATIENCE, what="the address of the console")

    @property
    def link(self) -> str:
        """The address that logs one browser in."""
        return eventually(self._link, PATIENCE, what="the link to the console")

    def get(self, path: str) -> Any:
        """What the console says; the first call uses up the link."""
        if self._opener is None:
            self._opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
            self._opener.open(self.link, timeout=20).close()
        with self._opener.open(f"{self.url}/api/{path}", timeout=20) as answer:
            return json.load(answer)

    def ring(self) -> Any:
        return self.get("rings")["rings"][0]

    def _url(self) -> str:
        assert self.process.poll() is None, self.lines
        return next(iter(re.findall(r"http://127\.0\.0\.1:\d+", "".join(self.lines))), "")

    def _link(self) -> str:
        assert self.process.poll() is None, self.lines
        found = re.findall(r"http://127\.0\.0\.1:\d+/login\?token=\w+", "".join(self.lines))
        return next(iter(found), "")

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line)


@contextmanager
def demo(folder: Path, *arguments: str) -> Iterator[Demo]:
    temporary = folder / "tmp"
    temporary.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-m", "windlass", "demo", "--port", "0", *arguments],
        cwd=folder,
        env={
            **os.environ,
            "TMPDIR": str(temporary),
            "PYTHONUNBUFFERED": "1",
            "WINDLASS_DEMO_PACE": "2",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield Demo(process)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
