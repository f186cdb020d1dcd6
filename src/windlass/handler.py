"""`context()`: what a handler can read and do in its own run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windlass.core.run.context import RunContext, current_run

if TYPE_CHECKING:
    from windlass.database.connection import Connection
    from windlass.external.model import Submission
    from windlass.flow.engine import Growing
    from windlass.queue.model.message import ReceivedMessage


class Context(RunContext):
    """The run that the calling handler is in."""

    @property
    def submission(self) -> str:
        """The name of this submission for the external system; it stays the same in a repeat.

        It is the id of the task, followed by a number if an earlier submission has failed.
        """
        return self._submission.name

    @property
    def secret(self) -> str:
        """What the external system must send when it notifies about this submission."""
        return self._submission.secret

    @property
    def flow(self) -> Growing:
        """Adds nodes after the running one; they are written when it succeeds."""
        from windlass.flow.engine import growing

        return growing(self._one("flow"))

    @property
    def conn(self) -> Connection:
        """The transaction of the message that is handled: write by it, and do not commit.

        It has the id of the message and everything else that the handler writes by Windlass.
        """
        from windlass.queue.engine.effect import connection_of

        return connection_of(self._here("conn"))

    @property
    def messages(self) -> list[ReceivedMessage]:
        """The messages that the handler of a consumer was called with, with ids and headers."""
        from windlass.queue.engine.effect import messages_of

        return messages_of(self._run)

    @property
    def _submission(self) -> Submission:
        from windlass.external.engine.submission import submission_of

        return submission_of(self._run)


def context() -> Context:
    """The run that the calling handler is in."""
    return Context(current_run())
