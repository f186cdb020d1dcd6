"""Imports point down the tree, and each room keeps to what it is for."""

import ast
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.tidy.source import PACKAGE, ROOT, imports_in, name_of, python_files, tree_of

# These stand above the roof and may use the package as its users do.
ABOVE = {"__init__.py", "__main__.py", "cli", "web", "testing", "testing.py", "contrib"}
FRAMES = {"cli", "web", "testing", "command", "route"}
TRANSACTIONS = {"write", "write_as", "read", "single", "snapshot"}


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


def test_sqlalchemy_is_for_the_database_and_for_stores():
    # The demo's shop is a user of Windlass, and has tables of its own.
    allowed = {"database", "store", "demo"}
    elsewhere = [path for path in python_files() if not allowed & rooms_of(path)]

    assert imports_of(elsewhere, lambda module: module.split(".")[0] == "sqlalchemy") == []


def test_commands_routes_and_their_frames_know_neither_kernel_nor_database():
    # Not core/shard/route.py, which routes rows.
    framed = [
        path
        for path in python_files()
        if FRAMES & (rooms := rooms_of(path)) and "core" not in rooms
    ]

    assert imports_of(framed, is_below_operate) == []


def test_a_store_opens_no_transaction():
    """Its functions take a connection: who calls them decides what is one transaction."""
    stores = [path for path in python_files() if "store" in rooms_of(path)]

    opened = [
        f"{name_of(path)}:{call.lineno}"
        for path in stores
        for call in ast.walk(tree_of(path))
        if isinstance(call, ast.Call) and opens_transaction(call.func)
    ]

    assert opened == []


def opens_transaction(called: ast.expr) -> bool:
    match called:
        case ast.Attribute(value=ast.Name(id=owner) | ast.Attribute(attr=owner), attr=verb):
            return verb in TRANSACTIONS and owner.strip("_").endswith(("database", "db"))
    return False


def imports_of(paths: list[Path], is_meant: Callable[[str], bool]) -> list[str]:
    return sorted(
        {
            f"{name_of(path)}:{line} {module}"
            for path in paths
            for line, module in imports_in(path)
            if is_meant(module)
        }
    )


def rooms_of(path: Path) -> set[str]:
    """The folders that a file is in, below the package, and its own name."""
    return {*path.relative_to(PACKAGE).with_suffix("").parts}


def is_below_operate(module: str) -> bool:
    package, *rooms = module.split(".")
    return package == "windlass" and (rooms[:1] in (["core"], ["database"]) or "store" in rooms)


def is_at_the_roof(name: str) -> bool:
    package, _, rest = name.partition(".")
    if package != "windlass":
        return False
    layer = PACKAGE / rest.partition(".")[0]
    return not (layer.is_dir() or layer.with_suffix(".py").is_file())
