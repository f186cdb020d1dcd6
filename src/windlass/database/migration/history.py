"""The history: the migration files in their order, and which code works after each."""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType

from windlass.errors import BadInput, NotPossible

FOLDER = Path(__file__).parent / "versions"

# Alembic's `op` is global.
ONE_AT_A_TIME = threading.Lock()


@dataclass(frozen=True)
class Migration:
    """One file: a number, what it does, and the number that code must know from then on.

    `known_from` is None if it only adds, so that older code goes on.
    """

    version: str
    known_from: str | None
    path: Path

    def upgrade(self) -> None:
        """Call the operations of the file; it is loaded anew, because columns are used up."""
        _load(self.path).upgrade()


class History:
    """The migrations of a folder."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or FOLDER

    @cached_property
    def migrations(self) -> Sequence[Migration]:
        """All of them, the oldest first."""
        found = [_migration(path) for path in sorted(self._folder.glob("[0-9]*.py"))]
        versions = [each.version for each in found]
        if len(set(versions)) < len(versions):
            raise NotPossible(f"two migrations in {self._folder.name} have the same number")
        return found

    @property
    def newest(self) -> str:
        return self.migrations[-1].version

    def after(self, version: str | None, *, until: str) -> list[Migration]:
        """The migrations from `version` (None: from the first) up to `until`."""
        return [each for each in self.migrations if (version or "") < each.version <= until]

    def known_from(self, version: str) -> str:
        """The number that code must know to work with tables of this version."""
        asked = [each.known_from for each in self.after(None, until=version)]
        return max((each for each in asked if each is not None), default=self.migrations[0].version)

    def check(self, version: str) -> None:
        """Refuse a version that is not in this history."""
        known = [each.version for each in self.migrations]
        if version not in known:
            raise BadInput(f"version {version!r} is not known; known are {', '.join(known)}")


def _migration(path: Path) -> Migration:
    module = _load(path)
    return Migration(module.revision, getattr(module, "known_from", None), path)


def _load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"windlass_migration_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
