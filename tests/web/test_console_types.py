"""The console's types of the API are those of its OpenAPI document."""

import shutil
import subprocess

import pytest

from tests.tidy.source import ROOT
from windlass.web.openapi import document


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_the_console_and_the_api_agree():
    made = subprocess.run(
        ["node", "console/types.mjs"],
        cwd=ROOT,
        input=document(),
        capture_output=True,
        check=True,
        text=True,
    ).stdout

    kept = (ROOT / "console" / "src" / "api" / "model.ts").read_text()
    assert kept == made, "run: make console-types"
