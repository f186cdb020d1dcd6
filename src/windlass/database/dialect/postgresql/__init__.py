"""PostgreSQL, through psycopg 3."""

from windlass.database.dialect.postgresql.server import CHANNEL, often
from windlass.database.dialect.postgresql.task import PostgreSQL

__all__ = ["CHANNEL", "PostgreSQL", "often"]
