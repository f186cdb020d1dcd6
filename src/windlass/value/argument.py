"""The arguments of a handler, as people see them."""

from __future__ import annotations

import inspect
from dataclasses import dataclass


@dataclass(frozen=True)
class ArgumentView:
    """An argument of a handler."""

    name: str
    type: str
    required: bool


def argument_views(signature: inspect.Signature) -> list[ArgumentView]:
    """The arguments that a handler takes."""
    return [
        ArgumentView(name, _type(parameter.annotation), parameter.default is parameter.empty)
        for name, parameter in signature.parameters.items()
    ]


def _type(annotation: object) -> str:
    if annotation is inspect.Parameter.empty:
        return "any"
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
