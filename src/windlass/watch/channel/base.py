"""What a channel must be able to do, and the messages that it gets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from windlass.core.alert.model import Severity
from windlass.errors import Undelivered
from windlass.value.twin import in_background

SEND_SECONDS = 15.0


@dataclass(frozen=True)
class Message:
    """One message; `facts` are for programs, title and text for people.

    The same id is the same message: a receiver may get it twice and can tell.
    """

    id: str
    title: str
    text: str
    severity: Severity
    is_resolved: bool
    facts: dict[str, object]


class Sender(Protocol):
    """Sends messages to one place."""

    scheme: str

    def send(self, message: Message) -> None:
        """Send it; raises Undelivered if that was not confirmed within SEND_SECONDS."""

    def ping(self) -> None:
        """Tell it that all is well, without a message."""


def in_time(send: Callable[[], None], *, where: str) -> None:
    """Send within SEND_SECONDS; raises Undelivered whatever goes wrong.

    Time-outs of sockets are not enough: a receiver that answers a byte now and then never ends
    one. Errors that are not Undelivered are named without their text, which may have the URL.
    """
    try:
        problem = in_background(send, "send").exception(SEND_SECONDS)
    except TimeoutError:
        raise Undelivered(f"{where} did not answer within {SEND_SECONDS:g} s") from None
    if isinstance(problem, Undelivered):
        raise problem
    if problem is not None:
        raise Undelivered(f"{where}: {type(problem).__name__}")
