"""`examples/carrier`: consumers in Node and in Python share the visits of a real RabbitMQ."""

import os
import shutil
import signal
import subprocess
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.queue.sending import send
from tests.spawn import Spawned
from tests.wait import eventually
from windlass import App, Status
from windlass.queue import Queue

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "carrier"

pytestmark = pytest.mark.mostly("sqlite")


@pytest.fixture
def place(tmp_path, database_url, rabbitmq):
    """Who uses the queue of the example; no other test does."""
    return Place(tmp_path, database_url, rabbitmq.url)


class Place:
    def __init__(self, folder, database_url, broker_url):
        self.folder = folder
        self.broker_url = broker_url
        self.environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "src"))),
            "WINDLASS_DATABASE_URL": database_url,
            "BROKER_URL": broker_url,
        }

    @contextmanager
    def windlass(self, name, *arguments):
        """A `windlass` process until the end of the block."""
        process = Spawned(
            "windlass",
            *arguments,
            folder=self.folder,
            log=self.folder / f"{name}.log",
            environment=self.environment,
        )
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            code = process.wait(30)
        assert code == 0, (self.folder / f"{name}.log").read_text()

    @contextmanager
    def node(self):
        """The consumer for Node, with what its lock pins."""
        folder = shutil.copytree(EXAMPLE, self.folder / "node")
        subprocess.run(["npm", "ci", "--no-audit", "--no-fund"], cwd=folder, check=True)
        command = ["node", "consumer.mjs", self.broker_url, "visits"]
        with subprocess.Popen(command, cwd=folder) as process:
            try:
                yield process
            finally:
                process.kill()


def test_a_consumer_for_node_and_one_for_python_visit_what_a_worker_carries(place, database_url):
    app = App(database_url)

    @app.rolling(every="10d")
    def stock_level(code: str) -> None: ...

    def remarks():
        items = [stock_level.item(f"SKU-{number:03}") for number in range(100)]
        return [item.remark for item in items if item and item.status is Status.SUCCEEDED]

    # What is no message of the protocol stops nobody.
    send(Queue(place.broker_url, "visits"), b"{not json", 7, {"windlass": 1})
    stock_level.add(f"SKU-{number:03}" for number in range(50))
    with ExitStack() as stack:
        stack.enter_context(place.windlass("worker", "worker", "examples.carrier.shop:app"))
        with place.node():
            eventually(lambda: len(remarks()) == 50, 40)
        by_node = remarks()
        consumer = ("consumer", "examples.carrier.shop:app", "visits", "--json")
        with place.windlass("consumer", *consumer):
            stock_level.add(f"SKU-{number:03}" for number in range(50, 100))
            eventually(lambda: len(remarks()) == 100, 60)

    assert all("7 in stock, counted by Node" in remark for remark in by_node)
    assert sum("counted by Python" in remark for remark in remarks()) == 50
    log = (place.folder / "consumer.log").read_text()
    assert '"event":"consumer.started"' in log
    assert '"event":"consumer.stopped"' in log
    app.close()


def test_the_lock_of_the_consumer_for_node_names_no_host():
    lock = (EXAMPLE / "package-lock.json").read_text()

    assert "http" not in lock.replace("https://opencollective", "")
    assert '"integrity"' in lock
