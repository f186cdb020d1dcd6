"""Deliveries: tasks of our own that bring alerts to channels. Every worker runs them.

So a delivery is durable: it is retried with back-off, and after the last try another channel gets
it. Operators find deliveries among the tasks and may retry them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from uuid import uuid4

import msgspec

from windlass.core.alert.model import Severity
from windlass.core.run.context import RunContext, current_run
from windlass.core.shard.fleet import Fleet
from windlass.core.shard.shard import Shard
from windlass.core.task.declare import How
from windlass.core.task.kind import Kind, make_kind
from windlass.core.task.option import Options
from windlass.errors import Cancel, DatabaseUnavailable, Undelivered
from windlass.value.duration import format_duration
from windlass.value.task import Call
from windlass.watch.channel.base import Message
from windlass.watch.declare import Channel, Watching
from windlass.watch.model import AlertView
from windlass.watch.store import alert as store

DELIVER = "windlass:alert"
RETRIES = 8
SHOWN = 20


class Delivery(msgspec.Struct):
    """The arguments of a delivery, as its row has them."""

    channel: str
    stage: str
    alerts: list[int]


Submit = Callable[[Kind, Sequence[Call], How], Any]


def delivery_kind(watching: Watching, fleet: Fleet, submit: Submit) -> Kind:
    """The kind of tasks that deliver alerts to the channels of an app."""

    def deliver(channel: str, stage: str, alerts: list[int]) -> None:
        chosen = watching.channels.get(channel)
        if chosen is None:
            raise Cancel(f"no channel is named {channel!r} any more")
        found = _read(fleet, alerts)
        if not found:
            raise Cancel("these alerts were pruned")
        context = RunContext(current_run())
        try:
            chosen.sender.send(message_of(found, stage, number=context.task_id))
        except Undelivered:
            if context.attempt > RETRIES and chosen.fallback is not None:
                call = Call((chosen.fallback, stage, alerts), {}, None)
                submit(kind, [call], How(key=f"{context.task_id}:{chosen.fallback}"))
            raise

    kind = make_kind(
        deliver,
        Options(
            name=DELIVER,
            retries=RETRIES,
            backoff="5s",
            timeout="1m",
            concurrency=5,
            keep="7d",
            face="watch",
            face_terms=watching,
        ),
    )
    return kind


def delivery(channel: Channel, stage: str, alerts: Sequence[int]) -> Call:
    """The call that delivers these alerts."""
    return Call((channel.name, stage, list(alerts)), {}, None)


def trial_message(channel: Channel) -> Message:
    """A message that shows whether a channel works."""
    text = f"This is a test of the channel {channel.name!r}. No action is needed."
    facts: dict[str, object] = {"stage": "test", "alerts": [], "channel": channel.name}
    return Message(
        f"windlass-test-{uuid4().hex}", "[info] Windlass: test", text, Severity.INFO, False, facts
    )


def message_of(alerts: Sequence[AlertView], stage: str, *, number: int) -> Message:
    """One message about one or more alerts."""
    worst = max(Severity[alert.severity.upper()] for alert in alerts)
    is_resolved = stage == "resolved"
    mark = "resolved" if is_resolved else str(worst)
    about = alerts[0].trouble if len(alerts) == 1 else f"{len(alerts)} alerts"
    lines = [_line(alert, stage) for alert in alerts[:SHOWN]]
    if len(alerts) > SHOWN:
        lines.append(f"and {len(alerts) - SHOWN} more")
    facts: dict[str, object] = {"stage": stage, "alerts": [_facts(alert) for alert in alerts]}
    # Receivers may serve several apps, whose tasks have the same numbers.
    name = f"windlass-{number}-{min(alert.raised_at for alert in alerts)}"
    return Message(name, f"[{mark}] {about}", "\n".join(lines), worst, is_resolved, facts)


def _line(alert: AlertView, stage: str) -> str:
    times = f" ({alert.times:,} in all)" if alert.times > 1 else ""
    ended = _ended(alert)
    if stage == "resolved":
        return f"{alert.trouble}{times}: {ended}".strip()
    still = "still: " if stage == "repeated" and not ended else ""
    return f"{still}{alert.text}{times}{ended and f' - {ended}'}"


def _ended(alert: AlertView) -> str:
    """When and how its cause ended; empty if it lasts, or is over from the start."""
    if alert.resolved_at is None or alert.resolved_at == alert.raised_at:
        return ""
    after = format_duration(max(1_000_000, alert.resolved_at - alert.raised_at))
    return f"resolved after {after}. {alert.resolution or ''}".strip()


def _facts(alert: AlertView) -> dict[str, object]:
    return {
        "id": alert.id,
        "what": alert.what,
        "kind": alert.kind,
        "severity": alert.severity,
        "text": alert.text,
        "times": alert.times,
        "raised_at": alert.raised_at,
        "last_at": alert.last_at,
        "resolved_at": alert.resolved_at,
        "task_id": alert.task_id,
    }


def _read(fleet: Fleet, numbers: Sequence[int]) -> list[AlertView]:
    """These alerts, in whichever shard they are, without those that were pruned."""

    def read(shard: Shard) -> list[AlertView]:
        now = shard.clock.now()
        return shard.database.read(lambda connection: store.get_all(connection, numbers, now=now))

    asked = fleet.fan_out(read)
    found = [alert for part in asked.values for alert in part]
    if not found and asked.missing:
        away = ", ".join(asked.missing)
        raise DatabaseUnavailable(f"the alerts cannot be read: {away} does not answer")
    return found
