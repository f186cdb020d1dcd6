"""Finds a flow run in the shard that has it."""

from __future__ import annotations

from windlass.core.shard.fleet import Fleet
from windlass.core.shard.shard import OUTAGES, Shard
from windlass.core.task.kind import Registry
from windlass.database.database import first_line
from windlass.errors import DatabaseUnavailable, UnknownFlow
from windlass.flow.store import flow as store
from windlass.flow.store.flow import RunRow


class RunFinder:
    """Finds flow runs among the shards of an app."""

    def __init__(self, fleet: Fleet, registry: Registry) -> None:
        self.fleet = fleet
        self.registry = registry

    def find(self, run: int) -> tuple[Shard, RunRow]:
        """A flow run, and the shard that has it."""
        self.fleet.prepare()
        away: list[str] = []
        coming: tuple[Shard, RunRow] | None = None
        for shard in self.fleet.seeking(run):
            try:
                found = shard.database.read(lambda connection: store.run(connection, run))
            except OUTAGES as problem:
                if self.fleet.single is not None:
                    raise
                shard.failed(problem)
                away.append(f"{shard.name}: {first_line(problem)}")
                continue
            if found is not None and not found.is_coming:
                return shard, found
            if found is not None:
                # A copy that is still being moved here counts only if the original is gone.
                coming = shard, found
        if coming is not None:
            return coming
        if away:
            raise DatabaseUnavailable(
                f"run {run} is in none of the shards that answer; {'; '.join(away)}"
            )
        raise unknown_run(run)


def unknown_run(run: int) -> UnknownFlow:
    """The error for a flow run that does not exist."""
    return UnknownFlow(f"there is no run {run}: it never existed, or it ended and was pruned")
