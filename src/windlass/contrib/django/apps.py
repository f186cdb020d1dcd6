"""Windlass as an app of Django: it finds the tasks of the project, and follows `migrate`."""

from __future__ import annotations

from django.apps import AppConfig
from django.core import checks
from django.db.models.signals import post_migrate
from django.utils.module_loading import autodiscover_modules

from windlass.errors import WindlassError


class WindlassConfig(AppConfig):
    """Registers the checks, imports `tasks.py` of each app, and makes tables after `migrate`."""

    name = "windlass.contrib.django"
    label = "windlass"
    verbose_name = "Windlass"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from windlass.contrib.django.check import check_database, check_settings
        from windlass.contrib.django.setting import read_settings
        from windlass.contrib.django.table import after_migrate

        checks.register(check_settings)
        checks.register(check_database, checks.Tags.database)
        try:
            modules = read_settings().modules
        except WindlassError:
            # `manage.py check` says what is wrong; every other command runs it first.
            return
        post_migrate.connect(after_migrate, sender=self, dispatch_uid="windlass")
        for name in modules:
            autodiscover_modules(name)
