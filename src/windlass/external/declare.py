"""External systems as users write them: submit a job, and say how jobs are going."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, cast

from windlass.errors import BadDeclaration
from windlass.external.model import Answer


class External(ABC):
    """Something that executes work elsewhere. Subclass it, and give it to `app.external`.

    `submit` takes the arguments of the task and returns a handle. It may be called again for the
    same task, when a worker died before the handle was written down: `context().submission` is then
    the same, and the other side must take the two for one. It raises `ExternalFailed` if the other
    side refuses the job for good.
    """

    def __init_subclass__(cls) -> None:
        if not hasattr(cls, "submit"):
            raise BadDeclaration(
                f"{cls.__name__} has no submit; write def submit(self, ...) -> str"
            )

    @abstractmethod
    def poll(self, handles: list[str]) -> dict[str, Answer]:
        """How these are going. One that is left out still runs."""

    def cancel(self, handle: str) -> None:
        """Stop one, if that is possible. Nothing is stopped unless this is overridden.

        A worker calls it, soon after a task was cancelled, skipped, or out of time; again if it
        raises, a few times.
        """
        del handle


def submit_of(name: str, system: object) -> Callable[..., Any]:
    """The `submit` of a system, or an error that says what is missing."""
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
