"""Django's own tests of task backends, from its released source, with the backend of Windlass."""

import json
import os
import subprocess

import pytest

from tests.story.django_suite.newer import django_six, own_tests
from tests.tidy.source import ROOT


# The first run makes the environment.
@pytest.mark.timeout(600)
@pytest.mark.parametrize("engine", ["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def test_the_tests_of_django_pass_that_no_backend_with_a_database_must_fail(
    engine, tmp_path, request
):
    environment = django_six()
    url = request.getfixturevalue("postgresql_url") if engine == "postgresql" else ""

    result = subprocess.run(
        [environment / "bin" / "python", "-m", "tests.story.django_suite", own_tests(environment)],
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT))),
            "DATABASE_URL": url or f"sqlite:///{tmp_path / 'shop.sqlite3'}",
        },
        capture_output=True,
        check=False,
        text=True,
        timeout=240,
    )

    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout.splitlines()[-1])
    assert found["problems"] == [], result.stderr
    assert found["skipped"] == []
    assert found["run"] == 69
