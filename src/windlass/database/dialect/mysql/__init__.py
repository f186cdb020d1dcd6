"""MySQL 8 and MariaDB 10.6 or newer."""

from windlass.database.dialect.mysql.task import MySQL

__all__ = ["MySQL"]
