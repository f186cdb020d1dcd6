"""Who makes the tables: `manage.py migrate`, or `manage.py windlass migrate`; in tests always
Django, which makes a new database for them.
"""

from __future__ import annotations

from typing import Any

from django.db import connections

from windlass.contrib.django.begin import the_app
from windlass.contrib.django.project import DjangoApp


def make_tables(alias: str) -> bool:
    """Create or upgrade the tables if `migrate` of this database does that; whether it did."""
    app = the_app()
    if alias != app.alias or not (app.django.tables == "django" or _is_test_database(alias)):
        return False
    app.migrate()
    _close_before_it_is_dropped(app)
    return True


def after_migrate(*, using: str, **_: Any) -> None:
    """New versions of Windlass have no migration of Django's for each of their changes."""
    make_tables(using)


def _is_test_database(alias: str) -> bool:
    """Whether a test runner has put another database in the place of the one in the settings."""
    given = connections[alias].settings_dict
    name, test = str(given["NAME"]), given.get("TEST", {}).get("NAME")
    return name == str(test) or name.startswith("test_")


def _close_before_it_is_dropped(app: DjangoApp) -> None:
    """PostgreSQL refuses to drop a database with open connections."""
    creation: Any = connections[app.alias].creation
    if vars(creation).get("destroy_test_db") is not None:
        return
    drop = creation.destroy_test_db

    def destroy_test_db(*args: Any, **kwargs: Any) -> Any:
        app.close()
        return drop(*args, **kwargs)

    creation.destroy_test_db = destroy_test_db
