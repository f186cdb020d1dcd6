"""Messages by Apprise: mail, Slack, Teams, DingTalk, Feishu, WeCom, Telegram and many more."""

from __future__ import annotations

from windlass.core.alert.model import Severity
from windlass.errors import BadInput, Undelivered
from windlass.watch.channel.base import Message, in_time

TYPES = {Severity.INFO: "info", Severity.WARNING: "warning", Severity.CRITICAL: "failure"}


class AppriseSender:
    """One address that Apprise knows."""

    def __init__(self, scheme: str, url: str) -> None:
        try:
            from apprise import Apprise
        except ImportError:
            raise BadInput(
                f"{scheme}:// channels need Apprise; run: pip install 'windlass[alert]'"
            ) from None
        self.scheme = scheme
        self._apprise = Apprise()
        if not self._apprise.add(url):
            raise BadInput(
                f"Apprise does not understand this {scheme}:// URL; see the page of that service "
                "in the documentation of Apprise"
            )

    def send(self, message: Message) -> None:
        in_time(lambda: self._notify(message), where=f"the {self.scheme} channel")

    def _notify(self, message: Message) -> None:
        kind = "success" if message.is_resolved else TYPES[message.severity]
        if not self._apprise.notify(title=message.title, body=message.text, notify_type=kind):
            raise Undelivered(f"the {self.scheme} channel did not take the message")

    def ping(self) -> None:
        raise NotImplementedError("heartbeats are sent to http and https only")
