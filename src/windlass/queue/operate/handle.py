"""What an app can do with queues: consume one, and publish to one."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, Unpack, cast

from windlass.core.shard.fleet import Fleet
from windlass.core.shard.route import Router
from windlass.core.task.kind import Kind, Registry, make_kind
from windlass.core.task.option import takes
from windlass.database.connection import is_async, on_its_thread
from windlass.errors import BadDeclaration, BadInput
from windlass.queue.broker import check_installed
from windlass.queue.declare import ConsumeOptions, consume_options
from windlass.queue.engine.effect import effectful
from windlass.queue.engine.publish import NewMessage, Publisher, new_message
from windlass.queue.model.consume import Identity, Lane, is_consumer, terms_of
from windlass.queue.model.queue import Queue, queues_made
from windlass.queue.operate import operate
from windlass.value.duration import Duration
from windlass.value.twin import awaited, twin

if TYPE_CHECKING:
    from windlass.queue.model.message import FailedMessage
    from windlass.view.listing import Listing

P = ParamSpec("P")
R = TypeVar("R")

MOST_AT_ONCE = 5_000


class Consumer(Generic[P, R]):
    """A declared consumer. Calling it just calls the function."""

    def __init__(self, app: Queueing, kind: Kind) -> None:
        self._app = app
        self._kind = kind
        functools.update_wrapper(cast(Any, self), kind.function)

    @property
    def kind(self) -> str:
        """Its name."""
        return self._kind.name

    @property
    def queue(self) -> Queue:
        """The queue that it consumes."""
        return terms_of(self._kind).queue

    def failed(self, limit: int = 100) -> Listing[FailedMessage]:
        """Messages that failed, newest first."""
        self._app.fleet.prepare()
        return operate.failed(self._app.fleet, self._app.registry, self.kind, limit=limit)

    def retry(self, ids: Collection[int] | None = None) -> int:
        """Try failed messages again, all or those with these ids; how many."""
        self._app.fleet.prepare()
        return operate.retry(self._app.fleet, self._app.registry, self.kind, ids)

    def drop(self, ids: Collection[int] | None = None) -> int:
        """Delete failed messages, all or those with these ids; how many."""
        self._app.fleet.prepare()
        return operate.drop(self._app.fleet, self._app.registry, self.kind, ids)

    afailed = awaited(failed)
    aretry = awaited(retry)
    adrop = awaited(drop)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        function = cast(Callable[P, R], self._kind.function)
        return function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<consumer {self._kind.name!r} of {self.queue!r}>"


class Queueing:
    """The methods of `App` about queues."""

    fleet: Fleet
    registry: Registry
    _router: Router

    @functools.cached_property
    def queues(self) -> dict[tuple[str, str], Queue]:
        """The queues that this app has named, by name and address."""
        return {}

    @takes(ConsumeOptions)
    def consume(
        self,
        queue: Queue,
        *,
        many: int | None = None,
        wait: Duration | None = None,
        prefetch: int | None = None,
        remember: Duration = "7d",
        identity: Identity = "message",
        lane: Lane | None = None,
        **options: Unpack[ConsumeOptions],
    ) -> Callable[[Callable[P, R]], Consumer[P, R]]:
        """Declare a function, sync or async, that is called with each message of a queue.

        What it writes through Windlass, or by `context().conn`, is committed together with the id
        of the message, and only then is the message acknowledged: a redelivery within `remember`
        changes nothing. With `many` it gets lists of at most that many messages; `wait` is how
        long the first waits for others, and it may return an answer for each. `lane` gives
        the key of what the function gets: messages with one key are handled in order. `identity`
        says how messages without an id are told apart.
        """

        def declare(function: Callable[P, R]) -> Consumer[P, R]:
            made = consume_options(
                function,
                queue,
                many=many,
                wait=wait,
                prefetch=prefetch,
                remember=remember,
                identity=identity,
                lane=lane,
                options=options,
            )
            check_installed(queue)
            self._check_unconsumed(queue, made.name or function.__name__)
            kind = self.registry.add(make_kind(effectful(function), made))
            self._name(queue)
            return Consumer(self, kind)

        return declare

    def _check_unconsumed(self, queue: Queue, name: str) -> None:
        """Two consumers would share the messages by chance, and each has its own inbox."""
        for kind in self.registry.kinds.values():
            if is_consumer(kind) and kind.name != name:
                other = terms_of(kind).queue
                if (other.name, other.address) == (queue.name, queue.address):
                    raise BadDeclaration(
                        f"consumer {name!r}: {kind.name!r} consumes queue {queue.name!r} already; "
                        "do both in one handler, or give each a queue of its own"
                    )

    def publish(
        self,
        queue: Queue,
        body: object,
        *,
        key: str | None = None,
        id: str | None = None,
        headers: Mapping[str, Any] | None = None,
        content_type: str | None = None,
        conn: object = None,
    ) -> str:
        """Send a message after the commit; its id, which never changes.

        With `conn` the message is part of the caller's transaction. Workers send it at least once,
        and messages with one `key` in order. `body` is JSON, or bytes as they are.
        """
        message = self._message(
            queue, body, key=key, id=id, headers=headers, content_type=content_type
        )
        self._publisher.publish(queue, [message], conn=conn)
        return message.id

    async def apublish(
        self,
        queue: Queue,
        body: object,
        *,
        key: str | None = None,
        id: str | None = None,
        headers: Mapping[str, Any] | None = None,
        content_type: str | None = None,
        conn: Any = None,
    ) -> str:
        """`publish`, awaited; joins the caller's async transaction if there is one."""
        message = await twin(
            self._message,
            queue,
            body,
            key=key,
            id=id,
            headers=headers,
            content_type=content_type,
        )
        if conn is None:
            await twin(self._publisher.publish, queue, [message])
        else:
            if is_async(conn):
                await twin(self._prepare, queue)
            await on_its_thread(
                conn, lambda sync: self._publisher.publish(queue, [message], conn=sync)
            )
        return message.id

    def publish_many(
        self,
        queue: Queue,
        bodies: Iterable[object],
        *,
        key: Callable[[Any], str | None] | None = None,
        conn: object = None,
    ) -> int:
        """Send many messages after the commit; how many. `key` gives the key of a body.

        Without `conn`, each page of 5,000 is a transaction of its own.
        """
        _check_queue(queue)
        if isinstance(bodies, str | bytes | Mapping) or not isinstance(bodies, Iterable):
            raise BadInput(
                f"queue {queue.name!r}: {bodies!r:.80} is not a list of bodies; for one message "
                "use publish"
            )
        page: list[NewMessage] = []
        count = 0
        for body in bodies:
            given = None if key is None else key(body)
            page.append(self._message(queue, body, key=given))
            count += 1
            if len(page) == MOST_AT_ONCE:
                self._publisher.publish(queue, page, conn=conn)
                page = []
        self._publisher.publish(queue, page, conn=conn)
        return count

    async def apublish_many(
        self,
        queue: Queue,
        bodies: Iterable[object],
        *,
        key: Callable[[Any], str | None] | None = None,
        conn: Any = None,
    ) -> int:
        """`publish_many`, awaited; joins the caller's async transaction if there is one."""
        if conn is None:
            return await twin(self.publish_many, queue, bodies, key=key)
        _check_queue(queue)
        if is_async(conn):
            await twin(self._prepare, queue)
        return await on_its_thread(
            conn, lambda sync: self.publish_many(queue, bodies, key=key, conn=sync)
        )

    def find_queue(self, name: str, address: str) -> Queue | None:
        """The queue of a message that any process has published; None if none is known here."""
        known = [*self.queues.values(), *queues_made()]
        exact = [each for each in known if (each.name, each.address) == (name, address)]
        if exact:
            return exact[0]
        # Another process may reach the broker by another address.
        alike = {each for each in known if each.name == name}
        return alike.pop() if len(alike) == 1 else None

    @functools.cached_property
    def _publisher(self) -> Publisher:
        return Publisher(self.fleet, self._router)

    def _prepare(self, queue: Queue) -> None:
        """Do what an async connection cannot wait for."""
        self.fleet.prepare()
        self._publisher.prepare(queue)

    def _name(self, queue: Queue) -> None:
        self.queues[queue.name, queue.address] = queue

    def _message(
        self,
        queue: Queue,
        body: object,
        *,
        key: str | None = None,
        id: str | None = None,
        headers: Mapping[str, Any] | None = None,
        content_type: str | None = None,
    ) -> NewMessage:
        _check_queue(queue)
        check_installed(queue)
        self.fleet.prepare()
        self._name(queue)
        return new_message(
            queue,
            body,
            key=key,
            id=id,
            headers=headers,
            content_type=content_type,
            largest=self.fleet.shards[0].max_payload,
        )


def _check_queue(queue: object) -> None:
    if not isinstance(queue, Queue):
        # A URL has a password.
        raise BadInput(
            f'publish: a {type(queue).__name__} is not a queue; give Queue("amqp://...", "name")'
        )
