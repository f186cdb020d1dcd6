"""What every route gets from a request: the console, the audit log, and the parts of the path."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import unquote

from fastapi import Depends, HTTPException, Path, Request

from windlass.app import App
from windlass.errors import BadInput
from windlass.ledger.operate import Ledgers
from windlass.operate.token.operate import Tokens
from windlass.view.action import Operator
from windlass.watch.operate.audit import AuditLog
from windlass.watch.operate.change import ChangeWatcher
from windlass.watch.operate.metric import AppMetrics
from windlass.web.access import Actor
from windlass.web.credential import Credentials, Guesses, Sessions

LONGEST_PART = 1_000


@dataclass(frozen=True)
class Console:
    """The app that the console serves, and the rules of access."""

    app: App
    credentials: Credentials
    sessions: Sessions
    guesses: Guesses
    tokens: Tokens
    read_only: bool
    changes: ChangeWatcher
    ledgers: Ledgers
    metrics: AppMetrics

    def still_knows(self, actor: Actor) -> bool:
        """Whether the credential of the request is still valid; for answers that last."""
        session = actor.session
        is_over = session is not None and session.expires_at < time.time()
        return not is_over and (actor.token is None or self.tokens.active(actor.token) is not None)


def decoded(raw: str) -> str:
    """A part of the path, decoded; it may have any character, also a slash."""
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
    # The access gate has checked this already; here a request that got around it ends.
    if getattr(request.state, "actor", None) is None:
        raise HTTPException(401, "you are not logged in")
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
    return AuditLog(console.app.fleet, Operator(actor.name, actor.via, actor.address))


def _part(name: str) -> Any:
    def read(raw: str = Path(alias=name, max_length=LONGEST_PART)) -> str:
        return decoded(raw)

    return Depends(read)


# The console for a person who is logged in, with its tables made or maybe not; and for anyone.
ReadyConsole = Annotated[Console, Depends(_ready)]
KnownConsole = Annotated[Console, Depends(_known)]
AnyConsole = Annotated[Console, Depends(_console)]
RequestActor = Annotated[Actor, Depends(_actor)]
RequestLog = Annotated[AuditLog, Depends(_log)]
KindName = Annotated[str, _part("kind")]
RunName = Annotated[str, _part("name")]
