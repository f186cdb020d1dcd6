"""Windlass in Django: `INSTALLED_APPS += ["windlass.contrib.django"]`.

    from windlass.contrib.django import app

    @app.task(retries=5)
    def send_mail(to: str) -> None: ...

The app is made from the settings when it is first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from windlass.contrib.django.project import DjangoApp

    app: DjangoApp

__all__ = ["app"]


def __getattr__(name: str) -> object:
    """The app, set up when it is first used: this package is imported before the settings are."""
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from windlass.contrib.django.begin import the_app

    return the_app()
