"""What a worker and a child process say to each other: messages of msgspec, each with its length.

The worker says `Home` once and then one `HandlerCall` at a time. The child answers with `Ready`,
tells what is logged meanwhile and how far it is, and ends each call with `Returned` or `Raised`.
"""

from __future__ import annotations

import socket
import threading
from typing import Any

import msgspec

from windlass.value.payload import Carrier
from windlass.value.task import Claimed

HEAD_BYTES = 4
LARGEST = 1 << 30


class HandlerPlace(msgspec.Struct, frozen=True):
    """Where the handler of a kind is."""

    kind: str
    module: str
    name: str
    # The file of the module, if no name leads to it.
    file: str | None


class Home(msgspec.Struct, tag="home", frozen=True):
    """What a child needs to import the handlers of its worker."""

    worker: int
    path: list[str]
    arguments: list[str]
    # The module or the file of the program, if handlers may be in it.
    main: tuple[str | None, str | None] | None
    # The settings of a Django project.
    django: str | None
    # The levels of the worker's loggers, and what it has disabled.
    levels: dict[str, int]
    disabled: int
    memory: int | None
    # The handler that is called first: it is imported before the child is ready.
    first: HandlerPlace


class HandlerCall(msgspec.Struct, tag="call", frozen=True):
    """One call of a handler."""

    number: int
    place: HandlerPlace
    task: Claimed
    key: str | None
    turns: bool
    # Its arguments as JSON; or its one argument, packed.
    payload: str | None
    row: Any
    seconds: float | None
    carrier: Carrier | None


class Ready(msgspec.Struct, tag="ready", frozen=True):
    """The child is set up."""


class Frame(msgspec.Struct, frozen=True):
    """One line of a traceback."""

    path: str
    line: int
    name: str
    module: str


class SentError(msgspec.Struct, frozen=True, kw_only=True):
    """An error, as far as it can leave its process."""

    # Its classes, each by module and name, the nearest first.
    classes: list[tuple[str, str]]
    text: str
    args: list[Any]
    facts: dict[str, Any]
    frames: list[Frame]
    notes: list[str]
    cause: SentError | None = None
    context: SentError | None = None
    hides_context: bool = False
    # What it says about overload over HTTP: the status, and the seconds to wait.
    overload: tuple[int, float | None] | None = None


class Logged(msgspec.Struct, tag="logged", frozen=True, kw_only=True):
    """A record that was logged; `number` is of the call it is from."""

    number: int | None
    name: str
    level: int
    text: str
    path: str
    line: int
    function: str | None
    thread: str | None
    created: float
    stack: str | None
    extra: dict[str, Any]
    error: SentError | None


class Progressed(msgspec.Struct, tag="progressed", frozen=True):
    """How far the handler says that it is."""

    number: int
    done: int
    total: int | None
    note: str | None


class Returned(msgspec.Struct, tag="returned", frozen=True):
    """The handler has returned; `result` is JSON, `unkept` says why it cannot be kept."""

    number: int
    result: str | None
    unkept: tuple[str, str] | None = None


class Raised(msgspec.Struct, tag="raised", frozen=True):
    """The handler has raised. A child that is not well takes no other call."""

    number: int
    error: SentError
    is_well: bool = True


Said = Home | HandlerCall
Answer = Ready | Logged | Progressed | Returned | Raised

_encode = msgspec.msgpack.Encoder().encode
_said = msgspec.msgpack.Decoder(Said)
answer = msgspec.msgpack.Decoder(Answer).decode


def framed(message: Said | Answer) -> bytes:
    """A message as bytes, with its length first."""
    body = _encode(message)
    return len(body).to_bytes(HEAD_BYTES, "big") + body


def length_of(head: bytes) -> int:
    """The length of the message behind `head`."""
    return int.from_bytes(head, "big")


class Wire:
    """The child's end of the line to its worker. Any thread may say something."""

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=descriptor)
        self._file = self._socket.makefile("rb")
        self._lock = threading.RLock()

    def hear(self) -> Said | None:
        """The next message; None if the worker is gone."""
        try:
            head = self._file.read(HEAD_BYTES)
            body = self._file.read(length_of(head)) if len(head) == HEAD_BYTES else b""
        except OSError:
            return None
        return _said.decode(body) if body else None

    def say(self, message: Answer) -> None:
        with self._lock:
            self._socket.sendall(framed(message))
