"""What a handler may know of the run it is in, and ask of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windlass.core.run.context import RunContext, current_run

if TYPE_CHECKING:
    from windlass.external.model import Submission
    from windlass.flow.engine.grow import Growing


class Context(RunContext):
    """The run that the calling handler is in."""

    @property
    def submission(self) -> str:
        """The name of this submission for the external system: the same if it is repeated.

        It is the id of the task, with a number behind it after an earlier submission has failed.
        """
        return self._submission.name

    @property
    def secret(self) -> str:
        """What the external system must send when it calls back about this submission."""
        return self._submission.secret

    @property
    def flow(self) -> Growing:
        """Draws nodes after the one that is running; they are written with its success."""
        from windlass.flow.engine.grow import growing

        return growing(self._run)

    @property
    def _submission(self) -> Submission:
        from windlass.external.engine.submission import submission_of

        return submission_of(self._run)


def context() -> Context:
    """The run that the calling handler is in."""
    return Context(current_run())
