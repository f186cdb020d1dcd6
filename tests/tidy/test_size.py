"""Files and functions stay small enough to read, and free of what spoils a page."""

import ast
import re
from collections import Counter

import pytest

from tests.tidy.source import PACKAGE, ROOT, imports_in, name_of, python_files, tree_of

FILE_LINES = 600
FUNCTION_LINES = 60
COLUMNS = 100
FOLDER_FILES = 15
SOURCES = {".py", ".ts", ".tsx", ".css"}
# The built console.
MADE = PACKAGE / "web" / "static"
DRAWERS = {"utils", "util", "common", "helpers", "helper", "misc"}
MARKS = re.compile(r"type:\s*ignore|\b(TODO|FIXME|XXX)\b")


@pytest.fixture(scope="module")
def files():
    files = python_files()
    assert files, "no source file found"
    return files


def test_no_file_is_too_long_to_read(files):
    long = {name_of(path): len(path.read_text().splitlines()) for path in files}

    assert {name: lines for name, lines in long.items() if lines > FILE_LINES} == {}


def test_every_function_fits_a_screen(files):
    functions = [
        (path, node)
        for path in files
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]

    long = [
        f"{name_of(path)}:{node.lineno} {node.name} has {lines} lines"
        for path, node in functions
        if (lines := (node.end_lineno or 0) - node.lineno + 1) > FUNCTION_LINES
    ]

    assert long == []


def test_no_folder_is_too_full_to_look_through():
    roots = (PACKAGE, ROOT / "tests", ROOT / "console" / "src")
    # There is a file for each migration, and what was released never changes.
    left_out = {MADE, PACKAGE / "database" / "migration" / "versions"}
    files = Counter(
        path.parent
        for root in roots
        for path in root.rglob("*")
        if path.suffix in SOURCES
        and path.name != "__init__.py"
        and left_out.isdisjoint(path.parents)
    )
    # Migrations stay, and are found by their numbers.
    del files[PACKAGE / "database" / "migration" / "versions"]

    assert {name_of(each): count for each, count in files.items() if count > FOLDER_FILES} == {}


def test_every_line_fits_the_page(files):
    lines = [
        (f"{name_of(path)}:{number}", line)
        for path in files
        for number, line in enumerate(path.read_text().splitlines(), start=1)
    ]

    assert [place for place, line in lines if len(line) > COLUMNS] == []


def test_nothing_is_silenced_or_put_off(files):
    lines = [
        (f"{name_of(path)}:{number}", line)
        for path in files
        for number, line in enumerate(path.read_text().splitlines(), start=1)
    ]

    assert [place for place, line in lines if MARKS.search(line)] == []


def test_there_is_no_drawer_for_odds_and_ends():
    names = [path for path in PACKAGE.rglob("*") if path.stem.strip("_") in DRAWERS]

    assert [name_of(path) for path in names] == []


def test_nothing_is_pickled(files):
    pickling = [
        f"{name_of(path)}:{line}"
        for path in files
        for line, module in imports_in(path)
        if module.split(".")[0] in {"pickle", "cloudpickle", "dill", "marshal", "shelve"}
    ]

    assert pickling == []
