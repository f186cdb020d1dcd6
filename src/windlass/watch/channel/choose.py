"""The sender for a URL, by its scheme. URLs are secrets: no error shows one."""

from __future__ import annotations

from windlass.errors import BadInput
from windlass.watch.channel.base import Sender

WEBHOOK = "webhook+"


def sender_of(url: str, *, secret: str | None = None, only_http: bool = False) -> Sender:
    """The sender for a URL; an error says what is wrong, and does not show the URL."""
    if not isinstance(url, str) or "://" not in url:
        raise BadInput(
            "a channel is a URL such as slack://..., mailto://... or webhook+https://...; "
            "what was given is not a URL"
        )
    scheme = url.split("://", maxsplit=1)[0].lower()
    if only_http or scheme.startswith(WEBHOOK):
        from windlass.watch.channel.webhook import Webhook

        return Webhook.at(url.removeprefix(WEBHOOK), secret=secret)
    if secret is not None:
        raise BadInput(f"secret= belongs to webhook+https:// channels, not to {scheme}://")
    from windlass.watch.channel.apprise import AppriseSender

    return AppriseSender(scheme, url)
