"""Check: every error and warning about an app at once, before it runs."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any, Literal

from windlass.core.shard.fleet import Fleet
from windlass.core.task.kind import Kind, Registry
from windlass.database import migrate
from windlass.database.database import Database
from windlass.errors import WindlassError
from windlass.sweep.model import is_sweep, terms_of


@dataclass(frozen=True)
class Finding:
    """Something that is wrong, or may be."""

    level: Literal["error", "warning"]
    about: str
    text: str


def check(fleet: Fleet, registry: Registry) -> list[Finding]:
    """All findings, errors first."""
    findings = [finding for shard in fleet.shards for finding in _database(shard.database)]
    findings += of_kinds(registry)
    findings += [finding for kind in registry.kinds.values() for finding in _source(kind)]
    return sorted(findings, key=lambda finding: finding.level != "error")


def versions(fleet: Fleet) -> list[tuple[str, str | None]]:
    """The name of each database and the version of its tables; None if it has no tables."""
    return [(shard.database.name, migrate.current(shard.database)) for shard in fleet.shards]


def migration_script(fleet: Fleet) -> str:
    """The SQL that makes or upgrades the tables of the first database."""
    return migrate.script(fleet.shards[0].database)


def _database(database: Database) -> list[Finding]:
    try:
        if database.dialect.migrates_itself and migrate.current(database) is None:
            return []
        migrate.check(database)
    except WindlassError as problem:
        return [Finding("error", "database", str(problem))]
    return []


def of_kinds(registry: Registry) -> list[Finding]:
    """What is wrong with the declared kinds, or may be."""
    if not registry.kinds:
        return [Finding("warning", "app", "no task is declared; decorate one with @app.task")]
    return [finding for kind in registry.kinds.values() for finding in _kind(kind)]


def _source(kind: Kind) -> list[Finding]:
    """What is wrong with the source of a sweep; it is asked."""
    if not is_sweep(kind):
        return []
    source: Any = terms_of(kind).source
    check = getattr(source, "check_sweep", None) or getattr(source, "check", None)
    plan = getattr(source, "plan", None)
    try:
        if check is not None:
            check()
        told = None if plan is None else plan()
    except (WindlassError, OSError) as problem:
        return [Finding("error", kind.name, f"its source cannot be swept: {problem}")]
    if told is None:
        return []
    text = (
        f"no index has {source.key} first, so each page sorts all rows; make one. "
        f"The plan of a page: {told}"
    )
    return [Finding("warning", kind.name, text)]


def _kind(kind: Kind) -> list[Finding]:
    findings: list[Finding] = []

    def warn(text: str) -> None:
        findings.append(Finding("warning", kind.name, text))

    if is_sweep(kind):
        # A row is what the source makes it.
        return [*findings, *_generator(kind)]
    unannotated = [
        name
        for name, parameter in kind.arguments.signature.parameters.items()
        if parameter.annotation in (parameter.empty, Any)
        and parameter.kind is not parameter.VAR_KEYWORD
    ]
    if unannotated:
        names = ", ".join(unannotated)
        warn(f"no annotation on {names}: what is enqueued there is not checked")
    if kind.rate is not None and kind.concurrency is None and kind.rate < 1:
        warn("a rate below one a second with no concurrency: several may still overlap")
    return [*findings, *_generator(kind)]


def _generator(kind: Kind) -> list[Finding]:
    if inspect.isgeneratorfunction(kind.function) or inspect.isasyncgenfunction(kind.function):
        text = "is a generator: calling it runs nothing; return instead"
        return [Finding("error", kind.name, text)]
    return []
