"""A web application of the examples, served by a process on a real database."""

import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests.spawn import Spawned
from tests.tidy.source import ROOT
from tests.wait import eventually

PASSWORD = "open sesame"
ADDRESS = re.compile(r"http://[\d.]+:\d+")


@contextmanager
def served(folder: Path, module: str, *arguments: str, **settings: str) -> Iterator[httpx.Client]:
    """`python -m MODULE ARGUMENTS`; a client of the server that it says it is."""
    log = folder / "server.log"
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "src"))),
        "SHOP_PASSWORD": PASSWORD,
        **settings,
    }
    process = Spawned(module, *arguments, folder=folder, log=log, environment=environment)

    def address() -> re.Match[str] | None:
        assert process.poll() is None, log.read_text()
        return ADDRESS.search(log.read_text())

    try:
        found = eventually(address, 40, what="the server to start")
        with httpx.Client(base_url=found[0], timeout=20) as client:
            yield client
        process.send_signal(signal.SIGINT)
        process.wait(20)
    except BaseException as problem:
        problem.add_note(log.read_text())
        raise
    finally:
        process.kill()
