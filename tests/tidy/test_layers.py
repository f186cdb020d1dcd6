"""Imports point down the tree, and only there."""

import subprocess
import sys
from pathlib import Path

from tests.tidy.source import PACKAGE, ROOT, imports_in, name_of, python_files

# These stand above the roof and may use the package as its users do.
ABOVE = {"__init__.py", "__main__.py", "cli", "web", "testing", "testing.py", "contrib"}


def test_imports_point_down_the_layers():
    linter = Path(sys.executable).with_name("lint-imports")

    result = subprocess.run(
        [linter, "--no-cache", "--no-logo"], cwd=ROOT, capture_output=True, check=False, text=True
    )

    assert result.returncode == 0, result.stdout + result.stderr


def test_no_layer_imports_the_roof():
    inside = [path for path in python_files() if path.relative_to(PACKAGE).parts[0] not in ABOVE]

    reaching_up = [
        f"{name_of(path)}:{line}"
        for path in inside
        for line, module in imports_in(path)
        if module == "windlass" or is_at_the_roof(module)
    ]

    assert reaching_up == []


def is_at_the_roof(name: str) -> bool:
    package, _, rest = name.partition(".")
    if package != "windlass":
        return False
    layer = PACKAGE / rest.partition(".")[0]
    return not (layer.is_dir() or layer.with_suffix(".py").is_file())
