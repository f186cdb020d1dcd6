"""Write the list of files in ARCHITECTURE.md: each with the first sentence that it says of itself.

    python -m scripts.architecture

`make architecture` does it, and a test compares the list with the code.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "windlass"
PAGE = ROOT / "ARCHITECTURE.md"
BEGIN = "<!-- files: made from the code by `make architecture` -->"
END = "<!-- end of files -->"
# From the ground to the roof, as imports may point; a folder that is missing here comes last.
ORDER = (
    *("value", "database", "core", "source"),
    *("rolling", "control", "sweep", "flow", "external", "ledger", "queue"),
    *("operate", "watch", "cli", "web", "testing", "contrib", "demo"),
)


def page() -> str:
    """ARCHITECTURE.md as it should be."""
    before, rest = PAGE.read_text().split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n\n{listing()}\n{END}{after}"


def listing() -> str:
    """A table of the files at the top, then one of each folder."""
    top = table((path.name, path) for path in modules_in(PACKAGE) if path.name != "__main__.py")
    return "\n".join([top, *(section(folder) for folder in sorted(folders_in(PACKAGE), key=rank))])


def section(folder: Path) -> str:
    said = sentence(folder / "__init__.py")
    return f"### {folder.name}\n\n{said}\n\n{table(rows(folder, folder))}"


def rows(folder: Path, base: Path) -> Iterator[tuple[str, Path]]:
    """The modules of a folder, then its rooms, each with what is in it."""
    for path in modules_in(folder):
        yield path.relative_to(base).as_posix(), path
    for room in sorted(folders_in(folder)):
        yield f"{room.relative_to(base).as_posix()}/", room / "__init__.py"
        # Their names say it, and nobody reads them again.
        if room.name != "versions":
            yield from rows(room, base)


def table(files: Iterator[tuple[str, Path]]) -> str:
    lines = [f"| `{name}` | {sentence(path)} |" for name, path in files]
    return "\n".join(["| file | what it is |", "|---|---|", *lines, ""])


def sentence(path: Path) -> str:
    """The first paragraph of a module's docstring, in one line."""
    said = ast.get_docstring(ast.parse(path.read_text())) or ""
    return " ".join(said.split("\n\n")[0].split()).replace("|", "\\|")


def modules_in(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*.py") if path.name != "__init__.py")


def folders_in(folder: Path) -> list[Path]:
    return [path.parent for path in folder.glob("*/__init__.py")]


def rank(folder: Path) -> tuple[int, str]:
    return ORDER.index(folder.name) if folder.name in ORDER else len(ORDER), folder.name


if __name__ == "__main__":
    PAGE.write_text(page())
