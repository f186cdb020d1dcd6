"""The handle of a rolling kind: its items, and how fresh they are."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, Generic, ParamSpec, TypeVar, cast

from windlass.core.shard.fleet import Fleet
from windlass.core.task.kind import Kind
from windlass.errors import BadKey
from windlass.rolling import engine
from windlass.rolling.model import Freshness, Item, Mirror
from windlass.rolling.operate import freshness, item
from windlass.rolling.operate import source as sources
from windlass.rolling.operate.item import ItemVisit, RollingTools
from windlass.source.contract import MirrorSource
from windlass.value.duration import Duration, parse_duration
from windlass.value.period import VisitSoon
from windlass.value.task import check_key
from windlass.value.twin import awaited, twin

P = ParamSpec("P")
R = TypeVar("R")

VISIT_TIMEOUT = "30s"


class Rolling(Generic[P, R]):
    """A declared rolling kind. Calling it just calls the function."""

    def __init__(self, tools: RollingTools, kind: Kind) -> None:
        self._tools = tools
        self._kind = kind
        functools.update_wrapper(cast(Any, self), kind.function)

    @property
    def kind(self) -> str:
        """The name under which its items are stored."""
        return self._kind.name

    def add(self, codes: Iterable[str], *, now: bool = False) -> int:
        """Visit these items from now on, every period; how many of them were new.

        Give any iterable, also of millions of codes. An item that is there already stays as it is.
        With `now` all of them, also those that are there already, are visited at once instead of
        when they are due or at the next tick.
        """
        checked = self._checked(codes)
        return engine.add(self._prepared(), self._kind, checked, now=now)

    def remove(self, codes: Iterable[str]) -> int:
        """Stop visiting these items; how many of them were there.

        A visit that is running goes on to its end.
        """
        checked = self._checked(codes)
        return engine.remove(self._prepared(), self._kind, checked)

    def item(self, code: str) -> Item | None:
        """One item; None if there is none with that code."""
        checked = check_key(self._kind.name, code)
        return item.item(self._prepared(), self._kind, checked)

    def visit(
        self, code: str, *, fresh: Duration | None = None, timeout: Duration = VISIT_TIMEOUT
    ) -> Item:
        """Visit one item now and wait for it; the item after that.

        Does nothing if its last visit is at most `fresh` ago. A live worker runs it before all
        others; if there is none, the caller does. It never runs twice at the same time. A failed
        visit does not raise: look at the `status`. Raises ResultTimeout, ItemNotFound, or HeldBack
        if the kind is paused or its breaker is open.
        """
        code, fresh_for, patience = self._parsed(code, fresh, timeout)
        return self._visit(code).visit(fresh=fresh_for, timeout=patience)

    async def avisit(
        self, code: str, *, fresh: Duration | None = None, timeout: Duration = VISIT_TIMEOUT
    ) -> Item:
        """`visit`, awaited; if the caller runs an async handler, it runs on this event loop."""
        code, fresh_for, patience = self._parsed(code, fresh, timeout)
        visit = await twin(self._visit, code)
        return await visit.avisit(fresh=fresh_for, timeout=patience)

    def visit_soon(self, code: str, *, fresh: Duration | None = None) -> VisitSoon:
        """Have a worker visit one item before all others, and return at once.

        Does nothing if it runs or is next already, or if its last visit is at most `fresh` ago.
        Raises ItemNotFound.
        """
        checked, fresh_for, _ = self._parsed(code, fresh, VISIT_TIMEOUT)
        return item.visit_soon(self._prepared(), self._kind, checked, fresh=fresh_for)

    def mirror(self, source: MirrorSource, *, dry_run: bool = False) -> Mirror:
        """Make the items equal to the keys of `source`; what was added and removed.

        It is safe to repeat and to interrupt: the next call does the rest. `dry_run` only counts.
        """
        return sources.mirror(self._prepared(), self._kind, source, dry_run=dry_run)

    def follow(self, source: MirrorSource) -> None:
        """Create triggers that add and remove items as rows of `source` come and go.

        Follow first, then mirror: so no change is lost between the two.
        """
        database = sources.only_database(self._prepared(), source)
        sources.install(database, source, kind=self._kind.name, priority=self._kind.priority)

    def unfollow(self, source: MirrorSource) -> bool:
        """Remove those triggers; whether there were any."""
        databases = [shard.database for shard in self._prepared().shards]
        return any(sources.uninstall(each, source, kind=self._kind.name) for each in databases)

    def freshness(self) -> Freshness:
        """How fresh the items are, and whether each will be visited in time."""
        return freshness.freshness(self._prepared(), self._tools.clock, self._kind)

    aadd = awaited(add)
    aremove = awaited(remove)
    aitem = awaited(item)
    avisit_soon = awaited(visit_soon)
    amirror = awaited(mirror)
    afollow = awaited(follow)
    aunfollow = awaited(unfollow)
    afreshness = awaited(freshness)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        function = cast(Callable[P, R], self._kind.function)
        return function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<rolling {self._kind.name!r}>"

    def _prepared(self) -> Fleet:
        self._tools.fleet.prepare()
        return self._tools.fleet

    def _visit(self, code: str) -> ItemVisit:
        self._prepared()
        return ItemVisit(self._tools, self._kind, code)

    def _checked(self, codes: Iterable[str]) -> Iterable[str]:
        if isinstance(codes, str | bytes) or not isinstance(codes, Iterable):
            raise BadKey(
                f"rolling {self._kind.name!r}: {codes!r} is not a list of codes; "
                f"for one item write [{codes!r}]"
            )
        return codes

    def _parsed(
        self, code: str, fresh: Duration | None, timeout: Duration
    ) -> tuple[str, int | None, int]:
        what = f"rolling {self._kind.name!r}"
        return (
            check_key(self._kind.name, code),
            None if fresh is None else parse_duration(fresh, what=f"{what}: fresh", zero=True),
            parse_duration(timeout, what=f"{what}: timeout"),
        )
