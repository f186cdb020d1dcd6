"""Show which files of Windlass one task, one sweep item, one request or one deduction uses.

    python -m scripts.trace [--json] [task] [sweep] [page] [deduct]

A file counts when one of its functions is called, in any thread. Each journey is made twice, each
time on a new SQLite database, and the second time counts: imports are done by then.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import FrameType

import windlass
from windlass import App, Keys

PACKAGE = str(Path(windlass.__file__).parent) + "/"

Calls = dict[str, set[str]]
"""The names of the functions that were called, by file."""


@contextmanager
def traced(calls: Calls) -> Iterator[None]:
    """Note each call, in this thread and in threads that begin in the block."""

    def note(frame: FrameType, event: str, _argument: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(PACKAGE) and code.co_name != "<module>":
            calls.setdefault(code.co_filename[len(PACKAGE) :], set()).add(code.co_qualname)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def plain_task(folder: Path, calls: Calls) -> None:
    """A worker joins, runs one task, and leaves."""
    with closing(_app(folder)) as app:
        done = []

        @app.task
        def note(number: int) -> None:
            done.append(number)

        note.enqueue(7)
        with traced(calls):
            asyncio.run(app.worker(until_idle=True).run())
        assert done == [7]


def sweep_item(folder: Path, calls: Calls) -> None:
    """A worker joins, runs a sweep over one key, and leaves."""
    with closing(_app(folder)) as app:
        done = []

        @app.sweep(Keys(7, 7), ranges=1)
        def offer(key: int) -> None:
            done.append(key)

        offer.start()
        with traced(calls):
            asyncio.run(app.worker(until_idle=True).run())
        assert done == [7]


def sweep_page(folder: Path, calls: Calls) -> None:
    """The console asks for one sweep: `GET /api/sweeps/offer`."""
    from starlette.testclient import TestClient

    from windlass import web

    with closing(_app(folder)) as app:

        @app.sweep(Keys(1, 100), ranges=2)
        def offer(key: int) -> None: ...

        offer.start()
        secret = "the journey of a request"
        bearer = {"Authorization": f"Bearer {secret}"}
        client = TestClient(web.create(app, secret=secret), headers=bearer)
        assert client.get("/api/sweeps/offer").status_code == 200
        with traced(calls):
            answer = client.get("/api/sweeps/offer")
        assert answer.status_code == 200, answer.text


def deduction(folder: Path, calls: Calls) -> None:
    """One `ledger.deduct`."""
    from windlass.ledger import Ledger

    with closing(_app(folder)):
        pass
    with closing(Ledger(_url(folder))) as ledger:
        ledger.restock("delivery", {"bolt": 10})
        with traced(calls):
            ledger.deduct("order", {"bolt": 3})


JOURNEYS: dict[str, Callable[[Path, Calls], None]] = {
    "task": plain_task,
    "sweep": sweep_item,
    "page": sweep_page,
    "deduct": deduction,
}


def trace(journey: str) -> Calls:
    """What one journey calls."""
    calls: Calls = {}
    for notes in ({}, calls):
        with tempfile.TemporaryDirectory() as folder:
            JOURNEYS[journey](Path(folder), notes)
    return calls


def _url(folder: Path) -> str:
    return f"sqlite:///{folder}/windlass.db"


def _app(folder: Path) -> App:
    # A guard is beside the journey: on a busy machine even a drain may last long enough for one.
    app = App(_url(folder), guard=False)
    app.migrate()
    return app


def main() -> None:
    parser = argparse.ArgumentParser(description="Show which files of Windlass a journey uses.")
    parser.add_argument("journey", nargs="*", choices=["all", *JOURNEYS], default="all")
    parser.add_argument("--json", action="store_true", help="print the functions by file, as JSON")
    arguments = parser.parse_args()
    names = JOURNEYS if "all" in arguments.journey else arguments.journey
    found = {name: trace(name) for name in names}
    if arguments.json:
        sorted_calls = {
            name: {file: sorted(calls[file]) for file in sorted(calls)}
            for name, calls in found.items()
        }
        print(json.dumps(sorted_calls))
        return
    for name, calls in found.items():
        print(f"{name}: {len(calls)} files. {JOURNEYS[name].__doc__}")
        for file in sorted(calls):
            print(f"  {file:40} {', '.join(sorted(calls[file]))}")


if __name__ == "__main__":
    main()
