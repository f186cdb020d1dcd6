"""A trace goes from the process that enqueues to the process that works, on every database."""

import json
import os
import signal
from collections import defaultdict
from pathlib import Path

import pytest

from tests.spawn import Spawned
from tests.wait import eventually

pytestmark = pytest.mark.everywhere

HERE = Path(__file__).parent
SECONDS = 60.0


class Shop:
    """One database, and the file of all spans."""

    def __init__(self, url: str, folder: Path) -> None:
        self._folder = folder
        self._file = folder / "spans.jsonl"
        self._environment = {
            **os.environ,
            "SHOP_URL": url,
            "SHOP_SPANS": str(self._file),
            "PYTHONPATH": str(HERE),
        }

    def start(self, name: str, *command: str) -> Spawned:
        log = self._folder / f"{name}.log"
        return Spawned(*command, folder=HERE, log=log, environment=self._environment)

    def log(self, name: str) -> str:
        return (self._folder / f"{name}.log").read_text()

    def spans(self) -> dict[str, list[dict]]:
        """Those that have ended, by name."""
        found = defaultdict(list)
        if self._file.exists():
            for line in self._file.read_text().splitlines():
                span = json.loads(line)
                found[span["name"]].append(span)
        return found


@pytest.fixture
def shop(database_url, tmp_path):
    return Shop(database_url, tmp_path)


def test_a_trace_goes_through_two_processes(shop):
    producer = shop.start("producer", "traced_shop")
    assert producer.wait(SECONDS) == 0, shop.log("producer")
    worker = shop.start("worker", "windlass", "worker", "traced_shop:app", "--concurrency", "4")
    try:
        eventually(
            lambda: (
                len(shop.spans()["process mail"]) == 3 and len(shop.spans()["process amail"]) == 4
            ),
            SECONDS,
            what="the work",
        )
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(SECONDS) == 0, shop.log("worker")
    finally:
        worker.kill()

    spans = shop.spans()
    (request,) = spans["request"]
    (send,), (send_many,), (start,) = (
        spans[name] for name in ("send mail", "send amail", "send order")
    )
    assert {span["parent"] for span in (send, send_many, start)} == {request["id"]}
    assert {span["pid"] for span in (request, send, send_many, start)} == {producer.pid}
    assert send["kind"] == "PRODUCER"

    node, first, second = sorted(
        spans["process mail"], key=lambda span: (span["links"] != [start["id"]], span["id"])
    )
    tries = sorted((first, second), key=lambda span: span["attributes"]["windlass.attempt"])
    assert [span["parent"] for span in tries] == [send["id"]] * 2
    assert [span["links"] for span in tries] == [[send["id"]]] * 2
    assert [span["status"] for span in tries] == ["ERROR", "UNSET"]
    assert {span["trace"] for span in tries} == {request["trace"]}
    assert {(span["pid"], span["kind"]) for span in tries} == {(worker.pid, "CONSUMER")}

    many = [span for span in spans["process amail"] if span["links"] == [send_many["id"]]]
    assert [span["parent"] for span in many] == [None, None]
    nodes = [node, *(span for span in spans["process amail"] if span not in many)]
    assert [span["parent"] for span in nodes] == [start["id"]] * 3
    assert {span["trace"] for span in nodes} == {request["trace"]}

    # The spans of handlers are inside of their runs, on threads and on the event loop.
    for name, runs in (("smtp", "process mail"), ("asmtp", "process amail")):
        assert {span["parent"] for span in spans[name]} == {span["id"] for span in spans[runs]}
    told = [json.loads(line) for line in shop.log("worker").splitlines() if '"sending"' in line]
    assert {line["trace_id"] for line in told} == {f"{request['trace']:032x}"}
    assert {line["span_id"] for line in told} == {f"{span['id']:016x}" for span in spans["smtp"]}
