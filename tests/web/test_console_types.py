"""The console's types of the API are those of its OpenAPI document."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.tidy.source import ROOT
from windlass.web.openapi import document


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_the_console_and_the_api_agree(tmp_path: Path) -> None:
    subprocess.run(
        ["node", "console/types.mjs", tmp_path],
        cwd=ROOT,
        input=document(),
        check=True,
        text=True,
    )

    made = {path.name: path.read_text() for path in tmp_path.iterdir()}
    kept = {name: (ROOT / "console" / "src" / "api" / name).read_text() for name in made}
    assert set(made) == {"model.ts", "path.ts"}
    assert kept == made, "run: make console-types"
