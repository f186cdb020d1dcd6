"""`manage.py windlass worker`, `... console`, `... status`: the commands of Windlass."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from windlass import cli
from windlass.contrib.django.begin import the_app

# Where the commands find the app of the project.
APP = "windlass.contrib.django:app"
# Options of manage.py, which has obeyed them already.
DJANGOS = ("--settings", "--pythonpath")


class Command(BaseCommand):
    """Hands everything on to the command line of Windlass."""

    help = "The command line of Windlass for this project: worker, console, status, migrate, ..."
    # The worker prepares what it needs; `windlass check` says what is wrong.
    requires_system_checks: Sequence[str] = []

    def run_from_argv(self, argv: list[str]) -> None:
        self._run(_without_djangos(argv[2:]))

    def handle(self, *args: Any, **_: Any) -> None:
        """For `call_command("windlass", "status")`."""
        self._run(list(args))

    def add_arguments(self, parser: Any) -> None:
        parser.add_argument("args", nargs="*")

    def _run(self, words: list[str]) -> None:
        os.environ.setdefault("WINDLASS_APP", APP)
        words = _of_queues(words)
        _let_children_find(sys.path[0])
        before = sys.argv
        # The processes of `worker --processes` are started with the same words.
        sys.argv = ["windlass", *words]
        try:
            cli.main()
        finally:
            sys.argv = before


def _of_queues(words: list[str]) -> list[str]:
    """`worker --queue mail` runs the kinds of a queue of Django's tasks: those of its group."""
    kept: list[str] = []
    rest = iter(words)
    for word in rest:
        name, _, value = word.partition("=")
        if words[0] != "worker" or name != "--queue":
            kept.append(word)
            continue
        queue, app = value or next(rest, ""), the_app()
        kinds = [each.name for each in app.chosen().values() if each.group == queue]
        if not kinds:
            raise CommandError(f"no task is in the queue {queue!r}")
        kept += [part for kind in kinds for part in ("--kind", kind)]
    return kept


def _let_children_find(folder: str) -> None:
    """Processes of `worker --processes` import the project from the folder of manage.py."""
    if folder and folder != os.getcwd():
        known = os.environ.get("PYTHONPATH")
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (folder, known)))


def _without_djangos(words: list[str]) -> list[str]:
    kept: list[str] = []
    skips = False
    for word in words:
        if skips:
            skips = False
        elif word in DJANGOS:
            skips = True
        elif not word.startswith(tuple(f"{name}=" for name in DJANGOS)):
            kept.append(word)
    return kept
