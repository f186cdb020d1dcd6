"""How commands read what is typed: the app in either form, values by name, completion.

Every command that needs an app takes it as `--app shop:app`, and as its first argument.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from typer.core import TyperGroup

from windlass.cli.complete import completion_of
from windlass.cli.output import parse_json, refuse

# MODULE:APP, as in `windlass status shop:app`.
APP = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")
VARIABLE = "WINDLASS_APP"


class Commands(TyperGroup):
    """A group of commands, each of which gets what was typed in the form that it declares."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that is meant, and the arguments that are left for it."""
        name, found, rest = super().resolve_command(ctx, args)
        if found is not None:
            prepare(found)
            rest = app_in_place(found, rest)
        return name, found, rest

    def get_params(self, ctx: Any) -> Any:
        """Its own options; flags show no type."""
        found = super().get_params(ctx)
        _hide_types(found)
        return found


def prepare(command: Any) -> None:
    """Let flags show no type in the help, and let the shell complete names and ids."""
    if isinstance(command, TyperGroup) or hasattr(command, "is_prepared"):
        return
    command.is_prepared = True
    # The option --help is made when it is first asked for.
    command.get_params = _hiding(command.get_params)
    for each in command.params:
        if (complete := completion_of(each)) is not None:
            each.shell_complete = complete


def _hiding(get: Any) -> Any:
    def params(ctx: Any) -> Any:
        found = get(ctx)
        _hide_types(found)
        return found

    return params


def _hide_types(params: Sequence[Any]) -> None:
    for each in params:
        if getattr(each, "is_flag", False):
            each.metavar = ""


def app_in_place(command: Any, args: list[str]) -> list[str]:
    """The arguments of a command, with the app where its declaration has it."""
    app = next((each for each in getattr(command, "params", ()) if each.name == "app"), None)
    if app is None:
        return args
    before, after = _split(args)
    named = next((place for place, text in enumerate(before) if _is_app_option(text)), None)
    if app.param_type_name == "argument":
        return _as_argument(before, named) + after
    if named is not None:
        return args
    typed = list(_positionals(command, before))
    if not typed or not APP.fullmatch(before[typed[0]]):
        return args
    wanted = [each for each in command.params if each.param_type_name == "argument"]
    has_room = len(typed) <= len(wanted) or any(each.nargs == -1 for each in wanted)
    if os.environ.get(VARIABLE) and has_room and not _is_module(before[typed[0]]):
        return args
    return ["--app", before.pop(typed[0]), *before, *after]


def _as_argument(before: list[str], named: int | None) -> list[str]:
    if named is None:
        return before
    option = before.pop(named)
    value = option.partition("=")[2] if "=" in option else "".join(before[named : named + 1])
    if "=" not in option:
        del before[named : named + 1]
    return [value, *before] if value else before


def _is_app_option(text: str) -> bool:
    return text == "--app" or text.startswith("--app=")


def _is_module(text: str) -> bool:
    """Whether there is such a module; it is not imported."""
    path = os.path.join(*text.partition(":")[0].split("."))
    return os.path.exists(f"{path}.py") or os.path.isdir(path)


def _split(args: list[str]) -> tuple[list[str], list[str]]:
    """The arguments before `--`, and the rest."""
    place = args.index("--") if "--" in args else len(args)
    return args[:place], args[place:]


def _positionals(command: Any, args: Sequence[str]) -> Iterator[int]:
    """The places of arguments that are neither options nor their values."""
    takes_value = {
        name
        for each in command.params
        if each.param_type_name == "option" and not each.is_flag
        for name in each.opts
    }
    skip = False
    for place, text in enumerate(args):
        if skip:
            skip = False
        elif text.startswith("-") and len(text) > 1:
            skip = text in takes_value
        else:
            yield place


def values_of(given: Sequence[str], types: Mapping[str, Any]) -> list[Any] | dict[str, Any]:
    """The arguments that a person typed: one JSON value, or `name=value` for each."""
    if not given:
        return {}
    if given[0].lstrip()[:1] in ("{", "["):
        if len(given) > 1:
            refuse(f"{given[1]!r} comes after the JSON; give either JSON or name=value")
        found = parse_json(given[0], "the argument")
        return found if isinstance(found, list | dict) else {}
    named: dict[str, Any] = {}
    for each in given:
        name, sign, text = each.partition("=")
        if not sign or not name.isidentifier():
            refuse(
                f"{each!r} is neither JSON nor name=value; write order=o-7, or "
                '\'{"order": "o-7"}\''
            )
        if name in named:
            refuse(f"{name} is given twice")
        named[name] = _value(text, types.get(name, Any))
    return named


def _value(text: str, wanted: Any) -> Any:
    """Text stays text for a parameter that takes text; else it is JSON if it can be."""
    if wanted is str:
        return text
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
