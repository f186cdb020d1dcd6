"""How a consumer is declared: `@app.consume(queue)`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from windlass import lent
from windlass.core.task.kind import Kind, Registry, make_kind, optional_duration, positive
from windlass.core.task.option import CommonOptions, Options, RetryOptions, SpeedOptions
from windlass.errors import BadDeclaration
from windlass.queue.model.consume import (
    MOST_AT_ONCE,
    ConsumeTerms,
    Identity,
    Lane,
    check_can_decode,
    is_consumer,
    terms_of,
    wanted_type,
)
from windlass.queue.model.queue import Queue
from windlass.value.duration import Duration, parse_duration
from windlass.value.payload import Arguments

OUTBOX = "windlass:outbox"
RETRIES = 5
CONCURRENCY = 4
PREFETCH = 200


class ConsumeOptions(CommonOptions, RetryOptions, SpeedOptions, total=False):
    """The options of a consumer that other kinds have, too."""

    priority: int


def consume_options(
    function: Callable[..., Any],
    queue: Queue,
    *,
    many: int | None,
    wait: Duration | None,
    prefetch: int | None,
    remember: Duration,
    identity: Identity,
    lane: Lane | None,
    options: ConsumeOptions,
) -> Options:
    """The options of a consumer; an error names the wrong one."""
    if not isinstance(queue, Queue):
        raise BadDeclaration(
            f'consume: a {type(queue).__name__} is not a queue; give Queue("amqp://...", "name")'
        )
    name = str(options.get("name") or getattr(function, "__name__", repr(function)))
    what = f"consumer {name!r}"
    if options.get("via") is not None:
        raise BadDeclaration(
            f"{what}: via= would take the handler away from the transaction of its messages; "
            "enqueue a task with via= from the handler"
        )
    positive(many, f"{what}: many")
    positive(prefetch, f"{what}: prefetch")
    if many is not None and many > MOST_AT_ONCE:
        raise BadDeclaration(f"{what}: many={many} is more than {MOST_AT_ONCE:,}")
    if identity not in ("message", "body") and not callable(identity):
        raise BadDeclaration(
            f'{what}: identity={identity!r} is not "message", "body" or a function of the message'
        )
    if lane is not None and not callable(lane):
        raise BadDeclaration(f"{what}: lane={lane!r} is not a function of what the handler gets")
    if lane is not None and not queue.keeps_order:
        raise BadDeclaration(f"{what}: lane= needs a queue of RabbitMQ or Redis, not {queue!r}")
    if lane is not None and many is not None:
        raise BadDeclaration(f"{what}: many= and lane= cannot be combined; leave one of them out")
    if not callable(function) or not hasattr(function, "__name__"):
        raise BadDeclaration(f"{function!r} is not a function; declare a def or an async def")
    wanted = wanted_type(name, Arguments(name, function), many=many is not None)
    check_can_decode(name, wanted)
    remembered = optional_duration(remember, f"{what}: remember")
    if remembered is None:
        raise BadDeclaration(f'{what}: remember=None would forget ids at once; write remember="7d"')
    concurrency = options.get("concurrency") or CONCURRENCY
    terms = ConsumeTerms(
        queue=queue,
        many=many,
        wait=_wait(what, many, wait),
        prefetch=prefetch or max(PREFETCH, 2 * (many or 1)),
        remember=remembered,
        identity=identity,
        lane=lane,
        wanted=wanted,
    )
    given: dict[str, Any] = {**options, "concurrency": concurrency}
    given.setdefault("retries", RETRIES)
    return Options(face="queue", has_rows=False, face_terms=terms, **given)


def _wait(what: str, many: int | None, wait: Duration | None) -> int:
    if wait is None:
        return 0
    if many is None:
        raise BadDeclaration(
            f"{what}: wait={wait!r} is how long a list waits for company; give many=, too"
        )
    return parse_duration(wait, what=f"{what}: wait", zero=True)


@dataclass(frozen=True)
class OutboxTerms:
    """How a worker finds the queue of a message, by its name and address."""

    find: Callable[[str, str], Queue | None]


def outbox_kind(find: Callable[[str, str], Queue | None]) -> Kind:
    """The kind by which a worker sends the outbox. It has no rows: its loop is all there is."""

    def send() -> None:
        """Never called."""

    return make_kind(
        send, Options(name=OUTBOX, face="queue", has_rows=False, face_terms=OutboxTerms(find))
    )


def is_outbox(kind: Kind) -> bool:
    return isinstance(kind.face_terms, OutboxTerms)


def without_brokers(kinds: Mapping[str, Kind], *, are_named: bool) -> dict[str, Kind]:
    """What of `kinds` a test can run if it may use no broker: carried tasks run here.

    Consumers are left out, or refused if the test names them.
    """
    found: dict[str, Kind] = {}
    for name, kind in kinds.items():
        if is_consumer(kind) and lent.is_refused(terms_of(kind).queue.address):
            if are_named:
                lent.refuse(terms_of(kind).queue.address, repr(terms_of(kind).queue))
            continue
        via = kind.via
        is_carried = via is not None and lent.is_refused(via.address)
        found[name] = replace(kind, via=None) if is_carried else kind
    return found


def chosen_consumers(
    registry: Registry, kinds: Sequence[str] | None, consume: Sequence[str]
) -> dict[str, Kind]:
    """The named kinds, or all; of the consumers among them those in `consume`."""
    chosen = registry.chosen(list(kinds or []))
    for name in consume:
        registry.of_face(name, "queue", what="a consumer")
    wanted = {**chosen, **{name: registry.get(name) for name in consume}}
    return {name: kind for name, kind in wanted.items() if not is_consumer(kind) or name in consume}
