"""The pages that people read, and the code in them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tests.tidy.source import ROOT, name_of

RUN = "<!-- run -->"
FENCE = re.compile(r"(?P<mark>[^\n]*)\n```python\n(?P<code>.*?)^```$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A block of Python on a page. One that is marked is run, the others must at least parse."""

    page: Path
    line: int
    code: str
    is_marked: bool

    @property
    def place(self) -> str:
        return f"{name_of(self.page)}:{self.line}"


def pages() -> list[Path]:
    """Every page of the docs, and those at the root."""
    return [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text()
    return [
        Block(
            page,
            text.count("\n", 0, found.start("code")) + 1,
            found["code"],
            found["mark"].strip() == RUN,
        )
        for found in FENCE.finditer(text)
    ]


def run(blocks: list[Block]) -> dict[str, object]:
    """Run blocks one after the other as one script; the names it ends with."""
    names: dict[str, object] = {"__name__": "__main__"}
    for block in blocks:
        # Blank lines before it make an error show the line of the page.
        code = "\n" * (block.line - 1) + block.code
        exec(compile(code, str(block.page), "exec"), names)
    return names
