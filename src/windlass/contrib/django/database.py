"""The database of Windlass is one of DATABASES: its URL, made from Django's settings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from django.db import connections

from windlass.database.connection import URL
from windlass.errors import BadDatabase

BACKENDS = {"postgresql": "postgresql", "mysql": "mysql", "sqlite": "sqlite"}
# Options that are about Django's own connection.
DJANGOS = frozenset({
    "assume_role", "autocommit", "charset", "client_encoding", "cursor_factory", "detect_types",
    "init_command", "isolation_level", "pool", "server_side_binding", "sql_mode", "timeout",
    "transaction_mode", "use_unicode", "check_same_thread", "cached_statements",
})  # fmt: skip


def url_of(alias: str) -> URL:
    """The URL of a database of the project, as its settings are now."""
    found = connections[alias]
    backend, given = BACKENDS.get(found.vendor), found.settings_dict
    if backend is None:
        raise BadDatabase(
            f"DATABASES[{alias!r}] is {found.vendor}; Windlass works on PostgreSQL, MySQL, "
            'MariaDB and SQLite: name another one in WINDLASS["DATABASE"]'
        )
    name = str(given["NAME"])
    if backend == "sqlite":
        if is_in_memory(name):
            raise BadDatabase(
                f"DATABASES[{alias!r}] is in memory ({name!r}), where no worker could see it; "
                'give a file, and for tests also "TEST": {"NAME": BASE_DIR / "test.sqlite3"}'
            )
        return URL.create("sqlite", database=str(Path(name).absolute()))
    options = {"postgresql": _of_postgresql, "mysql": _of_mysql}[backend](given)
    host = str(given["HOST"] or "")
    if host.startswith("/"):
        options["host" if backend == "postgresql" else "unix_socket"] = host
        host = ""
    return URL.create(
        backend,
        username=given["USER"] or None,
        password=given["PASSWORD"] or None,
        host=host or None,
        port=int(given["PORT"]) if given["PORT"] else None,
        database=name,
        query=options,
    )


def is_in_memory(name: str) -> bool:
    """Whether the name of a SQLite database is not a file."""
    return ":memory:" in name or "mode=memory" in name


def _of_postgresql(given: Mapping[str, Any]) -> dict[str, str]:
    return _texts(given["OPTIONS"])


def _of_mysql(given: Mapping[str, Any]) -> dict[str, str]:
    options = dict(given["OPTIONS"])
    files = options.pop("ssl", None)
    if isinstance(files, Mapping):
        options |= {name: files[name] for name in ("ca", "cert", "key") if name in files}
    mode = options.pop("ssl_mode", None)
    if mode is not None:
        options["ssl_mode"] = mode
    return _texts(options)


def _texts(options: Mapping[str, Any]) -> dict[str, str]:
    """Options that mean the same to the driver of Windlass."""
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in options.items()
        if name not in DJANGOS and isinstance(value, str | int | float | Path)
    }
