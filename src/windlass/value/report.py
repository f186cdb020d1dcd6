"""What another system says about a run, as its outcome: an external system, or a consumer."""

from __future__ import annotations

import random

from windlass.value.outcome import LONGEST_REMARK, LONGEST_TRACEBACK, Failed, Retried, Succeeded
from windlass.value.outcome import storable as without_bad_characters
from windlass.value.payload import encode_result
from windlass.value.retry import RetryPolicy


def text_of(said: object) -> str:
    """What was said, as a bounded line that every database can store."""
    return without_bad_characters(str(said))[:LONGEST_REMARK]


def trace_of(said: object) -> str:
    """A traceback that was said, bounded: its end tells most."""
    return without_bad_characters(str(said))[-LONGEST_TRACEBACK:]


def done(result: object) -> Succeeded | Failed:
    """It succeeded with this result; it fails if the result cannot be kept."""
    try:
        return Succeeded(encode_result(result))
    except (TypeError, ValueError, OverflowError, RecursionError) as problem:
        text = text_of(f"the result cannot be kept: {problem}")
        return Failed(text, text)


def failed(
    text: str,
    trace: str,
    policy: RetryPolicy,
    *,
    tries: int,
    as_error: BaseException,
    is_answer: bool = False,
) -> Failed | Retried:
    """It failed; it is tried again if the policy allows that after an error like `as_error`."""
    if not policy.allows(as_error, tries=tries):
        return Failed(text, trace, is_answer=is_answer)
    delay = policy.delay(as_error, tries=tries, random=random.random())
    return Retried(delay, text, trace, is_answer=is_answer)
