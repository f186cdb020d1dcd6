"""Workers and producers of the last release and of today share one database, in either order."""

import os
import signal
import subprocess
import sys
from collections import Counter
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from sqlalchemy import text

from tests.database.migration.conftest import RELEASE, ROOT, run
from tests.database.migration.next_release import ADDS, NEXT, next_release
from tests.spawn import Forked, run_forked
from tests.wait import eventually
from windlass import __version__
from windlass.database import migrate
from windlass.database.database import Database
from windlass.database.version import RELEASES

TODAY = ROOT / "src"
SECONDS = 90.0


class Shop:
    """One database and the file into which handlers write, for processes of any release."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.effects = folder / "effects.txt"
        self._folder = folder

    def environment(self, package: Path) -> dict[str, str]:
        paths = os.pathsep.join((str(package), str(Path(__file__).parent)))
        told = {"SHOP_URL": self.url, "SHOP_EFFECTS": str(self.effects), "PYTHONPATH": paths}
        return {**os.environ, **told}

    def python(self, package: Path, *arguments: str) -> str:
        command = (sys.executable, *arguments)
        given = {"env": self.environment(package), "cwd": self._folder}
        if package == TODAY:
            return run_forked(command, **given).stdout
        return run(*command, **given)

    def add(self, package: Path, begin: int, end: int) -> None:
        self.python(package, "-m", "shared_shop", str(begin), str(end))

    def migrate(self, package: Path) -> None:
        self.python(package, "-c", "from shared_shop import app; app.migrate()")

    @contextmanager
    def worker(self, package: Path):
        """A worker that is stopped in the end, and must end well."""
        log = self._folder / f"{package.parent.name}.log"
        command = [sys.executable, "-m", "windlass", "worker", "shared_shop:app"]
        with log.open("w") as output:
            start = Forked if package == TODAY else subprocess.Popen
            process = start(
                [*command, "--concurrency", "4"],
                env=self.environment(package),
                cwd=self._folder,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        try:
            eventually(lambda: "joined" in log.read_text(), SECONDS, what=log.read_text())
            yield
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0, log.read_text()
            assert "Traceback" not in log.read_text()
        finally:
            process.kill()
            process.wait()

    def lines(self) -> list[tuple[str, ...]]:
        if not self.effects.exists():
            return []
        return [tuple(line.split()) for line in self.effects.read_text().splitlines()]

    def ran(self) -> Counter[tuple[str, ...]]:
        """How often each item ran."""
        return Counter(line[1:] for line in self.lines())

    def by(self, release: str) -> int:
        """How many runs a release did."""
        return sum(line[0] == release for line in self.lines())


def items(begin: int, end: int) -> set[tuple[str, str]]:
    """What `add` makes."""
    numbers = range(begin, end)
    return {
        *(("order", str(number)) for number in numbers),
        *(("product", f"p{number}") for number in numbers),
        *(("invoice", str(number)) for number in numbers[:10]),
        *(("pack", f"{number}-{part}") for number in numbers[:10] for part in ("box", "label")),
    }


OFFERS = {("offer", str(key)) for key in range(1, 61)}


@pytest.fixture
def shop(empty_database_url, tmp_path):
    return Shop(empty_database_url, tmp_path)


def test_workers_of_both_releases_share_the_work_after_an_upgrade(shop, released, tmp_path):
    shop.migrate(released)
    with shop.worker(released):
        shop.add(released, 0, 20)
        first = items(0, 20) | OFFERS
        eventually(lambda: first <= shop.ran().keys(), SECONDS, what="the old worker's work")

        # While it runs: today's migrations, and one more that adds to the busiest table.
        with closing(Database(shop.url)) as database:
            assert migrate.migrate(database, history=next_release(tmp_path, ADDS)) == NEXT
        before = shop.by(RELEASE)
        with shop.worker(TODAY):
            shop.add(released, 100, 200)
            shop.add(TODAY, 200, 300)
            wanted = first | items(100, 200) | items(200, 300)
            eventually(lambda: wanted <= shop.ran().keys(), SECONDS, what="everybody's work")

    assert shop.ran() == dict.fromkeys(wanted, 1)
    assert shop.by(__version__) > 0
    assert shop.by(RELEASE) > before


def test_a_worker_of_the_last_release_starts_on_todays_tables(shop, released):
    shop.migrate(TODAY)
    with shop.worker(released):
        shop.add(TODAY, 0, 20)
        wanted = items(0, 20) | OFFERS
        eventually(lambda: wanted <= shop.ran().keys(), SECONDS, what="the old worker's work")

    assert shop.ran() == dict.fromkeys(wanted, 1)
    assert shop.by(RELEASE) == len(wanted)


def test_a_worker_of_the_last_release_runs_rows_that_carry_a_trace_context(
    shop, released, monkeypatch
):
    shop.migrate(TODAY)
    monkeypatch.setenv("SHOP_TRACES", "1")
    shop.add(TODAY, 0, 20)
    with closing(Database(shop.url)) as database, database.engine.connect() as connection:
        rows = connection.execute(text("select kind, payload from windlass_task")).all()
    with shop.worker(released):
        wanted = items(0, 20) | OFFERS
        eventually(lambda: wanted <= shop.ran().keys(), SECONDS, what="the old worker's work")

    carrying = {kind for kind, payload in rows if "windlass:trace" in payload}
    assert carrying == {"order", "invoice", "pack"}
    assert shop.ran() == dict.fromkeys(wanted, 1)
    assert shop.by(RELEASE) == len(wanted)


def test_todays_worker_works_on_tables_of_the_last_release(shop, released):
    shop.migrate(released)
    with shop.worker(TODAY):
        shop.add(released, 0, 20)
        shop.add(TODAY, 20, 40)
        wanted = items(0, 20) | items(20, 40) | OFFERS
        eventually(lambda: wanted <= shop.ran().keys(), SECONDS, what="today's work")

    assert shop.ran() == dict.fromkeys(wanted, 1)
    assert shop.by(__version__) == len(wanted)
    with closing(Database(shop.url)) as database:
        if not database.dialect.migrates_itself:
            assert migrate.current(database) == RELEASES[RELEASE]


@pytest.mark.mostly("sqlite")
def test_after_the_way_back_the_last_release_goes_on(shop, released):
    shop.migrate(TODAY)
    with closing(Database(shop.url)) as database:
        migrate.downgrade(database, to=RELEASES[RELEASE])
        left = database.read(
            lambda connection: connection.execute(
                text("select count(*) from windlass_migration")
            ).scalar()
        )
        assert left == 1

    shop.migrate(released)
    with shop.worker(released):
        shop.add(released, 0, 5)
        wanted = items(0, 5) | OFFERS
        eventually(lambda: wanted <= shop.ran().keys(), SECONDS, what="the old worker's work")

    assert shop.ran() == dict.fromkeys(wanted, 1)
