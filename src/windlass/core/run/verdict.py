"""The outcome of a handler, from what it returned or raised."""

from __future__ import annotations

import random

from windlass.core.run.ready import Run
from windlass.value.outcome import (
    SUCCESS,
    Failed,
    Outcome,
    Succeeded,
    describe,
    judge,
)
from windlass.value.payload import encode_result


def success(result: object) -> Outcome:
    """The outcome of a handler that returned `result`."""
    if result is None:
        return SUCCESS
    if isinstance(result, Outcome):
        return result
    try:
        return Succeeded(encode_result(result))
    except (TypeError, ValueError, OverflowError, RecursionError) as problem:
        # A retry would return the same result.
        return Failed(*describe(TypeError(f"the result cannot be kept: {problem}")))


def failure(run: Run, error: BaseException) -> Outcome:
    """The outcome of a handler that raised `error`."""
    run.error = error
    try:
        return judge(error, run.kind.terms, tries=run.task.tries, random=random.random())
    except Exception as problem:
        return Failed(*describe(problem))
