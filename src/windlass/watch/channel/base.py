"""What a channel must be able to do, and the messages that it gets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from windlass.core.alert.model import Severity

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
