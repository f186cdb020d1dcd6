"""Migrations of Windlass say what they did; Alembic, which they use, says nothing."""

import subprocess
import sys

PROGRAM = """
import logging
logging.basicConfig(level=logging.DEBUG)
from windlass import App
App("sqlite:///shop.db").migrate()
logging.getLogger("alembic.runtime.migration").info("a migration of the user")
"""


def test_alembic_stays_quiet_under_a_basic_config(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=tmp_path, capture_output=True, text=True, check=True
    )

    told = [line for line in done.stderr.splitlines() if "alembic" in line]
    assert told == ["INFO:alembic.runtime.migration:a migration of the user"]
    assert any(line.startswith("INFO:windlass:tables of ") for line in done.stderr.splitlines())
