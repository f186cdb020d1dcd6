"""Channels: list them, and test one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from windlass.errors import Unknown
from windlass.value.duration import format_duration
from windlass.view.action import Action
from windlass.watch.declare import Channel
from windlass.watch.engine.deliver import trial_message
from windlass.watch.model import ChannelView, SeverityName
from windlass.watch.operate.audit import AuditLog


def listing(channels: Mapping[str, Channel]) -> list[ChannelView]:
    """All channels, in the order in which they were declared."""
    return [
        ChannelView(
            name=channel.name,
            scheme=channel.sender.scheme,
            severity=cast(SeverityName, str(channel.severity)),
            kinds=None if channel.kinds is None else sorted(channel.kinds),
            every=None if channel.every is None else format_duration(channel.every),
            quiet=None if channel.quiet is None else channel.quiet.text,
            fallback=channel.fallback,
        )
        for channel in channels.values()
    ]


def try_out(channels: Mapping[str, Channel], log: AuditLog, name: str) -> str:
    """Send a test message now; raises Undelivered if the channel does not take it."""
    channel = channels.get(name)
    if channel is None:
        known = ", ".join(channels) or "none"
        raise Unknown(f"no channel is named {name!r}; declared are: {known}")
    with log.record(Action.ALERT_TEST, name) as entry:
        channel.sender.send(trial_message(channel))
        return entry.says(f"a test message was sent to {name}")
