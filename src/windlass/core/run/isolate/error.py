"""Errors cross from a child to its worker: their class, their text, what they say, their frames.

An error is made again without a call of an `__init__` of the user's. If its class is not loaded
here, or would say something else, a class of the same name takes its place, which is a child of the
nearest class that is loaded. So retries by type, signals and logs see what they would have seen.
"""

from __future__ import annotations

import sys
import traceback
from contextlib import suppress
from datetime import timedelta
from types import SimpleNamespace, TracebackType
from typing import Any, cast

from windlass.core.run.isolate.pack import Unpackable, pack, unpack
from windlass.core.run.isolate.wire import Frame, SentError
from windlass.frame import users_frames
from windlass.value.load.overload import overload_in

DEEPEST = 8
MOST_FRAMES = 200
LONGEST_TEXT = 64_000


def sent_of(error: BaseException, *, depth: int = 0) -> SentError:
    """An error, as it can leave this process."""
    overload = overload_in(error)
    cause, context = error.__cause__, error.__context__
    is_deep = depth >= DEEPEST
    return SentError(
        classes=[(each.__module__, each.__qualname__) for each in type(error).__mro__],
        text=_text_of(error),
        args=[_packed(each) for each in _args_of(error)],
        facts={name: _packed(value) for name, value in _facts_of(error).items()},
        frames=_frames_of(error),
        notes=[str(note) for note in getattr(error, "__notes__", ())],
        cause=None if cause is None or is_deep else sent_of(cause, depth=depth + 1),
        context=None
        if context is None or context is cause or is_deep or error.__suppress_context__
        else sent_of(context, depth=depth + 1),
        hides_context=error.__suppress_context__,
        overload=None if overload is None else (overload.status, _seconds(overload.retry_after)),
    )


def error_of(problem: SentError) -> BaseException:
    """The error that a child has sent, with its traceback there."""
    error = _made(problem).with_traceback(_traceback(problem.frames))
    for note in problem.notes:
        error.add_note(note)
    error.__cause__ = None if problem.cause is None else error_of(problem.cause)
    error.__context__ = None if problem.context is None else error_of(problem.context)
    error.__suppress_context__ = problem.hides_context
    return error


def _seconds(wait: timedelta | None) -> float | None:
    return None if wait is None else wait.total_seconds()


def _text_of(error: BaseException) -> str:
    try:
        return str(error)[:LONGEST_TEXT]
    except Exception:
        return ""


def _args_of(error: BaseException) -> tuple[object, ...]:
    """What its class is called with: an OSError keeps its files apart."""
    if isinstance(error, OSError) and error.filename is not None and len(error.args) == 2:
        files = [] if error.filename2 is None else [None, error.filename2]
        return (*error.args, error.filename, *files)
    return error.args


def _facts_of(error: BaseException) -> dict[str, Any]:
    return {
        name: value
        for name, value in getattr(error, "__dict__", {}).items()
        if isinstance(name, str) and name != "__notes__"
    }


def _packed(value: object) -> Any:
    try:
        return pack(value)
    except (Unpackable, RecursionError):
        shown = ""
        with suppress(Exception):
            shown = repr(value)[:1_000]
        return shown


def _frames_of(error: BaseException) -> list[Frame]:
    found = []
    for frame, line in traceback.walk_tb(users_frames(error)):
        code = frame.f_code
        module = str(frame.f_globals.get("__name__", ""))
        found.append(Frame(code.co_filename, line, code.co_name, module))
    return found[-MOST_FRAMES:]


def _made(problem: SentError) -> BaseException:
    """An error of the class that the child named, or of one that stands in for it."""
    # SystemExit and its like are no errors: they are not retried, and must not end the worker.
    base = next((found for each in problem.classes if (found := _loaded(*each))), BaseException)
    args = [unpack(each) for each in problem.args]
    facts = {name: unpack(value) for name, value in problem.facts.items()}
    is_same = (base.__module__, base.__qualname__) == problem.classes[0]
    if is_same and problem.overload is None:
        with suppress(Exception):
            error = _new(base, args, facts)
            if str(error) == problem.text:
                return error
    stand_in = _stand_in(base, problem)
    try:
        return _new(stand_in, args, facts)
    except Exception:
        last = Exception if issubclass(base, Exception) else BaseException
        return _new(_stand_in(last, problem), args, {})


def _new(kind: type[BaseException], args: list[Any], facts: dict[str, Any]) -> BaseException:
    if kind.__module__ == "builtins":
        # What these hold is not in their `__dict__`.
        error = kind(*args)
    else:
        error = kind.__new__(kind, *args)
        error.args = tuple(args)
    error.__dict__.update(facts)
    return error


def _stand_in(base: type[BaseException], problem: SentError) -> type[BaseException]:
    """A child of `base` that says what the error said."""
    module, name = problem.classes[0]
    said: dict[str, Any] = {
        "__module__": module,
        "__qualname__": name,
        "__str__": lambda _self: problem.text,
    }
    if problem.overload is not None:
        status, seconds = problem.overload
        headers = {} if seconds is None else {"Retry-After": str(round(seconds))}
        said["response"] = SimpleNamespace(status_code=status, headers=headers)
    made = type(name.rpartition(".")[2], (base,), said)
    return cast(type[BaseException], made)


def _loaded(module: str, name: str) -> type[Exception] | None:
    """A class of errors by its name, if its module is loaded here."""
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    is_error = isinstance(found, type) and issubclass(found, Exception)
    return cast(type[Exception], found) if is_error else None


class _Mark(Exception):
    """Raised to make a frame."""


def _traceback(frames: list[Frame]) -> TracebackType | None:
    """A traceback through the same lines of the same files."""
    made: TracebackType | None = None
    for frame in reversed(frames):
        code = compile("raise mark", frame.path, "exec")
        code = code.replace(co_name=frame.name, co_qualname=frame.name, co_firstlineno=frame.line)
        known = {"__name__": frame.module, "__file__": frame.path, "mark": _Mark}
        try:
            exec(code, known)
        except _Mark as mark:
            inner = mark.__traceback__
            assert inner is not None
            assert inner.tb_next is not None
            # Without an instruction nobody marks a part of the line.
            made = TracebackType(made, inner.tb_next.tb_frame, -1, frame.line)
    return made
