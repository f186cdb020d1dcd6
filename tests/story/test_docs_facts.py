"""The docs tell the truth: links lead somewhere, and lists are complete."""

import ast
import re

import pytest

from tests.story.page import pages
from tests.tidy.source import PACKAGE, ROOT, name_of
from windlass.database.schema import metadata
from windlass.telemetry import WORDS
from windlass.value.status import TRANSITIONS, Status

LINK = re.compile(r"\]\((?!https?://|mailto:)([^)#\s]*)(?:#([^)\s]*))?\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
MOVE = re.compile(r"^\| ([a-z]+) \| ([a-z]+) \| (.+) \|$", re.MULTILINE)
NAMED_TEST = re.compile(r"`(test_\w+)`")
NAMED_FILE = re.compile(r"`((?:src|tests|docs|bench|scripts)/[\w/.-]+)`")


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_every_link_leads_to_a_page_and_a_heading_that_are_there(page):
    wrong = [
        f"{path}#{anchor}"
        for path, anchor in LINK.findall(page.read_text())
        if not leads_somewhere(page, path, anchor)
    ]

    assert wrong == []


def test_every_page_of_the_manual_is_in_its_menu_once():
    menu = re.findall(r"([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    there = [path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")]

    assert sorted(menu) == sorted(there), "mkdocs.yml: add the page to nav, or take it out"


@pytest.mark.parametrize("picture", sorted((ROOT / "docs/picture").glob("*.svg")), ids=name_of)
def test_a_picture_is_shown_and_needs_nothing_from_elsewhere(picture):
    shown = [page for page in pages() if f"picture/{picture.name}" in page.read_text()]
    addresses = re.findall(r"https?://[^\s\"']+", picture.read_text())

    assert shown
    assert set(addresses) <= {"http://www.w3.org/2000/svg"}
    assert "<title" in picture.read_text() or "aria-labelledby" in picture.read_text()


def test_the_moves_that_are_told_are_those_that_there_are():
    text = (ROOT / "docs/concept/task.md").read_text()
    states = {str(status) for status in Status}

    told = {(before, after): reason for before, after, reason in MOVE.findall(text)}

    assert {move: reason for move, reason in told.items() if {*move} <= states} == {
        (str(before), str(after)): reason for (before, after), reason in TRANSITIONS.items()
    }


def test_every_state_is_told():
    text = (ROOT / "docs/concept/task.md").read_text()

    assert [status for status in Status if f"| {status.value} | {status} |" not in text] == []


def test_every_table_and_column_is_told():
    sections = sections_of((ROOT / "docs/reference/table.md").read_text())

    missing = [
        f"{table.name}.{column.name}"
        for table in metadata.tables.values()
        for column in table.columns
        if f"`{column.name}`" not in sections.get(table.name, "")
    ]

    assert missing == []


def test_every_index_is_told():
    sections = sections_of((ROOT / "docs/reference/table.md").read_text())

    missing = [
        index.name
        for table in metadata.tables.values()
        for index in table.indexes
        if f"`{index.name}`" not in sections.get(table.name, "")
    ]

    assert missing == []


def test_every_event_is_told_with_its_words_and_no_other():
    text = (ROOT / "docs/reference/event.md").read_text()

    told = dict(re.findall(r"^\| `(\w+\.\w+)` \| (\w+) \|", text, re.MULTILINE))

    assert told == {name: level_name(level) for name, (level, _) in WORDS.items()}
    assert [words for _, words in WORDS.values() if words not in text] == []


def test_every_variable_of_the_environment_is_told():
    read = {
        name
        for path in PACKAGE.rglob("*.py")
        for name in re.findall(r"\"(WINDLASS_[A-Z_]+)\"", path.read_text())
    }
    text = (ROOT / "docs/reference/option.md").read_text()

    # Supervisors and the demo mark their children with these; nobody sets them by hand.
    own = ("WINDLASS_CHILD", "WINDLASS_CONSOLE_LINK", "WINDLASS_DEMO_")
    read = {name for name in read if not name.startswith(own)}
    assert [name for name in sorted(read) if f"`{name}`" not in text] == []


def test_every_test_that_is_named_exists():
    tests = {
        node.name
        for path in (ROOT / "tests").rglob("test_*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }

    named = {name for page in pages() for name in NAMED_TEST.findall(page.read_text())}

    # The guide to Django names tests of Django itself.
    left_out = ROOT / "tests" / "story" / "django_suite" / "__main__.py"
    of_django = set(re.findall(r'test_\w+(?=")', left_out.read_text()))

    assert sorted(named - tests - of_django) == []


def test_every_file_that_is_named_exists():
    named = {name for page in pages() for name in NAMED_FILE.findall(page.read_text())}

    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


def leads_somewhere(page, path: str, anchor: str) -> bool:
    target = page if not path else (page.parent / path).resolve()
    if not target.exists():
        return False
    return not anchor or anchor in {slug(title) for title in HEADING.findall(target.read_text())}


def slug(title: str) -> str:
    """The anchor of a heading, as both GitHub and MkDocs make it."""
    plain = re.sub(r"[^\w\s-]", "", title.lower())
    return re.sub(r"\s", "-", plain.strip())


def sections_of(text: str) -> dict[str, str]:
    """The parts of a page by the name in their heading."""
    parts = re.split(r"^## `?([\w]+)`?$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def level_name(level: int) -> str:
    return {10: "debug", 20: "info", 30: "warning", 40: "error"}[level]
