"""The console, for the staff: `path("windlass/", include("windlass.contrib.django.urls"))`."""

from __future__ import annotations

from django.urls import path

from windlass.contrib.django.console import console

app_name = "windlass"
urlpatterns = [
    path("", console, {"rest": ""}, name="console"),
    path("<path:rest>", console),
]
