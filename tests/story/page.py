"""The pages that people read, and the blocks in them.

A block runs unless the line above it says why not. The marks are comments, which readers of the
built page do not see:

    <!-- file: shop.py -->           the block is also written into this file; again: more of it
    <!-- not run: needs a cluster -->  it is only checked for its form; there are few of these
    <!-- hidden ... -->              Python that is run and not shown: what the block below needs
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tests.tidy.source import ROOT, name_of

BLOCK = re.compile(
    r"^(?P<aside> *)<!-- hidden\n(?P<hidden>.*?)^ *-->$"
    r"|(?:^ *<!-- (?P<mark>file|not run): (?P<said>[^\n]*?) -->\n)?"
    r"^(?P<indent> *)```(?P<language>[^\n]*)\n(?P<code>.*?)^(?P=indent)```$",
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True)
class Block:
    """A block of a page, its place, and what the mark above it says."""

    page: Path
    line: int
    language: str
    code: str
    file: str | None = None
    reason: str | None = None

    @property
    def place(self) -> str:
        return f"{name_of(self.page)}:{self.line}"


def pages() -> list[Path]:
    """Every page of the docs, and those at the root and beside the examples."""
    return [
        *sorted(ROOT.glob("*.md")),
        *sorted((ROOT / "docs").rglob("*.md")),
        *sorted((ROOT / "examples").rglob("*.md")),
    ]


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text()
    return [_block(page, text, found) for found in BLOCK.finditer(text)]


def _block(page: Path, text: str, found: re.Match[str]) -> Block:
    shown = "code" if found["hidden"] is None else "hidden"
    said = {found["mark"]: found["said"]}
    indent = len(found["indent"] or found["aside"] or "")
    lines = found[shown].splitlines(keepends=True)
    return Block(
        page=page,
        line=text.count("\n", 0, found.start(shown)) + 1,
        language="python" if found["hidden"] is not None else found["language"],
        code="".join(line[indent:] if line.strip() else line for line in lines),
        file=said.get("file"),
        reason=said.get("not run"),
    )
