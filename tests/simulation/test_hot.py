"""The protocol of the hot lane: no order of steps and failures oversells, loses or doubles.

The essay is `docs/internals/decision/hot.md`.
"""

from dataclasses import replace

import pytest

from tests.simulation.hot import Broken, Guards, begin, explore, walk

WALKS = 1_500
FOUND_BY_WALKS = {
    "cache_is_fenced": "oversold",
    "server_is_known": "oversold",
    "recovery_reads_at_once": "oversold",
    "answer_is_durable": "an accepted deduction is lost",
    "allotment_is_once": "oversold",
    "recall_takes_first": "oversold",
    "id_is_unique": "one id counts twice",
}


def walks(guards: Guards, *, most: int) -> str:
    """What is broken first, by walks with one unit of stock and with two."""
    for seed in range(most):
        try:
            walk(begin(allotted=1 + seed % 2), guards, seed=seed, failures=2)
        except Broken as problem:
            return str(problem)
    return ""


def test_no_walk_oversells_loses_or_doubles():
    assert walks(Guards(), most=WALKS) == ""


def test_every_order_of_one_caller_two_recoveries_an_allotment_and_a_recall_is_right():
    explored = explore(begin(("a",)), Guards(), failures=0)

    assert (explored.problem, explored.way) == ("", ())
    assert explored.states > 1_000


@pytest.mark.parametrize("guard", FOUND_BY_WALKS)
def test_without_one_of_the_guards_something_is_found(guard):
    found = walks(replace(Guards(), **{guard: False}), most=8_000)

    assert found == FOUND_BY_WALKS[guard]


def test_without_the_fence_of_records_a_late_one_oversells():
    explored = explore(begin(("a",)), replace(Guards(), record_is_fenced=False), failures=0)

    assert explored.problem == "oversold"
    assert explored.way.index("r2 begins") < explored.way.index("a0 records")
