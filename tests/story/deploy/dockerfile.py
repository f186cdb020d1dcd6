"""A Dockerfile, read: its stages, and what each copies and runs."""

import json
import re
import shlex
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path

CONTINUED = re.compile(r"\\\n\s*")


@dataclass
class Stage:
    """From one FROM to the next."""

    base: str
    name: str
    steps: list[tuple[str, str]] = field(default_factory=list)

    def last(self, word: str) -> str:
        """What the last such step says."""
        return [said for step, said in self.steps if step == word][-1]

    def words(self, word: str) -> list[str]:
        """What the last such step says, as a list."""
        found: list[str] = json.loads(self.last(word))
        return found


def stages_of(path: Path) -> list[Stage]:
    """The stages of a Dockerfile."""
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    stages: list[Stage] = []
    for line in CONTINUED.sub(" ", "\n".join(lines)).splitlines():
        if not line.strip():
            continue
        word, _, said = line.partition(" ")
        if word == "FROM":
            base, _, name = said.partition(" AS ")
            stages.append(Stage(base, name or str(len(stages))))
        else:
            stages[-1].steps.append((word, said))
    return stages


def copies_of(said: str) -> tuple[str | None, list[str], str]:
    """The stage that a COPY takes from (None: the context), what it takes, and where it puts it."""
    words = shlex.split(said)
    taken = [word.partition("=")[2] for word in words if word.startswith("--from=")]
    *sources, target = [word for word in words if not word.startswith("--")]
    return (taken[0] if taken else None), sources, target


def in_context(name: str, ignored: list[str]) -> bool:
    """Whether a file of the repository reaches the build: the last line that fits it decides."""
    is_in = True
    for line in ignored:
        pattern = line.removeprefix("!").removeprefix("**/")
        is_deep = line.removeprefix("!").startswith("**/")
        above = [name, *map(str, Path(name).parents)][:-1]
        tails = [part for each in above for part in (each, Path(each).name)] if is_deep else above
        if any(fnmatch(each, pattern) for each in tails):
            is_in = line.startswith("!")
    return is_in


def ignored_by(path: Path) -> list[str]:
    """The lines of a .dockerignore."""
    lines = [line.strip() for line in path.read_text().splitlines()]
    return [line for line in lines if line and not line.startswith("#")]
