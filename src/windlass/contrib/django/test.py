"""For the tests of Django projects: what was enqueued, and tasks that run.

    class OrderTest(WindlassMixin, TestCase):
        def test_an_order_is_confirmed(self):
            self.client.post("/orders/order-7")
            self.assertEnqueued("confirm", number="order-7")
            self.run_tasks()

In a `TestCase`, whose transaction never ends, `run_tasks` calls the handlers in the test itself, in
its transaction. In a `TransactionTestCase`, `drain` runs them as a worker does.
"""

from __future__ import annotations

from typing import Any

from asgiref.sync import async_to_sync, iscoroutinefunction
from django.utils import timezone

from windlass.clock import from_datetime
from windlass.contrib.django.begin import the_app
from windlass.contrib.django.execute import STAND_IN
from windlass.contrib.django.models import Failure, Task
from windlass.errors import WindlassError
from windlass.value.payload import encode_value
from windlass.value.status import Status

MOST_RUNS = 10_000


class WindlassMixin:
    """Add it to a test case of Django, before its class."""

    def setUp(self) -> None:
        """Begin without a task."""
        parent: Any = super()
        parent.setUp()
        app = the_app()
        app.follow()
        for model in (Task, Failure):
            model.objects.using(app.alias).all().delete()

    def enqueued(self, kind: object, /, **arguments: object) -> list[Any]:
        """The waiting tasks of a kind that have at least these arguments, oldest first.

        `kind` is a task or its name. Those that are due later are among them.
        """
        name = _name_of(kind)
        rows = Task.objects.using(the_app().alias).filter(kind=name, status=Status.WAITING)
        found = rows.order_by("id")
        return [row for row in found if _has(row.payload, arguments)]

    def assertEnqueued(self, kind: object, /, **arguments: object) -> Any:  # noqa: N802
        """Such a task waits; returns the oldest one."""
        found = self.enqueued(kind, **arguments)
        if not found:
            rows = self.enqueued(kind)
            raise AssertionError(
                f"no task {_name_of(kind)} with {arguments} waits; "
                f"of this kind wait: {[row.payload for row in rows] or 'none'}"
            )
        return found[0]

    def assertNotEnqueued(self, kind: object, /, **arguments: object) -> None:  # noqa: N802
        """No such task waits."""
        found = self.enqueued(kind, **arguments)
        if found:
            raise AssertionError(
                f"{len(found)} tasks {_name_of(kind)} wait: {[row.payload for row in found]}"
            )

    def run_tasks(self) -> int:
        """Call the handlers of all due tasks here, also of those that they enqueue; how many.

        What a handler raises, the test raises. There is no `windlass.context()` in them, and no
        retry, rate or time-out: for these use a TransactionTestCase and `drain`.
        """
        app, count = the_app(), 0
        for each in app.before_worker:
            each()
        while (row := _next_due()) is not None:
            count += 1
            if count > MOST_RUNS:
                raise AssertionError(f"{MOST_RUNS:,} tasks have run, and there are more")
            result = _call(app.registry.get(row.kind), row)
            Task.objects.using(app.alias).filter(pk=row.pk).update(
                status=Status.SUCCEEDED,
                attempt=row.attempt + 1,
                worker=0,
                due_at=None,
                started_at=row.due_at,
                finished_at=_now(),
                result=None if result is None else _json(result),
            )
        return count

    def drain(self, **options: Any) -> None:
        """Run everything that is due, as a worker does; only in a TransactionTestCase."""
        app = the_app()
        if app.is_in_transaction:
            raise WindlassError(
                "drain() was called within a transaction, whose tasks nobody else can see; "
                "use run_tasks(), or a TransactionTestCase"
            )
        app.drain(**options)


def _json(value: object) -> str:
    return encode_value(value).decode()


def _now() -> int:
    return from_datetime(timezone.now())


def _next_due() -> Any:
    waiting = Task.objects.using(the_app().alias).filter(status=Status.WAITING)
    return waiting.filter(due_at__lte=_now()).order_by("-priority", "due_at", "id").first()


def _call(kind: Any, row: Any) -> Any:
    if kind.period is not None or kind.schedule is not None:
        args, kwargs = ((row.task_key,) if kind.period is not None else ()), {}
    else:
        args, kwargs = kind.arguments.decode(_json(row.payload))
    token = STAND_IN.set((row.id, row.attempt + 1))
    try:
        if iscoroutinefunction(kind.function):
            return async_to_sync(kind.function)(*args, **kwargs)
        return kind.function(*args, **kwargs)
    finally:
        STAND_IN.reset(token)


def _name_of(kind: object) -> str:
    """The name of a kind: of a task of Windlass, or of Django's framework."""
    if isinstance(kind, str):
        return kind
    name = getattr(kind, "kind", None)
    if name is None:
        from windlass.contrib.django.execute import kind_name

        named: Any = kind
        name = kind_name(named.module_path, named.queue_name)
    return str(name)


def _has(payload: Any, arguments: dict[str, object]) -> bool:
    """Whether a payload has these arguments; of Django's tasks, these named ones."""
    given = payload.get("kwargs", {}) if {"args", "kwargs", "about"} <= payload.keys() else payload
    return all(name in given and given[name] == value for name, value in arguments.items())
