"""`manage.py check`: whether the settings can be, and with --database whether the tables are."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from django.core import checks
from django.core.checks import CheckMessage, Error
from django.db import connections
from django.utils.module_loading import import_string

from windlass.contrib.django.begin import the_app
from windlass.contrib.django.database import is_in_memory, url_of
from windlass.contrib.django.setting import Settings, read_settings
from windlass.database.version import VERSION
from windlass.errors import WindlassError


def check_settings(**_: Any) -> list[CheckMessage]:
    """Whether `WINDLASS` can be, and the database that it names."""
    try:
        settings = read_settings()
        url_of(settings.database)
        the_app()
    except (WindlassError, TypeError) as problem:
        return [Error(str(problem), id="windlass.E001")]
    return [*_check_user(settings), *_check_sqlite(settings)]


def _check_user(settings: Settings) -> list[CheckMessage]:
    if settings.console_user is None:
        return []
    try:
        found = import_string(settings.console_user)
    except ImportError as problem:
        return [Error(f'WINDLASS["CONSOLE_USER"]: {problem}', id="windlass.E002")]
    if not callable(found):
        text = f'WINDLASS["CONSOLE_USER"]: {settings.console_user} is not a function'
        return [Error(text, id="windlass.E002")]
    return []


def _check_sqlite(settings: Settings) -> list[CheckMessage]:
    connection = connections[settings.database]
    if connection.vendor != "sqlite":
        return []
    alias, given = settings.database, connection.settings_dict
    found: list[CheckMessage] = []
    if given["OPTIONS"].get("transaction_mode") != "IMMEDIATE":
        found.append(
            checks.Warning(
                f"DATABASES[{alias!r}] begins transactions without a lock: two that write at once "
                'fail with "database is locked"',
                hint='Set "OPTIONS": {"transaction_mode": "IMMEDIATE", "timeout": 20}.',
                id="windlass.W001",
            )
        )
    if is_in_memory(str(given.get("TEST", {}).get("NAME") or ":memory:")):
        found.append(
            checks.Warning(
                f"tests of DATABASES[{alias!r}] run in memory, where Windlass sees no table",
                hint='Set "TEST": {"NAME": BASE_DIR / "test.sqlite3"}.',
                id="windlass.W002",
            )
        )
    return found


def check_database(*, databases: Sequence[str] | None = None, **_: Any) -> list[CheckMessage]:
    """Whether the tables are there, and as new as the code."""
    try:
        app = the_app()
        if app.alias not in (databases or ()):
            return []
        app.follow()
        tables = app.database.read(app.database.tables)
    except WindlassError as problem:
        return [Error(str(problem), id="windlass.E003")]
    if VERSION in tables.ended or "migrate" in sys.argv[1:]:
        return []
    how = "migrate" if app.django.tables == "django" else "windlass migrate"
    text = "the tables of Windlass are missing, or older than its code"
    return [checks.Warning(text, hint=f"Run manage.py {how}.", id="windlass.W003")]
