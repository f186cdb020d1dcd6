"""Checks: every error and warning about an app before it runs, and the health of its databases."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Literal

from windlass.core.fetch import store as fetch_store
from windlass.core.ring import store as ring_store
from windlass.core.shard.fleet import Fleet
from windlass.core.shard.shard import OUTAGES, Shard
from windlass.core.task.kind import Kind, Registry
from windlass.core.task.store import task
from windlass.database import migrate
from windlass.database.connection import Connection
from windlass.database.database import Database, first_line
from windlass.errors import BadArgument, WindlassError
from windlass.sweep.model import is_sweep, terms_of
from windlass.view.field import Moment
from windlass.watch.engine.rule import undeclared

ROWS_CHECKED = 1_000


@dataclass(frozen=True)
class Finding:
    """Something that is wrong, or may be."""

    level: Literal["error", "warning"]
    about: str
    text: str


@dataclass(frozen=True)
class DatabaseHealth:
    """A database; `server` is its version, `schema_found` that of its tables.

    It is connected as `user`, and encrypted by the version of `tls`; a file has neither.
    `now` is its clock; None if it does not answer.
    """

    name: str
    dialect: str
    server: str | None = None
    schema_found: str | None = None
    schema_needed: str = migrate.VERSION
    user: str | None = None
    tls: str | None = None
    milliseconds: float | None = None
    now: Moment | None = None
    problem: str | None = None


def check(fleet: Fleet, registry: Registry) -> list[Finding]:
    """All findings, errors first."""
    findings = [finding for shard in fleet.shards for finding in _shard(shard, registry)]
    findings += of_kinds(registry)
    findings += [finding for kind in registry.kinds.values() for finding in _source(kind)]
    return sorted(findings, key=lambda finding: finding.level != "error")


def health(fleet: Fleet) -> list[DatabaseHealth]:
    """The health of each database; each is asked once."""
    return [_health(shard) for shard in fleet.shards]


def _shard(shard: Shard, registry: Registry) -> list[Finding]:
    database = shard.database
    findings = _database(database)
    if any(each.level == "error" for each in findings) or migrate.current(database) is None:
        return findings
    return [*findings, *database.read(lambda connection: _rows(connection, registry))]


def _rows(connection: Connection, registry: Registry) -> list[Finding]:
    """Rows that no worker can run: their kind is gone, or does not take their arguments."""
    unended = fetch_store.kinds_unended(connection)
    gone = [
        Finding(
            "warning",
            kind,
            "has rows, but is not declared here, nor by a worker; they wait until it is declared "
            f"again. See them: windlass task list --kind {kind}",
        )
        for kind in undeclared(unended, registry, ring_store.workers(connection))
    ]
    kinds = [registry.kinds[name] for name in sorted(unended & registry.kinds.keys())]
    # A cron and a rolling kind have rows without arguments.
    plain = [kind for kind in kinds if kind.period is None and kind.schedule is None]
    misfits = (_misfits(connection, kind) for kind in plain)
    return [*gone, *(finding for finding in misfits if finding is not None)]


def _misfits(connection: Connection, kind: Kind) -> Finding | None:
    rows = task.waiting_payloads(connection, kind.name, limit=ROWS_CHECKED)
    bad = []
    for number, payload in rows:
        try:
            kind.arguments.decode(payload)
        except BadArgument as problem:
            bad.append(f"task {number}: {problem}")
    if not bad:
        return None
    text = (
        f"{len(bad):,} of {len(rows):,} waiting rows that were looked at do not fit its "
        f"parameters, and wait until they do; {bad[0]}"
    )
    return Finding("warning", kind.name, text)


def _database(database: Database) -> list[Finding]:
    hazards = [
        Finding("warning", "database", text) for text in database.dialect.hazards(database.url)
    ]
    return [*_tables(database), *hazards]


def _tables(database: Database) -> list[Finding]:
    try:
        if database.dialect.migrates_itself and migrate.current(database) is None:
            return []
        migrate.check(database)
    except WindlassError as problem:
        return [Finding("error", "database", str(problem))]
    warning = migrate.warning(database)
    return [] if warning is None else [Finding("warning", "database", f"{database.name} {warning}")]


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
    if is_sweep(kind):
        # A row is what the source makes it.
        return []
    warnings: list[str] = []
    unannotated = [
        name
        for name, parameter in kind.arguments.signature.parameters.items()
        if parameter.annotation in (parameter.empty, Any)
        and parameter.kind is not parameter.VAR_KEYWORD
    ]
    if unannotated:
        names = ", ".join(unannotated)
        warnings.append(f"no annotation on {names}: what is enqueued there is not checked")
    if kind.rate is not None and kind.concurrency is None and kind.rate < 1:
        warnings.append("a rate below one a second with no concurrency: several may still overlap")
    return [Finding("warning", kind.name, text) for text in warnings]


def _health(shard: Shard) -> DatabaseHealth:
    database = shard.database
    try:
        began = time.monotonic()
        now = database.measure(tries=1)
        milliseconds = (time.monotonic() - began) * 1_000
        found = migrate.current(database, tries=1)
        login = database.read(database.dialect.login, tries=1)
    except (*OUTAGES, WindlassError) as problem:
        return DatabaseHealth(database.name, database.dialect.name, problem=first_line(problem))
    return DatabaseHealth(
        name=database.name,
        dialect=database.dialect.name,
        server=_server(database),
        schema_found=found,
        user=login.user,
        tls=login.tls,
        milliseconds=milliseconds,
        now=now,
        problem=_mismatch(database, found),
    )


def _mismatch(database: Database, found: str | None) -> str | None:
    if found is None and database.dialect.migrates_itself:
        return None
    tables = database.schema.tables
    return None if tables is None else tables.problem()


def _server(database: Database) -> str | None:
    with database.engine.connect() as connection:
        version = connection.dialect.server_version_info
    return None if version is None else ".".join(map(str, version))
