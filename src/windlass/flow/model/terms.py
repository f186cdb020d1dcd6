"""What is declared of a flow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from windlass.core.task.kind import Kind


class FlowTerms(NamedTuple):
    """What draws the nodes of a flow; the version, if it is a template."""

    draw: Callable[..., Any]
    version: int | None = None


def flow_of(kind: Kind | None) -> FlowTerms | None:
    """What is declared of a kind that is a flow; None if it is not."""
    terms = None if kind is None else kind.face_terms
    return terms if isinstance(terms, FlowTerms) else None


def version_of(kind: Kind) -> int | None:
    """The version of a kind that is a template."""
    terms = flow_of(kind)
    return None if terms is None else terms.version
