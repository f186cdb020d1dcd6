"""Which runs over given sources a worker serves: open ones, side by side, each with its own runner.

All workers serve the oldest runs first, so that early ones end early and no worker has a thread for
each of thousands. A run whose source cannot be read gives way to others. A run is closed when its
round has ended and none of its failed items waits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from windlass.core.face import Site
from windlass.core.task.kind import Kind
from windlass.core.task.sweep_run import GivenRun, split_name
from windlass.database.connection import Connection
from windlass.database.database import URL
from windlass.errors import WindlassError
from windlass.source.contract import SweepSource
from windlass.source.given import Unreadable, open_source
from windlass.sweep.engine.runner import SweepRunner
from windlass.sweep.model import SweepRow, for_run, terms_of
from windlass.sweep.store import run as store
from windlass.sweep.store.run import SweepRunRow

# How many runs of one sweep a worker serves at once, beside those that it must rescue.
MOST_RUNS = 16


def kind_of_run(urls: Iterable[URL], kind: Kind, row: SweepRunRow) -> Kind:
    """The kind as a run has it; a source that cannot be opened here says so when it is read."""
    run = GivenRun(row.name, row.sweep, row.number, row.run_key)
    return for_run(kind, run, _opened(urls, kind, row))


def _opened(urls: Iterable[URL], kind: Kind, row: SweepRunRow) -> SweepSource:
    try:
        return open_source(row.source, declared=terms_of(kind).source, databases=urls)
    except (WindlassError, TypeError, ValueError) as problem:
        return Unreadable(problem)


@dataclass(eq=False)
class ServedRuns:
    """The runs that one worker serves."""

    kinds: Mapping[str, Kind]
    site: Site
    make: Callable[[Kind], SweepRunner]
    runners: dict[str, SweepRunner] = field(default_factory=dict)

    def read(self, connection: Connection, wanted: Iterable[str]) -> list[SweepRunRow]:
        """The runs to serve; `wanted` are sweeps and runs with ranges that must be rescued."""
        also = [name for name in wanted if split_name(name) and name not in self.kinds]
        return store.to_serve(connection, list(self.kinds), most=MOST_RUNS, also=also)

    def names(self, found: Sequence[SweepRunRow]) -> list[str]:
        """The runs whose rows matter: those to serve, and those that are served."""
        return [*{*(run.name for run in found), *self.runners}]

    def see(self, found: Sequence[SweepRunRow], rows: Mapping[str, SweepRow]) -> None:
        """Serve these runs; the others leave when nothing of them is here."""
        for run in found:
            if run.name not in self.runners:
                kind = kind_of_run([self.site.database.url], self.kinds[run.sweep], run)
                self.runners[run.name] = self.make(kind)
        here = {run.name for run in found}
        for name, runner in list(self.runners.items()):
            if runner.may_go and self._is_over(name, rows.get(name), is_wanted=name in here):
                runner.calls.close()
                del self.runners[name]

    def _is_over(self, name: str, row: SweepRow | None, *, is_wanted: bool) -> bool:
        if not is_wanted or row is None:
            return True
        if row.is_running:
            return False
        closed: bool = self.site.database.write(partial(store.close_if_over, name=name))
        return closed
