"""Handlers that child processes find here by their names."""

import asyncio
import ctypes
import logging
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import windlass

log = logging.getLogger("shop.isolated")


@dataclass
class Parcel:
    """What a task may take and return."""

    code: str
    weight: Decimal
    sent_at: datetime


class OutOfPaper(Exception):
    """An error with facts of its own."""

    def __init__(self, printer: str, sheets: int) -> None:
        super().__init__(f"{printer} has {sheets} sheets")
        self.printer = printer
        self.sheets = sheets


def heavier(parcel: Parcel, by: int = 1) -> Parcel:
    return Parcel(parcel.code, parcel.weight + by, parcel.sent_at + timedelta(days=by))


def pid() -> int:
    return os.getpid()


async def about() -> dict:
    await asyncio.sleep(0)
    run = windlass.context()
    return {
        "pid": os.getpid(),
        "id": run.id,
        "kind": run.kind,
        "key": run.key,
        "attempt": run.attempt,
        "fence": run.fence,
        "due_at": run.due_at,
        "seconds": None if run.deadline is None else run.deadline - time.monotonic(),
    }


def refused(what: str) -> None:
    run = windlass.context()
    if what == "on_finish":
        run.on_finish(lambda connection: None)
    else:
        getattr(run, what)


def nothing() -> None: ...


def strange() -> object:
    return object()


def fail(attempt_that_succeeds: int = 0) -> str:
    if windlass.context().attempt == attempt_that_succeeds:
        return "at last"
    try:
        os.stat("/nowhere/at/all")
    except OSError as error:
        raise OutOfPaper("laser", 3) from error


def signal_by_name(name: str) -> None:
    match name:
        case "retry":
            raise windlass.Retry("later", after=timedelta(hours=2))
        case "cancel":
            raise windlass.Cancel("no longer wanted")
        case "snooze":
            raise windlass.Snooze("3h")
        case "overloaded":
            raise windlass.Overloaded("full", retry_after="4h")


def die(how: str) -> None:
    sys.stderr.write("its last words\n")
    match how:
        case "exit":
            os._exit(3)
        case "SIGSEGV":
            ctypes.string_at(0)
        case "SIGKILL":
            os.kill(os.getpid(), signal.SIGKILL)
        case "sys.exit":
            sys.exit("enough")


def die_once() -> int:
    if windlass.context().attempt == 1:
        os._exit(1)
    return os.getpid()


def hang(how: str) -> None:
    match how:
        case "gil":
            # One call in C that keeps the GIL: no Python code runs in the process.
            ctypes.PyDLL(None).poll(None, 0, 120_000)
        case "regex":
            re.match(r"(a+)+$", "a" * 60 + "b")
        case "sleep":
            time.sleep(120)
        case "stubborn":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            time.sleep(120)


async def ahang(path: str) -> None:
    Path(f"{path}.begun").touch()
    try:
        await asyncio.sleep(120)
    finally:
        Path(path).write_text("cancelled")


def tidy(path: str) -> None:
    Path(f"{path}.begun").touch()
    try:
        time.sleep(120)
    finally:
        Path(path).write_text("tidied up")


def start_another(path: str) -> None:
    other = subprocess.Popen(["sleep", "120"])
    Path(path).write_text(str(other.pid))
    other.wait()


def eat() -> int:
    return len(bytearray(1_000_000_000))


def eat_slowly() -> int:
    eaten = []
    while len(eaten) < 1_000:
        eaten.append(bytearray(1_000_000))
    return len(eaten)


def say(name: str) -> None:
    log.debug("not heard")
    log.info("hello %s", name, extra={"colour": "red", "price": Decimal("1.5")})
    try:
        raise OutOfPaper("laser", 3)
    except OutOfPaper:
        log.exception("no paper")


def visit(code: str) -> str:
    return f"{code} in {os.getpid()}"


def row_types(row: dict) -> None:
    log.info("row", extra={"row": {name: type(value).__name__ for name, value in row.items()}})
    assert row == ROW


ROW = {
    "id": 7,
    "at": datetime(2026, 11, 1, 12, tzinfo=UTC),
    "price": Decimal("9.90"),
    "raw": b"\x00\x01",
    "tags": ("a", "b"),
    "none": None,
}


def span_parent() -> str | None:
    from opentelemetry import trace

    context = trace.get_current_span().get_span_context()
    return trace.format_trace_id(context.trace_id) if context.is_valid else None


class Group:
    """Handlers may be in a class."""

    @staticmethod
    def handler() -> int:
        return os.getpid()


class Printer:
    """A method needs its object, which no child has."""

    def visit(self, code: str) -> None: ...


def haul(until: str) -> None:
    """Tell how far it is, and wait until there is a file."""
    windlass.context().progress(2, 8, "second box")
    while not os.path.exists(until):
        time.sleep(0.01)
