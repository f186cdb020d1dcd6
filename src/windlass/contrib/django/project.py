"""The App of a Django project: its database, its connections, its transactions."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import wraps
from typing import Any

from asgiref.sync import sync_to_async
from django.db import close_old_connections, connections, reset_queries

from windlass.app import App
from windlass.contrib.django.database import url_of
from windlass.contrib.django.setting import Settings
from windlass.core.task.current import current
from windlass.core.task.declare import How, TaskRef
from windlass.core.task.kind import Kind
from windlass.core.task.option import Options
from windlass.value.task import Call


class DjangoApp(App):
    """An App on one of DATABASES. What is enqueued within `transaction.atomic()` is a part of it.

    Handlers find connections of Django that work: those that are broken or too old are closed
    before and after each run, as Django does it for requests.
    """

    def __init__(self, settings: Settings) -> None:
        self.django = settings
        self.alias = settings.database
        self._follow_lock = threading.Lock()
        # Called before a worker begins: who declares kinds late.
        self.before_worker: list[Callable[[], None]] = []
        self._url = url_of(self.alias)
        super().__init__(self._url, **settings.options)

    def prepare(self) -> None:
        self.follow()
        super().prepare()

    def migrate(self) -> str:
        self.follow()
        return super().migrate()

    def follow(self) -> None:
        """Use the database that the settings name now: test runners change them."""
        url = url_of(self.alias)
        if url == self._url:
            return
        with self._follow_lock:
            if url == self._url:
                return
            self.close()
            lent = App(url, **self.django.options).fleet.shards
            self.fleet.exchange(lent)
            self.database, self.clock = lent[0].database, lent[0].clock
            self.control.forget()
            self.registry.templates.clear()
            self._url = url

    def _add(self, function: Callable[..., Any], options: Options) -> Kind:
        return super()._add(_with_connections(function), options)

    def chosen(
        self, kinds: Sequence[str] | None = None, consume: Sequence[str] | None = None
    ) -> dict[str, Kind]:
        for call in self.before_worker:
            call()
        return super().chosen(kinds, consume)

    async def adrain(self, **options: Any) -> None:
        for call in self.before_worker:
            call()
        await super().adrain(**options)

    def submit(self, kind: Kind, calls: Sequence[Call], how: How) -> list[TaskRef]:
        return super().submit(kind, calls, self._joining(how))

    async def asubmit(self, kind: Kind, calls: Sequence[Call], how: How) -> list[TaskRef]:
        return await super().asubmit(kind, calls, self._joining(how))

    def _joining(self, how: How) -> How:
        """`how`, in the transaction that this thread has open."""
        if how.conn is not None or not self.is_in_transaction:
            return how
        return replace(how, conn=connections[self.alias])

    @property
    def is_in_transaction(self) -> bool:
        """Whether the caller is within `transaction.atomic()` of the database."""
        return bool(connections[self.alias].in_atomic_block)


def _with_connections(function: Callable[..., Any]) -> Callable[..., Any]:
    """The handler; in a worker, with what Django does around requests."""
    if inspect.iscoroutinefunction(function):

        @wraps(function)
        async def awaited(*args: Any, **kwargs: Any) -> Any:
            try:
                return await function(*args, **kwargs)
            finally:
                if current.get() is not None:
                    await sync_to_async(_clean_up)()

        return awaited
    if not inspect.isfunction(function) or inspect.isgeneratorfunction(function):
        return function

    @wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        if current.get() is None:
            # Not by a worker: the connection is the caller's.
            return function(*args, **kwargs)
        close_old_connections()
        try:
            return function(*args, **kwargs)
        finally:
            _clean_up()

    return called


def _clean_up() -> None:
    reset_queries()
    close_old_connections()
