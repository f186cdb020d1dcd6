"""The settings: one dict, `WINDLASS`, in the settings of the project."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from django.conf import settings

from windlass.errors import BadInput

# Who makes the tables: `manage.py migrate`, or `manage.py windlass migrate`.
TABLES = ("django", "windlass")
NAMES = {
    "DATABASE": "database",
    "TABLES": "tables",
    "MODULES": "modules",
    "CONSOLE_USER": "console_user",
    "OPTIONS": "options",
}


@dataclass(frozen=True)
class Settings:
    """What `WINDLASS` says, with the defaults."""

    # The alias in DATABASES.
    database: str = "default"
    tables: str = "django"
    # The modules that are imported from each app of the project, to find the tasks.
    modules: tuple[str, ...] = ("tasks",)
    # A function, by its path: given a request, the ConsoleUser, or None.
    console_user: str | None = None
    # Options of the App, such as dead_after.
    options: Mapping[str, Any] = field(default_factory=dict)


def read_settings() -> Settings:
    """The settings of this project; raises if one is unknown or cannot be."""
    given = getattr(settings, "WINDLASS", {})
    if not isinstance(given, Mapping):
        raise BadInput(f"WINDLASS is a {type(given).__name__}; give a dict")
    if unknown := [name for name in given if name not in NAMES]:
        raise BadInput(f"WINDLASS[{unknown[0]!r}] is unknown; known: {', '.join(NAMES)}")
    values = {NAMES[name]: value for name, value in given.items()}
    if "modules" in values:
        values["modules"] = _texts(values["modules"])
    made = Settings(**values)
    if made.tables not in TABLES:
        raise BadInput(
            f'WINDLASS["TABLES"] is {made.tables!r}; give "django" (manage.py migrate makes the '
            'tables) or "windlass" (manage.py windlass migrate does)'
        )
    if made.database not in settings.DATABASES:
        known = ", ".join(settings.DATABASES) or "none"
        raise BadInput(
            f'WINDLASS["DATABASE"] is {made.database!r}, which is not in DATABASES; known: {known}'
        )
    if not isinstance(made.options, Mapping):
        raise BadInput('WINDLASS["OPTIONS"] is not a dict of options of windlass.App')
    return made


def _texts(given: object) -> tuple[str, ...]:
    if isinstance(given, str) or not isinstance(given, list | tuple):
        raise BadInput(f'WINDLASS["MODULES"] is {given!r}; give a list of names, ["tasks"]')
    return tuple(given)


assert {each.name for each in fields(Settings)} == set(NAMES.values())
