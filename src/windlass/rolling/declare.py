"""The handle of a rolling kind: what items it has, and how fresh they are."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, Generic, ParamSpec, Protocol, TypeVar, cast

from windlass.core.task.kind import Kind
from windlass.errors import BadKey
from windlass.rolling.model import Freshness, Item, Mirror
from windlass.source.contract import MirrorSource
from windlass.value.duration import Duration, parse_duration
from windlass.value.task import check_key
from windlass.value.twin import twin

P = ParamSpec("P")
R = TypeVar("R")

VISIT_TIMEOUT = "30s"


class RollingDesk(Protocol):
    """What the handle of a rolling kind needs of the app."""

    def add_items(self, kind: Kind, codes: Iterable[str], *, now: bool) -> int: ...
    def remove_items(self, kind: Kind, codes: Iterable[str]) -> int: ...
    def item_of(self, kind: Kind, code: str) -> Item | None: ...
    def visit_item(self, kind: Kind, code: str, *, fresh: int | None, timeout: int) -> Item: ...
    async def avisit_item(
        self, kind: Kind, code: str, *, fresh: int | None, timeout: int
    ) -> Item: ...
    def mirror(self, kind: Kind, source: MirrorSource, *, dry_run: bool) -> Mirror: ...
    def follow(self, kind: Kind, source: MirrorSource) -> None: ...
    def unfollow(self, kind: Kind, source: MirrorSource) -> bool: ...
    def freshness_of(self, kind: Kind) -> Freshness: ...


class Rolling(Generic[P, R]):
    """A declared rolling kind. Calling it just calls the function."""

    def __init__(self, desk: RollingDesk, kind: Kind) -> None:
        self._desk = desk
        self._kind = kind
        functools.update_wrapper(cast(Any, self), kind.function)

    @property
    def kind(self) -> str:
        """The name under which its items are stored."""
        return self._kind.name

    def add(self, codes: Iterable[str], *, now: bool = False) -> int:
        """Have these items visited, from now on and for ever; how many of them were new.

        Any iterable will do, millions of codes too. An item that is there already stays as it is.
        With `now`, all of them, also those that were there, are visited at once instead of when
        they are due or at the next tick.
        """
        return self._desk.add_items(self._kind, self._many(codes), now=now)

    def remove(self, codes: Iterable[str]) -> int:
        """Visit these items no more; how many of them were there.

        One that is being visited is visited to the end, and does not come back.
        """
        return self._desk.remove_items(self._kind, self._many(codes))

    def item(self, code: str) -> Item | None:
        """What is known of an item; None if there is none of that code."""
        return self._desk.item_of(self._kind, check_key(self._kind.name, code))

    def visit(
        self, code: str, *, fresh: Duration | None = None, timeout: Duration = VISIT_TIMEOUT
    ) -> Item:
        """Have one item visited now, and wait for it; what is known of it then.

        Does nothing if its last visit is at most `fresh` ago. A live worker runs it before all
        others; if there is none, the caller does. It never runs twice at the same time. A visit
        that fails is a visit: look at the `status`. Raises ResultTimeout, ItemNotFound, or HeldBack
        if the kind is paused or its breaker is open.
        """
        code, fresh_for, patience = self._wish(code, fresh, timeout)
        return self._desk.visit_item(self._kind, code, fresh=fresh_for, timeout=patience)

    def mirror(self, source: MirrorSource, *, dry_run: bool = False) -> Mirror:
        """Make the items equal to the keys of `source`; what was added and removed.

        Safe to repeat, and to break off: the next call does the rest. `dry_run` only counts.
        """
        return self._desk.mirror(self._kind, source, dry_run=dry_run)

    def follow(self, source: MirrorSource) -> None:
        """Have triggers in the source's database add and remove items as its rows come and go.

        Follow first and mirror then: so nothing falls between the two.
        """
        self._desk.follow(self._kind, source)

    def unfollow(self, source: MirrorSource) -> bool:
        """Remove those triggers; whether there were any."""
        return self._desk.unfollow(self._kind, source)

    def freshness(self) -> Freshness:
        """How fresh the items are, and whether every one will be visited in time."""
        return self._desk.freshness_of(self._kind)

    async def aadd(self, codes: Iterable[str], *, now: bool = False) -> int:
        """`add`, awaited."""
        return await twin(self.add, codes, now=now)

    async def aremove(self, codes: Iterable[str]) -> int:
        """`remove`, awaited."""
        return await twin(self.remove, codes)

    async def aitem(self, code: str) -> Item | None:
        """`item`, awaited."""
        return await twin(self.item, code)

    async def avisit(
        self, code: str, *, fresh: Duration | None = None, timeout: Duration = VISIT_TIMEOUT
    ) -> Item:
        """`visit`, awaited; if the caller runs an async handler, it runs on this event loop."""
        code, fresh_for, patience = self._wish(code, fresh, timeout)
        return await self._desk.avisit_item(self._kind, code, fresh=fresh_for, timeout=patience)

    async def amirror(self, source: MirrorSource, *, dry_run: bool = False) -> Mirror:
        """`mirror`, awaited."""
        return await twin(self.mirror, source, dry_run=dry_run)

    async def afollow(self, source: MirrorSource) -> None:
        """`follow`, awaited."""
        await twin(self.follow, source)

    async def aunfollow(self, source: MirrorSource) -> bool:
        """`unfollow`, awaited."""
        return await twin(self.unfollow, source)

    async def afreshness(self) -> Freshness:
        """`freshness`, awaited."""
        return await twin(self.freshness)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        function = cast(Callable[P, R], self._kind.function)
        return function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<rolling {self._kind.name!r}>"

    def _many(self, codes: Iterable[str]) -> Iterable[str]:
        if isinstance(codes, str | bytes) or not isinstance(codes, Iterable):
            raise BadKey(
                f"rolling {self._kind.name!r}: {codes!r} is not a list of codes; "
                f"for one item write [{codes!r}]"
            )
        return codes

    def _wish(
        self, code: str, fresh: Duration | None, timeout: Duration
    ) -> tuple[str, int | None, int]:
        what = f"rolling {self._kind.name!r}"
        return (
            check_key(self._kind.name, code),
            None if fresh is None else parse_duration(fresh, what=f"{what}: fresh", zero=True),
            parse_duration(timeout, what=f"{what}: timeout"),
        )
