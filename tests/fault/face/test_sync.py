"""`examples/sync`: whatever dies, every sale is in the book, and none twice."""

import os
import subprocess
import sys
from contextlib import ExitStack

import pytest
from sqlalchemy import create_engine, func, select

from examples.sync.shop import sale
from tests.server import PostgreSQL
from tests.tidy.source import ROOT
from tests.wait import eventually
from windlass.database.database import normalise

SALES = 1_500


class Firm:
    """The processes of the example, over its databases."""

    def __init__(self, stack, folder, environment):
        self._stack = stack
        self._folder = folder
        self._environment = environment

    def start(self, *command, **options):
        process = subprocess.Popen(
            [sys.executable, "-m", *command], env=self._environment, cwd=self._folder, **options
        )
        self._stack.callback(process.wait)
        self._stack.callback(process.kill)
        return process

    def worker(self):
        return self.start("windlass", "worker", "examples.sync.shop:app")

    def seller(self, name, begin=0):
        """A seller, and where it writes how far it came."""
        path = self._folder / f"{name}-{begin}"
        with path.open("w") as file:
            numbers = (str(begin), str(SALES), "5")
            process = self.start("examples.sync.sell", name, *numbers, stdout=file)
        return process, lambda: int([str(begin), *path.read_text().split("\n")[:-1]][-1])


@pytest.fixture
def firm(tmp_path, shard_server, book):
    shards = f"{shard_server.url} sqlite:///{tmp_path}/shard.db"
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "src"))),
        "SYNC_SHARDS": shards,
        "SYNC_BOOK": book.url.render_as_string(hide_password=False),
    }
    prepare = "from examples.sync.shop import prepare; prepare()"
    subprocess.run([sys.executable, "-c", prepare], env=environment, cwd=tmp_path, check=True)
    with ExitStack() as stack:
        yield Firm(stack, tmp_path, environment)


@pytest.fixture
def shard_server():
    with PostgreSQL() as server:
        yield server


@pytest.fixture
def book(empty_database_url):
    engine = create_engine(normalise(empty_database_url))
    yield engine
    with engine.begin() as connection:
        sale.drop(connection, checkfirst=True)
        connection.exec_driver_sql("drop table if exists windlass_sink")
    engine.dispose()


def kill(process):
    process.kill()
    process.wait()


@pytest.mark.mostly("sqlite")
def test_every_sale_is_in_the_book_once_whatever_dies(firm, shard_server, book):
    workers = [firm.worker(), firm.worker()]
    first, told_first = firm.seller("paris")
    second, told_second = firm.seller("berlin")

    eventually(lambda: told_first() >= 200, timeout=120, what="the first sales are told")
    kill(first)
    again, _ = firm.seller("paris", told_first())
    kill(workers[0])
    shard_server.kill()
    before = told_second()
    eventually(
        lambda: told_second() >= min(before + 100, SALES),
        timeout=120,
        what="sales go to the other shard",
    )
    shard_server.start()
    kill(workers[1])
    firm.worker()
    assert (again.wait(180), second.wait(180)) == (0, 0)

    everything = {f"{name}-{number}" for name in ("paris", "berlin") for number in range(SALES)}

    def sold():
        with book.connect() as connection:
            return connection.scalar(select(func.count(sale.c.id.distinct()))) or 0

    eventually(lambda: sold() == len(everything), timeout=180, what="all sales are in the book")
    with book.connect() as connection:
        ids = list(connection.scalars(select(sale.c.id)))
    assert sorted(ids) == sorted(everything)
