"""Raises and resolves alerts, and prunes old ones.

A cause has one open alert. Another report of it counts on that alert, and the alert is resolved
when the cause is gone; the next report raises a new one. `windlass.watch` shows alerts, delivers
them and records acknowledgements. Tables of release 0.1.0 have alerts without such a state: there
every report is an alert.
"""

from __future__ import annotations

from sqlalchemy import Connection, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from windlass.core.alert.model import LONGEST_TEXT, Trouble, cause_of
from windlass.database.database import has_tables
from windlass.database.schema import acknowledgement, alert, trouble

# The migration that has the state of alerts.
TABLES = "0005"
KEEP = 30 * 24 * 60 * 60 * 1_000_000
# Alerts that a problem is over, and the alert of that problem.
ENDS = {"breaker closed": "breaker opened"}


def raise_alert(connection: Connection, number: int, problem: Trouble, *, now: int) -> bool:
    """Raise an alert under a new number, or count on the open alert of the cause.

    Returns whether the alert is new. Another report opens an alert that was acknowledged.
    """
    if not has_tables(connection, TABLES):
        _write(connection, number, problem, now=now)
        return True
    if _count(connection, problem, now=now):
        return False
    if _begin(connection, number, problem, now=now):
        return True
    _count(connection, problem, now=now)
    return False


def keep_alert(connection: Connection, number: int, problem: Trouble, *, now: int) -> bool:
    """Raise an alert under a new number, unless the cause has one; returns whether it is new.

    For a state that lasts and is noticed again and again: it counts once.
    """
    if not has_tables(connection, TABLES):
        return False
    told = {"text": problem.text[:LONGEST_TEXT], "severity": int(problem.weight)}
    lasts = update(trouble).where(trouble.c.cause == problem.cause).values(told)
    if connection.execute(lasts).rowcount:
        return False
    return _begin(connection, number, problem, now=now)


def _begin(connection: Connection, number: int, problem: Trouble, *, now: int) -> bool:
    """Write a new alert; False if another transaction has raised it at the same moment."""
    try:
        with connection.begin_nested():
            connection.execute(
                insert(trouble).values(
                    alert_id=number,
                    cause=problem.cause,
                    severity=int(problem.weight),
                    times=problem.times,
                    last_at=now,
                    text=problem.text[:LONGEST_TEXT],
                )
            )
    except IntegrityError:
        return False
    _write(connection, number, problem, now=now)
    return True


def note(connection: Connection, number: int, problem: Trouble, *, now: int) -> None:
    """Write an alert that is resolved from the start: something that a person should know."""
    if has_tables(connection, TABLES):
        connection.execute(
            insert(trouble).values(
                alert_id=number,
                severity=int(problem.weight),
                times=problem.times,
                last_at=now,
                resolved_at=now,
                text=problem.text[:LONGEST_TEXT],
            )
        )
    _write(connection, number, problem, now=now)
    if problem.what in ENDS:
        resolve(connection, ENDS[problem.what], problem.kind, text=problem.text, now=now)
        # A person who silenced the alert meant this problem, not the next one.
        connection.execute(
            update(acknowledgement)
            .where(acknowledgement.c.what == ENDS[problem.what])
            .where(acknowledgement.c.kind == problem.kind)
            .where(acknowledgement.c.quiet_until > now)
            .values(seen_at=now, quiet_until=None)
        )


def resolve(
    connection: Connection, what: str, kind: str, subject: str = "", *, text: str, now: int
) -> bool:
    """The cause is gone: resolve its open alert; False if it has none. `text` says how it ended."""
    return resolve_cause(connection, cause_of(what, kind, subject), text=text, now=now)


def resolve_cause(connection: Connection, cause: str, *, text: str, now: int) -> bool:
    """`resolve`, by the cause."""
    if not has_tables(connection, TABLES):
        return False
    ended = {"resolved_at": now, "cause": None, "resolution": text[:LONGEST_TEXT]}
    changed = connection.execute(update(trouble).where(trouble.c.cause == cause).values(ended))
    return bool(changed.rowcount)


def open_causes(connection: Connection) -> dict[str, int]:
    """The causes of all open alerts, and when each was last reported."""
    query = select(trouble.c.cause, trouble.c.last_at).where(trouble.c.cause.is_not(None))
    return {row.cause: row.last_at for row in connection.execute(query)}


def prune(connection: Connection, *, now: int) -> int:
    """Delete alerts and acknowledgements of more than 30 days ago; returns how many alerts.

    The alert of a state that lasts longer is raised again, and told again.
    """
    old = acknowledgement.c.seen_at < now - KEEP
    connection.execute(delete(acknowledgement).where(old))
    gone = delete(alert).where(alert.c.raised_at < now - KEEP)
    if has_tables(connection, TABLES):
        connection.execute(delete(trouble).where(trouble.c.last_at < now - KEEP))
        gone = gone.where(alert.c.id.not_in(select(trouble.c.alert_id)))
    return connection.execute(gone).rowcount


def _count(connection: Connection, problem: Trouble, *, now: int) -> bool:
    changed = connection.execute(
        update(trouble)
        .where(trouble.c.cause == problem.cause)
        .values(
            times=trouble.c.times + problem.times,
            last_at=now,
            text=problem.text[:LONGEST_TEXT],
        )
    )
    return bool(changed.rowcount)


def _write(connection: Connection, number: int, problem: Trouble, *, now: int) -> None:
    connection.execute(
        insert(alert).values(
            id=number,
            what=problem.what,
            kind=problem.kind or None,
            task_id=problem.task_id,
            raised_at=now,
            text=problem.text,
        )
    )
    # After a step back of the clock: nobody has seen this alert yet.
    connection.execute(
        update(acknowledgement)
        .where(acknowledgement.c.what == problem.what, acknowledgement.c.kind == problem.kind)
        .where(acknowledgement.c.seen_at >= now)
        .values(seen_at=now - 1)
    )
