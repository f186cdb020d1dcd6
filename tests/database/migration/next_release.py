"""A next release for tests: today's migrations, and one more that is made up."""

import shutil
from pathlib import Path

from windlass.database.migration.history import FOLDER, History
from windlass.database.version import VERSION

NEXT = f"{int(VERSION) + 1:04}"
AFTER_NEXT = f"{int(VERSION) + 2:04}"

# A new table with an index and rows, and an index and a column on a table in use.
ADDS = f"""
from alembic import op
from sqlalchemy import BigInteger, Column, Index, String
from windlass.database.column import OPTIONS

revision = "{NEXT}"

def upgrade():
    parcel = op.create_table(
        "windlass_parcel",
        Column("id", BigInteger, primary_key=True, autoincrement=False),
        Column("note", String(50)),
        Index("windlass_parcel_note", "note"),
        **OPTIONS,
    )
    op.bulk_insert(parcel, [{{"id": 1, "note": "first"}}, {{"id": 2, "note": "second"}}])
    op.create_index("windlass_task_started", "windlass_task", ["started_at"])
    op.add_column("windlass_task", Column("colour", String(20)))
    op.execute("create view windlass_parcel_readable as select id, note from windlass_parcel")
"""

# Drops what the one before made, so that older code must know that one.
DROPS = f"""
from alembic import op

revision = "{AFTER_NEXT}"
known_from = "{NEXT}"

def upgrade():
    op.drop_index("windlass_task_started", "windlass_task")
    op.drop_column("windlass_task", "colour")
"""


def next_release(folder: Path, *texts: str) -> History:
    """Today's migrations and these, each in a file with the next number."""
    versions = folder / "versions"
    versions.mkdir()
    for path in FOLDER.glob("[0-9]*.py"):
        shutil.copy(path, versions)
    for number, text in enumerate(texts, start=int(VERSION) + 1):
        (versions / f"{number:04}_made_up.py").write_text(text)
    return History(versions)
