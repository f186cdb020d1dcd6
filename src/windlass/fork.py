"""Child processes: what one must not share with its parent, and how it knows the parent."""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet

# In the environment of a child: the process that supervises it.
CHILD = "WINDLASS_CHILD"


class Importing:
    """Whether this is a child process that imports the modules of its worker just now."""

    is_going_on = False


class Forker(Protocol):
    """Owns something that a forked child must not use."""

    def after_fork(self) -> None:
        """Start fresh in the child."""


_ALL: WeakSet[Forker] = WeakSet()


def watch_forks(owner: Forker) -> None:
    """Call `owner.after_fork` in every child that this process forks."""
    _ALL.add(owner)


def _after_fork() -> None:
    for owner in list(_ALL):
        owner.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
