"""What the first release left in a database is finished by today's code, on every database."""

import json
import os
import sys
from pathlib import Path

from tests.database.migration.conftest import ROOT, run
from tests.spawn import run_forked

TODAY = ROOT / "src"


def shop(verb: str, url: str, package: Path) -> str:
    paths = os.pathsep.join((str(package), str(Path(__file__).parent)))
    command = (sys.executable, "-m", "upgraded_shop", verb, url)
    given = {"env": {**os.environ, "PYTHONPATH": paths}, "cwd": package}
    return run_forked(command, **given).stdout if package == TODAY else run(*command, **given)


def test_what_the_first_release_left_is_finished_by_todays_code(
    released, empty_database_url, database_engine
):
    if database_engine == "mysql":
        # The first release made its tables there, and then its ledger could not move.
        make = f"import windlass; windlass.App({empty_database_url!r}).migrate()"
        run(sys.executable, "-c", make, env={**os.environ, "PYTHONPATH": str(released)})
        shop("fill", empty_database_url, TODAY)
    else:
        shop("fill", empty_database_url, released)

    told = json.loads(shop("finish", empty_database_url, TODAY))

    assert told == {
        "order": list(range(20)),
        "product": ["bolt", "nut"],
        "offer": list(range(1, 31)),
        "step": ["box", "label"],
        "gift": "waiting",
        "stock": 7,
        "audit": True,
        "counted": 42,
    }


def test_the_released_package_is_the_one_that_runs(released):
    paths = {**os.environ, "PYTHONPATH": str(released)}
    where = run(sys.executable, "-c", "import windlass; print(windlass.__file__)", env=paths)
    assert Path(where.strip()).is_relative_to(released)
