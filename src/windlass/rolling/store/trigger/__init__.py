"""Triggers that keep the items of a rolling kind equal to the keys of a table.

The user's own transaction carries the change: it commits with the row or not at all. Databases do
not call triggers for every change, and a mirror now and then repairs what they leave out: in MySQL
and MariaDB TRUNCATE and the cascades of foreign keys, in SQLite the rows with other keys that an
INSERT OR REPLACE deletes.
"""

from __future__ import annotations

from windlass.database.dialect import PerDialect
from windlass.rolling.store.trigger.base import Triggers
from windlass.rolling.store.trigger.mysql import MySQLTriggers
from windlass.rolling.store.trigger.postgresql import PostgreSQLTriggers
from windlass.rolling.store.trigger.sqlite import SQLiteTriggers

TRIGGERS = PerDialect[Triggers](
    sqlite=SQLiteTriggers(),
    postgresql=PostgreSQLTriggers(),
    mysql=MySQLTriggers(collation="utf8mb4_0900_bin", can_replace=False),
    mariadb=MySQLTriggers(collation="utf8mb4_nopad_bin", can_replace=True),
)
