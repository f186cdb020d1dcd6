"""Alerts: list them, and acknowledge them."""

from __future__ import annotations

import msgspec

from windlass.core.shard.fleet import Fleet
from windlass.core.shard.shard import Shard
from windlass.core.task.store import task
from windlass.errors import DatabaseUnavailable, UnknownAlert
from windlass.value.duration import format_duration
from windlass.value.task import TaskFilter, TaskView
from windlass.view.action import Action
from windlass.view.listing import Listing
from windlass.watch.engine.deliver import DELIVER, Delivery
from windlass.watch.model import Acknowledgement, AlertDetail, AlertView, DeliveryView
from windlass.watch.operate.audit import AuditLog
from windlass.watch.store import alert as store

# This many of the newest alerts are read to count the open ones.
MOST_READ = 500


def listing(fleet: Fleet, *, limit: int) -> Listing[AlertView]:
    """The last alerts, newest first."""

    def read(shard: Shard) -> list[AlertView]:
        now = shard.clock.now()
        return shard.database.read(
            lambda connection: store.listing(connection, limit=limit, now=now)
        )

    found = fleet.fan_out(read)
    merged = [each for part in found.values for each in part]
    if fleet.single is None:
        merged.sort(key=lambda each: (each.raised_at, each.id), reverse=True)
    return Listing(merged[:limit], found.missing)


def get(fleet: Fleet, number: int) -> AlertView:
    """One alert."""
    fleet.prepare()

    def read(shard: Shard) -> AlertView | None:
        now = shard.clock.now()
        return shard.database.read(lambda connection: store.get(connection, number, now=now))

    asked = fleet.fan_out(read)
    found = next((each for each in asked.values if each is not None), None)
    if found is not None:
        return found
    if asked.missing:
        away = ", ".join(asked.missing)
        raise DatabaseUnavailable(
            f"alert {number} is in none of the shards that answer; {away} does not",
            missing=asked.missing,
        )
    raise UnknownAlert(f"there is no alert {number}; they are kept for 30 days")


def show(fleet: Fleet, number: int) -> AlertDetail:
    """One alert, and its deliveries among the newest."""
    found = get(fleet, number)

    def read(shard: Shard) -> list[TaskView]:
        wanted = TaskFilter(kind=DELIVER)
        return shard.database.read(
            lambda connection: task.listing(connection, wanted, limit=MOST_READ)
        )

    tasks = [each for part in fleet.fan_out(read).values for each in part]
    deliveries = (_delivery(each, number) for each in tasks)
    return AlertDetail(found, [each for each in deliveries if each is not None])


def _delivery(found: TaskView, number: int) -> DeliveryView | None:
    told = msgspec.json.decode(found.payload, type=Delivery)
    if number not in told.alerts:
        return None
    return DeliveryView(
        task_id=found.id,
        channel=told.channel,
        stage=told.stage,
        status=str(found.status),
        attempts=found.attempt,
        created_at=found.created_at,
        finished_at=found.finished_at,
    )


def open_count(fleet: Fleet) -> int:
    """How many of the newest alerts are open."""
    return sum(each.is_open for each in listing(fleet, limit=MOST_READ))


def acknowledge(fleet: Fleet, log: AuditLog, number: int, *, quiet: int | None) -> str:
    """Acknowledge an alert, and all of its sort and kind until now; what was done, in words.

    With `quiet`, in microseconds, later alerts of that sort and kind are quiet, too, until the
    time is over or the breaker closes.
    """
    found = get(fleet, number)
    name = found.trouble
    detail = {"quiet_seconds": None if quiet is None else quiet // 1_000_000}
    with log.record(Action.ALERT_ACKNOWLEDGE, name, alert=number, **detail) as entry:

        def act(shard: Shard) -> None:
            now = shard.clock.now()
            seen = Acknowledgement(log.who[:255], now, None if quiet is None else now + quiet)
            dialect = shard.database.dialect
            shard.database.write(
                lambda connection: store.acknowledge(
                    connection, dialect, found.what, found.kind, seen
                )
            )

        fleet.everywhere(act, what=f"{name} is acknowledged")
        if quiet is None:
            return entry.says(f"{name} is acknowledged; a new one is told")
        return entry.says(f"{name} is acknowledged, and quiet for {format_duration(quiet)}")


def recall(fleet: Fleet, log: AuditLog, number: int) -> str:
    """Take the acknowledgement of an alert, and of all of its sort and kind, back."""
    found = get(fleet, number)
    name = found.trouble

    def act(shard: Shard) -> None:
        shard.database.write(lambda connection: store.recall(connection, found.what, found.kind))

    with log.record(Action.ALERT_RECALL, name, alert=number) as entry:
        fleet.everywhere(act, what=f"{name} is open")
        return entry.says(f"{name} is open again")
