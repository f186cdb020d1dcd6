"""The one app of a Django project: made from the settings, once."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from django.apps import apps

if TYPE_CHECKING:
    from windlass.contrib.django.project import DjangoApp

_lock = threading.RLock()
_made: list[DjangoApp] = []


def the_app() -> DjangoApp:
    """The app. A process that is not Django's, such as `windlass worker`, sets Django up."""
    if not apps.apps_ready and not _is_setting_up():
        import django

        django.setup()
    with _lock:
        if not _made:
            from windlass.contrib.django.project import DjangoApp
            from windlass.contrib.django.setting import read_settings

            _made.append(DjangoApp(read_settings()))
        return _made[0]


def _is_setting_up() -> bool:
    """Whether Django imports the modules of its apps at this moment: one of them asks."""
    return bool(apps.app_configs) or apps.loading
