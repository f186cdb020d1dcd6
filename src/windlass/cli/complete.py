"""Completion in the shell: `windlass completion bash|zsh|fish`, and names and ids from the app."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from windlass.value.status import Status

if TYPE_CHECKING:
    from windlass.app import App

COMPLETE = "_WINDLASS_COMPLETE"
SHELLS = ("bash", "zsh", "fish")
MOST = 50

# What can be typed, each with a word about it.
Found = Iterable[tuple[str, str]]


def completion(
    shell: Annotated[str, typer.Argument(metavar="SHELL", help="bash, zsh or fish.")],
) -> None:
    """Print the script that lets a shell complete commands, kinds and ids.

    For bash, put eval "$(windlass completion bash)" into ~/.bashrc; for zsh the same with zsh into
    ~/.zshrc; for fish, windlass completion fish | source into ~/.config/fish/config.fish.
    """
    from typer._completion_shared import get_completion_script

    from windlass.cli.output import refuse

    if shell not in SHELLS:
        refuse(f"{shell!r} is not one of {', '.join(SHELLS)}")
    typer.echo(get_completion_script(prog_name="windlass", complete_var=COMPLETE, shell=shell))


def is_completing() -> bool:
    """Whether a shell asks what could be typed next."""
    return COMPLETE in os.environ


def _kinds(app: App) -> Found:
    return ((name, kind.face) for name, kind in app.registry.kinds.items())


def _of_face(face: str) -> Callable[[App], Found]:
    def find(app: App) -> Found:
        return ((name, face) for name, kind in app.registry.kinds.items() if kind.face == face)

    return find


def _sweep_runs(app: App) -> Found:
    app.prepare()
    for progress in app.sweeps.listing(app.registry.kinds.values()):
        if progress.run is not None:
            yield progress.sweep, progress.source or ""


def _tasks(app: App) -> Found:
    from windlass.operate.task import operate
    from windlass.value.task import TaskFilter

    app.prepare()
    for task in operate.listing(app.fleet, TaskFilter(), limit=MOST):
        yield str(task.id), f"{task.kind} {task.status}"


def _runs(app: App) -> Found:
    for run in app.flows.runs(limit=MOST):
        yield str(run.id), f"{run.flow} {run.status}"


def _downstreams(app: App) -> Found:
    return ((name, "downstream") for name in app.registry.downstreams)


# By the name that the help shows, or by the option.
SOURCES: dict[str, Callable[[App], Found]] = {
    "KIND": _kinds,
    "--kind": _kinds,
    "SWEEP": _of_face("sweep"),
    "SWEEP_RUN": _sweep_runs,
    "ROLLING": _of_face("rolling"),
    "FLOW": _of_face("flow"),
    "--flow": _of_face("flow"),
    "DOWNSTREAM": _downstreams,
    "ID": _tasks,
    "RUN": _runs,
}


def completion_of(param: Any) -> Callable[..., list[Any]] | None:
    """What completes a parameter; None if nothing is known about it."""
    if "--status" in param.opts:
        return lambda _ctx, typed: _items(((str(each), "") for each in Status), typed)
    find = SOURCES.get((param.metavar or "").strip("[].")) or SOURCES.get(param.opts[0])
    if find is None:
        return None

    def complete(ctx: Any, typed: str) -> list[Any]:
        # Whatever goes wrong, a completion says nothing and offers nothing.
        with contextlib.suppress(BaseException), contextlib.redirect_stderr(io.StringIO()):
            return _items(find(_app_of(ctx)), typed)
        return []

    return complete


def _app_of(ctx: Any) -> App:
    from windlass.cli.load import load_app

    return load_app(ctx.params.get("app") or os.environ.get("WINDLASS_APP"))


def _items(found: Found, typed: str) -> list[Any]:
    from typer._click.shell_completion import CompletionItem

    return [
        CompletionItem(text, help=about or None) for text, about in found if text.startswith(typed)
    ]
