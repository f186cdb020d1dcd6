"""Answers: a handler of many messages may say how each of them ended."""

from __future__ import annotations

import random
from collections.abc import Sequence

from windlass.core.run.many.together import BadAnswer
from windlass.core.task.kind import Kind
from windlass.errors import Signal
from windlass.value.outcome import SUCCESS, Failed, Outcome, Snoozed, describe, judge


def read_answers(result: object, *, kind: Kind, tries: Sequence[int]) -> list[Outcome] | None:
    """How messages ended, by what the handler returned for them; None if it answered for none.

    `tries` has the number of the try of each. Raises BadAnswer if the answers do not fit.
    """
    if result is None:
        return None
    wanted = len(tries)
    given = result if isinstance(result, list | tuple) else None
    if given is None or len(given) != wanted:
        what = f"a {type(result).__name__}" if given is None else f"{len(given)} answers"
        raise BadAnswer(
            f"the handler returned {what} for {wanted} messages; return None, or a list with one "
            "answer for each message, in their order"
        )
    return [_outcome(each, kind, number) for each, number in zip(given, tries, strict=True)]


def meant_for_all(
    error: BaseException | None, outcome: Outcome | None, *, kind: Kind, tries: Sequence[int]
) -> list[Outcome] | None:
    """How each message ended, if the handler raised what is meant for all.

    None for another error: nobody knows which message is to blame.
    """
    if isinstance(error, BadAnswer):
        # Another try would answer the same.
        return [Failed(*describe(error))] * len(tries)
    if error is not None and (isinstance(error, Signal) or isinstance(outcome, Snoozed)):
        return [_outcome(error, kind, each) for each in tries]
    return None


def _outcome(given: object, kind: Kind, tries: int) -> Outcome:
    if isinstance(given, type) and issubclass(given, BaseException):
        given = given()
    if not isinstance(given, BaseException):
        return SUCCESS
    try:
        return judge(given, kind.terms, tries=tries, random=random.random())
    except Exception as problem:
        return Failed(*describe(problem))
