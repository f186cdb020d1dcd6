"""For tests: databases that are lent to one test after the other, and what a drain runs there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from windlass.clock import Clock
from windlass.core.shard.fleet import Fleet
from windlass.core.shard.shard import Shard
from windlass.core.task.kind import CRON_KEY, Kind, Registry
from windlass.database.database import URL, normalise
from windlass.database.scratch import Lender, ScratchFiles, ScratchServer
from windlass.database.url import place_of
from windlass.lent import LentPlace
from windlass.operate.task import operate
from windlass.value.status import Status
from windlass.value.task import TaskFilter

__all__ = ["Lender", "allowed_places", "begun", "lent_places", "make_lender", "place_of_shard"]


def lent_places(
    own: Sequence[URL], databases: Sequence[str], clock: Clock | None
) -> tuple[dict[str, LentPlace], set[str]]:
    """Which lent database stands for which of an app's own, and what may be used."""
    allowed = allowed_places(databases)
    names = [place_of(url) for url in own]
    places = zip(names, databases, strict=False)
    return {name: LentPlace(url, clock) for name, url in places if name not in allowed}, allowed


def allowed_places(urls: Iterable[str]) -> set[str]:
    """The names of databases, as a loan knows them."""
    return {place_of(normalise(url)) for url in urls}


def place_of_shard(shard: Shard) -> str:
    """The name of its database, as a loan knows it."""
    return place_of(shard.database.url)


def make_lender(url: str | None, folder: Path) -> Lender:
    """Lends databases on the server at `url`, or else SQLite files in `folder`."""
    if url is None or normalise(url).get_backend_name() == "sqlite":
        return ScratchFiles(folder)
    return ScratchServer(url)


def begun(
    fleet: Fleet, registry: Registry, sweeps: Callable[[Iterable[Kind]], Mapping[str, Kind]]
) -> dict[str, Kind]:
    """All kinds but those that begin by themselves: crons and sweeps that no one has begun.

    A cron is begun by a task of its kind that was enqueued, a sweep by its `start()`.
    """
    kinds = {**registry.kinds, **registry.own}
    others = {
        name: kind
        for name, kind in kinds.items()
        if kind.face != "sweep" and not _only_stands(fleet, kind)
    }
    return {**others, **sweeps(kinds.values())}


def _only_stands(fleet: Fleet, kind: Kind) -> bool:
    """Whether a kind is a cron of which nothing waits but its standing row."""
    if kind.schedule is None:
        return False
    waiting = TaskFilter(kind=kind.name, status=Status.WAITING)
    return all(row.key == CRON_KEY for row in operate.listing(fleet, waiting, limit=2))
