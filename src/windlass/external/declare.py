"""The base class for external systems that users write."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, cast

from windlass.errors import BadDeclaration
from windlass.external.model import Answer


class External(ABC):
    """A system that executes work elsewhere. Subclass it, and give it to `app.external`.

    `submit` takes the arguments of the task and returns a handle. It is called again for the same
    task if a worker died before the handle was stored: `context().submission` is then the same, and
    the system must treat the two calls as one. `submit` raises `ExternalFailed` if the system
    refuses the job and will not accept it later.
    """

    def __init_subclass__(cls) -> None:
        if not hasattr(cls, "submit"):
            raise BadDeclaration(
                f"{cls.__name__} has no submit; write def submit(self, ...) -> str"
            )

    @abstractmethod
    def poll(self, handles: list[str]) -> dict[str, Answer]:
        """The state of each handle. A handle that is left out is still running."""

    def cancel(self, handle: str) -> None:
        """Stop a job, if the system can. By default nothing is stopped.

        A worker calls this soon after a task was cancelled or skipped, or has timed out. If it
        raises, it is called again a few times.
        """
        del handle


def submit_of(name: str, system: object) -> Callable[..., Any]:
    """The `submit` of a system; raises BadDeclaration if a method is missing or async."""
    submit = getattr(system, "submit", None)
    if not callable(submit) or not callable(getattr(system, "poll", None)):
        raise BadDeclaration(
            f"external {name!r}: {system!r} has no submit and poll; subclass windlass.External"
        )
    calls = (getattr(system, call, None) for call in ("submit", "poll", "cancel"))
    if any(map(inspect.iscoroutinefunction, calls)):
        raise BadDeclaration(
            f"external {name!r}: submit, poll and cancel run on threads; write them as plain def"
        )
    return cast(Callable[..., Any], submit)
