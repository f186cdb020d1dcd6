"""Changing a run that goes on, as plain data says: what the console sends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from windlass.flow.declare import Edit
from windlass.flow.model.template import filled_in
from windlass.flow.operate.flow import Flows
from windlass.flow.operate.template import Templates


@dataclass(frozen=True)
class NewNode:
    """A node to add; in its arguments `{"$result": "load"}` stands for what load returned."""

    name: str
    kind: str
    args: Sequence[Any] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    after: Sequence[str] = ()
    trigger: str = "all_success"
    when: str | None = None


@dataclass(frozen=True)
class Changes:
    """Nodes to add, edges to add, and edges to remove."""

    add: Sequence[NewNode] = ()
    link: Sequence[tuple[str, str]] = ()
    unlink: Sequence[tuple[str, str]] = ()

    @property
    def is_empty(self) -> bool:
        return not (self.add or self.link or self.unlink)


def edit(flows: Flows, templates: Templates, run: int, changes: Changes) -> None:
    """Make all of the changes to a run, or none."""
    templates.read_nested(node.kind for node in changes.add)

    def change(edit: Edit) -> None:
        for node in changes.add:
            edit.draw(
                node.kind,
                tuple(filled_in(list(node.args), {})),
                filled_in(node.kwargs, {}),
                after=list(node.after),
                name=node.name,
                trigger=cast(Any, node.trigger),
                when=node.when,
            )
        for parent, child in changes.unlink:
            edit.unlink(parent, child)
        for parent, child in changes.link:
            edit.link(parent, child)

    flows.edit(run, change)
