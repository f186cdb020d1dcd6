"""What every route gets from a request: the console, the audit log, and the parts of the path.

The calls of programs whose role is producer are not in the audit log, where they would hide what
people do.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar
from urllib.parse import unquote

from fastapi import Depends, Header, HTTPException, Path, Request, Response
from pydantic import BaseModel

from windlass.app import App
from windlass.errors import BadInput
from windlass.ledger.operate import Ledgers
from windlass.operate import idempotency
from windlass.operate.task.wait import TaskWaiters
from windlass.operate.token.operate import Tokens
from windlass.value.task import LONGEST_KEY
from windlass.view.action import Operator
from windlass.view.role import Role
from windlass.watch.operate.audit import AuditLog, OpenEntry
from windlass.watch.operate.change import ChangeWatcher
from windlass.watch.operate.metric import AppMetrics
from windlass.web.access import Actor
from windlass.web.credential import Credentials, Guesses, Sessions

LONGEST_PART = 1_000
REPLAYED = "Idempotency-Replayed"
PRINTABLE = r"^[\x20-\x7e]+$"

M = TypeVar("M", bound=BaseModel)


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
    waiters: TaskWaiters

    def still_knows(self, actor: Actor) -> bool:
        """Whether the credential of the request is still valid; for answers that last."""
        session = actor.session
        is_over = session is not None and session.expires_at < time.time()
        return not is_over and (actor.token is None or self.tokens.active(actor.token) is not None)


class UnwrittenLog(AuditLog):
    """The log of a program that gives work to do: it writes nothing down."""

    @contextmanager
    def record(
        self, _action: str, _about: str | None = None, /, **_detail: Any
    ) -> Iterator[OpenEntry]:
        yield OpenEntry()


@dataclass(frozen=True)
class OnceOnly:
    """Does what a request asks for, once for each Idempotency-Key."""

    console: Console
    response: Response
    asked: idempotency.OnceRequest | None

    def answer(
        self,
        model: type[M],
        work: Callable[[object], M],
        *,
        kind: str,
        key: str | None = None,
        lane: str | None = None,
    ) -> M:
        """What `work` answers, or what it answered before. It gets the connection to join.

        The kind with the key or the lane says in which shard the work is done.
        """
        asked = self.asked
        if asked is None:
            return work(None)
        home = idempotency.home(
            self.console.app.fleet, asked, idempotency.RequestHome(kind, key, lane)
        )
        found = idempotency.once(home, asked, lambda conn: work(conn).model_dump_json())
        if found.is_replayed:
            self.response.headers[REPLAYED] = "true"
        return model.model_validate_json(found.text)


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
    log = UnwrittenLog if actor.role is Role.PRODUCER else AuditLog
    return log(console.app.fleet, Operator(actor.name, actor.via, actor.address))


IDEMPOTENCY_KEY = Header(
    max_length=LONGEST_KEY,
    pattern=PRINTABLE,
    description="Sent again with the same key, the same request gets the same answer and does "
    "nothing twice. Keys are remembered for a day.",
    examples=["order-7-paid"],
)


async def _once(
    request: Request,
    response: Response,
    console: Annotated[Console, Depends(_ready)],
    actor: Annotated[Actor, Depends(_actor)],
    idempotency_key: Annotated[str | None, IDEMPOTENCY_KEY] = None,
) -> OnceOnly:
    if idempotency_key is None:
        return OnceOnly(console, response, None)
    content = f"{request.method} {request.scope['path']}\n".encode() + await request.body()
    caller = f"token {actor.token}" if actor.token else f"{actor.via} {actor.name}"
    asked = idempotency.OnceRequest(caller, idempotency_key, content)
    return OnceOnly(console, response, asked)


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
RequestOnce = Annotated[OnceOnly, Depends(_once)]
KindName = Annotated[str, _part("kind")]
RunName = Annotated[str, _part("name")]
