"""Databases for tests: migrated, lent to one test after the other, and removed at the end."""

from __future__ import annotations

from pathlib import Path

from windlass.database.database import normalise
from windlass.database.scratch import Lender, ScratchFiles, ScratchServer

__all__ = ["Lender", "make_lender"]


def make_lender(url: str | None, folder: Path) -> Lender:
    """Lends databases on the server at `url`, or else SQLite files in `folder`."""
    if url is None or normalise(url).get_backend_name() == "sqlite":
        return ScratchFiles(folder)
    return ScratchServer(url)
