"""What operators see of queues, and what they do with failed messages."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import TypeVar

import msgspec

from windlass.core.finish.store import MINUTE, work_since
from windlass.core.shard.fleet import Fleet
from windlass.core.shard.shard import Shard
from windlass.core.task.kind import Kind, Registry
from windlass.database.connection import Connection
from windlass.errors import BadQueue, BrokerUnavailable, NotPossible, Unknown
from windlass.queue.broker import broker_of
from windlass.queue.model.consume import is_consumer, terms_of
from windlass.queue.model.message import FailedMessage
from windlass.queue.model.queue import Queue, is_tested, queues_made, sent_kind
from windlass.queue.store import inbox, outbox
from windlass.queue.store.inbox import TABLES
from windlass.value.task import COUNTED_EXACTLY
from windlass.view.field import Moment
from windlass.view.listing import Listing

T = TypeVar("T")

MINUTES = 5


class QueueView(msgspec.Struct, frozen=True):
    """A queue of a broker: what comes in, what goes out, and what failed. Counts stop at 10,000."""

    name: str
    # Where its broker is, without user and password.
    address: str
    # The kinds that consume it.
    kinds: list[str]
    # The kinds whose tasks it carries to consumers.
    carries: list[str]
    # Messages that wait to be sent, and when the oldest of them was published.
    waiting: int
    oldest_at: Moment | None
    # Messages that the broker will never take.
    unsent: int
    # Received messages that are tried again, and those that failed.
    retrying: int
    failed: int
    # Of the last five minutes.
    received_per_second: float
    sent_per_second: float
    # When a worker last heard from the broker, and the error of now.
    answered_at: Moment | None
    failed_at: Moment | None
    error: str | None
    # Whether Windlass is tested with brokers of this kind.
    is_tested: bool


class QueueDetail(QueueView, frozen=True):
    """A queue, and what its broker says when it is asked."""

    # Messages that wait at the broker; None if it was not asked, or did not answer.
    depth: int | None = None
    problem: str | None = None


def listing(fleet: Fleet, registry: Registry) -> Listing[QueueView]:
    """All queues that are consumed or were published to, by name."""
    consumers = _consumers(registry.kinds.values())
    answers = fleet.fan_out(lambda shard: _part(shard, consumers))
    found: dict[tuple[str, str], QueueView] = {}
    for _, views in answers.found:
        for view in views:
            key = view.name, view.address
            found[key] = view if key not in found else _sum(found[key], view)
    carried = _carried(registry.kinds.values())
    for queue in (*consumers, *carried):
        key = queue.name, queue.address
        kinds = consumers.get(queue, [])
        found.setdefault(key, _empty(queue.name, queue.address, kinds, queue.is_tested))
    for queue, kinds in carried.items():
        key = queue.name, queue.address
        found[key] = msgspec.structs.replace(found[key], carries=sorted(kinds))
    return Listing([found[key] for key in sorted(found)], answers.missing)


def show(fleet: Fleet, registry: Registry, name: str, *, ask: bool = True) -> QueueDetail:
    """One queue; with `ask`, the broker says how many messages wait there."""
    view = _one(listing(fleet, registry), name)
    kinds = registry.kinds.values()
    known = [*_consumers(kinds), *_carried(kinds), *queues_made()]
    depth, problem = None, None
    if ask:
        queue = next((each for each in known if _is(each, view)), None)
        depth, problem = _ask(queue)
    return QueueDetail(**msgspec.structs.asdict(view), depth=depth, problem=problem)


def failed(
    fleet: Fleet, registry: Registry, name: str, *, limit: int = 100
) -> Listing[FailedMessage]:
    """Failed messages of a queue or of a consumer: received and unsent ones, newest first."""
    kinds, queue = _named(fleet, registry, name)
    of = {kind.name: terms_of(kind).queue.name for kind in kinds}

    def read(connection: Connection) -> list[FailedMessage]:
        rows = inbox.listing(connection, queues=of, limit=limit) if of else []
        if queue is not None:
            for row in outbox.queues(connection):
                if (row.name, row.address) == (queue.name, queue.address):
                    rows += outbox.failed(connection, row.id, row.name, limit=limit)
        return rows

    none: list[FailedMessage] = []
    answers = fleet.fan_out(lambda shard: _read(shard, read, none))
    rows = [row for _, some in answers.found for row in some]
    rows.sort(key=lambda row: row.failed_at or 0, reverse=True)
    return Listing(rows[:limit], answers.missing)


def message(fleet: Fleet, registry: Registry, number: int) -> FailedMessage:
    """One received message that failed or is tried again."""
    of = {
        kind.name: terms_of(kind).queue.name
        for kind in registry.kinds.values()
        if is_consumer(kind)
    }
    answers = fleet.fan_out(
        lambda shard: _read(shard, lambda connection: inbox.get(connection, number, of), None)
    )
    for _, found in answers.found:
        if found is not None:
            return found
    raise Unknown(f"no kept message has the id {number}; windlass queue failed NAME lists them")


def retry(fleet: Fleet, registry: Registry, name: str, ids: Collection[int] | None = None) -> int:
    """Try failed messages again, all or those with these ids; how many."""
    return _change(
        fleet,
        registry,
        name,
        received=lambda connection, kind, now: _retry(connection, kind, ids, now=now),
        unsent=lambda connection, number: outbox.retry(connection, number, ids),
    )


def _retry(connection: Connection, kind: str, ids: Collection[int] | None, *, now: int) -> int:
    cut = inbox.cut(connection, kind, ids) if ids is not None else []
    if cut:
        raise NotPossible(
            f"message {cut[0]} cannot be tried again: it is too large, and only the beginning of "
            "its body was kept; have it sent again, or take it from the dead-letter exchange of "
            "its queue, and drop this one"
        )
    return inbox.retry(connection, kind, ids, now=now)


def drop(fleet: Fleet, registry: Registry, name: str, ids: Collection[int] | None = None) -> int:
    """Delete failed messages, all or those with these ids; how many."""
    return _change(
        fleet,
        registry,
        name,
        received=lambda connection, kind, _now: inbox.drop(connection, kind, ids),
        unsent=lambda connection, number: outbox.drop(connection, number, ids),
    )


def _change(
    fleet: Fleet,
    registry: Registry,
    name: str,
    *,
    received: Callable[[Connection, str, int], int],
    unsent: Callable[[Connection, int], int],
) -> int:
    kinds, queue = _named(fleet, registry, name)

    def on(shard: Shard) -> int:
        if not shard.database.schema.has(TABLES):
            return 0
        now = shard.clock.fresh()

        def work(connection: Connection) -> int:
            changed = sum(received(connection, kind.name, now) for kind in kinds)
            if queue is not None:
                for row in outbox.queues(connection):
                    if (row.name, row.address) == (queue.name, queue.address):
                        changed += unsent(connection, row.id)
            return changed

        return shard.database.write(work)

    return sum(fleet.everywhere(on, what=f"queue {name!r}"))


def _named(fleet: Fleet, registry: Registry, name: str) -> tuple[list[Kind], QueueView | None]:
    """The consumers, and the queue, that a person means by `name`: a queue's or a consumer's."""
    kind = registry.kinds.get(name)
    if kind is not None and is_consumer(kind):
        return [kind], None
    view = _one(listing(fleet, registry), name)
    return [registry.kinds[each] for each in view.kinds if each in registry.kinds], view


def _one(views: Iterable[QueueView], name: str) -> QueueView:
    found = [each for each in views if name in (each.name, f"{each.name}@{each.address}")]
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(f"{each.name}@{each.address}" for each in found)
        raise Unknown(f"several queues are named {name!r}; name one of {names}")
    known = ", ".join(sorted({each.name for each in views})) or "none"
    raise Unknown(f"no queue is named {name!r}; known: {known}")


def _consumers(kinds: Iterable[Kind]) -> dict[Queue, list[str]]:
    found: dict[Queue, list[str]] = {}
    for kind in kinds:
        if is_consumer(kind):
            found.setdefault(terms_of(kind).queue, []).append(kind.name)
    return found


def _carried(kinds: Iterable[Kind]) -> dict[Queue, list[str]]:
    found: dict[Queue, list[str]] = {}
    for kind in kinds:
        if isinstance(kind.via, Queue):
            found.setdefault(kind.via, []).append(kind.name)
    return found


def _part(shard: Shard, consumers: dict[Queue, list[str]]) -> list[QueueView]:
    """The queues as one shard knows them."""
    minute = shard.clock.fresh() // MINUTE - MINUTES

    def read(connection: Connection) -> list[QueueView]:
        done = {work.kind: work.done for work in work_since(connection, minute=minute)}
        views = []
        for row in outbox.queues(connection):
            kinds = [
                kind
                for queue, names in consumers.items()
                if (queue.name, queue.address) == (row.name, row.address)
                for kind in names
            ]
            kept = [inbox.counts(connection, kind, most=COUNTED_EXACTLY) for kind in kinds]
            backlog = outbox.backlog(connection, row.id, most=COUNTED_EXACTLY)
            received = sum(done.get(kind, 0) for kind in kinds)
            views.append(
                QueueView(
                    name=row.name,
                    address=row.address,
                    kinds=kinds,
                    carries=[],
                    waiting=backlog.waiting,
                    oldest_at=backlog.oldest_at,
                    unsent=backlog.failed,
                    retrying=sum(each[0] for each in kept),
                    failed=sum(each[1] for each in kept),
                    received_per_second=received / (60 * MINUTES),
                    sent_per_second=done.get(sent_kind(row.name), 0) / (60 * MINUTES),
                    answered_at=row.answered_at,
                    failed_at=row.failed_at,
                    error=row.error,
                    is_tested=is_tested(row.address),
                )
            )
        return views

    return _read(shard, read, [])


def _read(shard: Shard, read: Callable[[Connection], T], otherwise: T) -> T:
    """What is read, or something else where the tables are not there yet."""
    if not shard.database.schema.has(TABLES):
        return otherwise
    return shard.database.read(read)


def _sum(one: QueueView, other: QueueView) -> QueueView:
    """A queue of two shards."""
    oldest = [each for each in (one.oldest_at, other.oldest_at) if each is not None]
    newest = max((one, other), key=lambda view: max(view.answered_at or 0, view.failed_at or 0))
    return msgspec.structs.replace(
        newest,
        waiting=one.waiting + other.waiting,
        oldest_at=min(oldest, default=None),
        unsent=one.unsent + other.unsent,
        retrying=one.retrying + other.retrying,
        failed=one.failed + other.failed,
        received_per_second=one.received_per_second + other.received_per_second,
        sent_per_second=one.sent_per_second + other.sent_per_second,
    )


def _empty(name: str, address: str, kinds: list[str], is_tested: bool) -> QueueView:
    return QueueView(
        name=name,
        address=address,
        kinds=kinds,
        carries=[],
        waiting=0,
        oldest_at=None,
        unsent=0,
        retrying=0,
        failed=0,
        received_per_second=0.0,
        sent_per_second=0.0,
        answered_at=None,
        failed_at=None,
        error=None,
        is_tested=is_tested,
    )


def _is(queue: Queue, view: QueueView) -> bool:
    return (queue.name, queue.address) == (view.name, view.address)


def _ask(queue: Queue | None) -> tuple[int | None, str | None]:
    if queue is None:
        return None, "this app does not know its URL"
    try:
        with broker_of(queue) as broker:
            return broker.depth(queue), None
    except (BrokerUnavailable, BadQueue) as problem:
        return None, str(problem)
