"""What every route works with: the app, who asks, and the log of what they do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated
from urllib.parse import unquote

from fastapi import Depends, HTTPException, Path, Request

from windlass.app import App
from windlass.core.task.kind import Kind
from windlass.errors import BadInput, Unknown
from windlass.ledger.operate import Ledgers
from windlass.watch.audit.model import Operator
from windlass.watch.audit.operate import AuditLog
from windlass.watch.change.listen import Watch
from windlass.web.access import Actor
from windlass.web.session import Guesses, Sessions

LONGEST_PART = 1_000


@dataclass(frozen=True)
class Console:
    """What the console serves, and by which rules."""

    app: App
    sessions: Sessions
    guesses: Guesses
    read_only: bool
    watch: Watch
    ledgers: Ledgers

    def rolling(self, name: str) -> Kind:
        """The rolling kind of that name."""
        kind = self.app.registry.get(name)
        if kind.period is None:
            raise Unknown(f"kind {name!r} is not rolling")
        return kind

    def sweep(self, name: str) -> Kind:
        """The sweep of that name."""
        kind = self.app.registry.get(name)
        if kind.sweep is None:
            raise Unknown(f"kind {name!r} is not a sweep")
        return kind


def decoded(raw: str) -> str:
    """A part of the path as it was meant; it may have any character in it, also a slash."""
    try:
        text = unquote(raw, errors="strict")
    except UnicodeDecodeError:
        raise BadInput(f"{raw!r} in the path is not UTF-8") from None
    if "\x00" in text:
        raise BadInput(f"{text!r} in the path has a character that databases cannot store")
    return text


def _console(request: Request) -> Console:
    console = request.app.state.console
    assert isinstance(console, Console)
    return console


def _known(request: Request, console: Annotated[Console, Depends(_console)]) -> Console:
    # The gate has seen to that. Should a request ever find a way around it, it ends here.
    if getattr(request.state, "actor", None) is None:
        raise HTTPException(401, "nobody is logged in")
    return console


def _ready(console: Annotated[Console, Depends(_known)]) -> Console:
    console.app.prepare()
    return console


def _actor(request: Request) -> Actor:
    actor = request.state.actor
    assert isinstance(actor, Actor)
    return actor


def _log(
    console: Annotated[Console, Depends(_console)], actor: Annotated[Actor, Depends(_actor)]
) -> AuditLog:
    via = "console" if actor.session else "api"
    return AuditLog(console.app.fleet, Operator(actor.name, via, actor.address))


def _kind(kind: Annotated[str, Path(max_length=LONGEST_PART)]) -> str:
    return decoded(kind)


def _deduction(
    raw: Annotated[str, Path(alias="id", min_length=1, max_length=LONGEST_PART)],
) -> str:
    return decoded(raw)


def _sku(sku: Annotated[str, Path(min_length=1, max_length=LONGEST_PART)]) -> str:
    return decoded(sku)


def _name(name: Annotated[str, Path(max_length=LONGEST_PART)]) -> str:
    return decoded(name)


# The console, for whoever is known, with the tables of its app there or maybe not; and for anyone.
ReadyConsole = Annotated[Console, Depends(_ready)]
KnownConsole = Annotated[Console, Depends(_known)]
AnyConsole = Annotated[Console, Depends(_console)]
RequestLog = Annotated[AuditLog, Depends(_log)]
KindName = Annotated[str, Depends(_kind)]
RunName = Annotated[str, Depends(_name)]
DeductionId = Annotated[str, Depends(_deduction)]
Sku = Annotated[str, Depends(_sku)]
