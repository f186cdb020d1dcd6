"""Callers at the same moment share a transaction, and each gets its own answer."""

import asyncio
import threading
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
from sqlalchemy import event, text
from sqlalchemy.exc import DBAPIError

from tests.wait import eventually
from windlass.errors import DatabaseUnavailable, WindlassError
from windlass.ledger import IdConflict, Ledger, OutOfStock
from windlass.ledger.engine.group import GroupCommit, Pending
from windlass.ledger.model.ledger import Conflict, Deduct

CALLERS = 60


class Commits:
    """How many transactions the ledger commits."""

    def __init__(self, ledger: Ledger) -> None:
        self.count = 0
        event.listen(ledger.database.engine, "commit", self._on_commit)

    def _on_commit(self, _connection: object) -> None:
        self.count += 1


def deduct(ledger: Ledger, number: int) -> str:
    try:
        ledger.deduct(f"order-{number}", {"bolt": 1 + number % 2})
    except OutOfStock:
        return "refused"
    return "done"


def test_threads_share_transactions_and_each_gets_its_own_answer(ledger):
    ledger.restock("delivery-1", {"bolt": 45})
    commits = Commits(ledger)

    with ThreadPoolExecutor(CALLERS) as threads:
        answers = list(threads.map(lambda number: deduct(ledger, number), range(CALLERS)))

    taken = sum(1 + number % 2 for number, answer in enumerate(answers) if answer == "done")
    # Whoever wants one is served as long as there is one.
    assert taken == 45
    assert ledger.stock("bolt").available == 0
    assert commits.count < CALLERS
    for number, answer in enumerate(answers):
        assert deduct(ledger, number) == answer
    assert ledger.audit().ok


async def test_coroutines_share_transactions(ledger):
    ledger.restock("delivery-1", {"bolt": 1_000})
    ledger.prepare()
    commits = Commits(ledger)

    made = await asyncio.gather(
        *(ledger.adeduct(f"order-{number}", {"bolt": 2}) for number in range(CALLERS))
    )

    assert [each.id for each in made] == [f"order-{number}" for number in range(CALLERS)]
    assert ledger.stock("bolt").available == 1_000 - 2 * CALLERS
    assert commits.count <= 3


async def test_one_id_asked_for_many_times_at_once_has_one_effect(ledger):
    ledger.restock("delivery-1", {"bolt": 1_000})

    made = await asyncio.gather(*(ledger.adeduct("order", {"bolt": 2}) for _ in range(20)))
    answers = await asyncio.gather(
        *(ledger.adeduct("other", {"bolt": n}) for n in (1, 2, 3)), return_exceptions=True
    )

    assert Counter(each.replayed for each in made) == {False: 1, True: 19}
    assert Counter(isinstance(each, IdConflict) for each in answers) == {True: 2, False: 1}
    assert ledger.audit().ok


async def test_a_story_in_one_batch_is_told_in_order(ledger):
    ledger.restock("delivery-1", {"bolt": 10})

    await asyncio.gather(
        ledger.adeduct("first", {"bolt": 1}),
        ledger.adeduct("order", {"bolt": 5}, hold="15m"),
        ledger.aconfirm("order"),
        ledger.agive_back("order", "return-1", {"bolt": 2}),
        ledger.avoid("order"),
        ledger.arestock("delivery-2", {"new": 7}),
        ledger.adeduct("next", {"new": 7}),
    )

    assert {row.sku: row.available for row in ledger.stocks()} == {"bolt": 9, "new": 0}
    assert ledger.deduction("order").lines[0].returned == 5
    assert ledger.audit().ok


def test_a_row_that_a_database_refuses_fails_alone(ledger):
    """A row that was changed by hand breaks its check; who shares its transaction does not care."""
    ledger.restock("delivery-1", {"bolt": 100, "nut": 100})
    ledger.deduct("order", {"nut": 5})
    ledger.database.write(
        lambda connection: connection.execute(
            text("update windlass_stock set deducted = 2, received = 97 where sku = 'nut'")
        )
    )

    def call(number: int) -> str:
        try:
            if number == 10:
                ledger.give_back("order", "return-1", {"nut": 5})
            else:
                ledger.deduct(f"order-{number}", {"bolt": 1})
        except (WindlassError, DBAPIError) as problem:
            return type(problem).__name__
        return "done"

    with ThreadPoolExecutor(20) as threads:
        answers = list(threads.map(call, range(20)))

    assert Counter(answers)["done"] == 19
    assert answers[10] != "done"
    assert ledger.stock("bolt").available == 81


def test_an_error_of_one_reaches_only_its_caller():
    def carry_out(requests):
        if any(request.id == "bad" for request in requests):
            raise ValueError("bad")
        return [Conflict(request.id, "") for request in requests]

    batch = GroupCommit(carry_out)

    def ask(name: str) -> str:
        try:
            return batch.submit(Deduct(name, {"bolt": 1})).id
        except ValueError as problem:
            return f"error {problem}"

    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(ask, ["a", "b", "bad", "c", "d", "bad", "e"]))

    assert answers == ["a", "b", "error bad", "c", "d", "error bad", "e"]
    batch.close()


async def test_a_caller_that_is_cancelled_does_not_hurt_the_others(ledger):
    ledger.restock("delivery-1", {"bolt": 10})
    ledger.prepare()
    impatient = asyncio.ensure_future(ledger.adeduct("order-1", {"bolt": 1}))
    patient = asyncio.ensure_future(ledger.adeduct("order-2", {"bolt": 1}))

    await asyncio.sleep(0)
    impatient.cancel()

    assert (await patient).id == "order-2"
    with pytest.raises(asyncio.CancelledError):
        await impatient
    assert ledger.audit().ok


class Gate:
    """Answers requests when it is opened; the first time, or always, it does something else."""

    def __init__(self, problem: BaseException | None = None) -> None:
        self.problem = problem
        self.entered, self.opened = threading.Event(), threading.Event()
        self.carried: list[list[str]] = []

    def carry_out(self, requests):
        self.carried.append([request.id for request in requests])
        self.entered.set()
        self.opened.wait(10)
        if self.problem is not None:
            problem, self.problem = self.problem, None
            raise problem
        return [Conflict(request.id, "") for request in requests]


def told(batch: GroupCommit, name: str) -> str:
    try:
        return batch.submit(Deduct(name, {"bolt": 1})).id
    except (KeyboardInterrupt, WindlassError) as problem:
        return type(problem).__name__


def crowded(batch: GroupCommit, gate: Gate, threads: ThreadPoolExecutor):
    """One who leads, and three who wait meanwhile."""
    first = threads.submit(told, batch, "first")
    assert gate.entered.wait(10)
    others = [threads.submit(told, batch, name) for name in ("a", "b", "c")]
    eventually(lambda: len(batch._waiting) == 3)
    gate.opened.set()
    return first, others


def test_a_caller_that_is_interrupted_leaves_the_others_their_answers():
    gate = Gate(KeyboardInterrupt())
    batch = GroupCommit(gate.carry_out)

    with ThreadPoolExecutor(4) as threads:
        first, others = crowded(batch, gate, threads)

        assert first.result(10) == "KeyboardInterrupt"
        assert [other.result(10) for other in others] == ["a", "b", "c"]
    assert told(batch, "next") == "next"
    batch.close()


def test_those_who_shared_the_transaction_of_one_that_is_interrupted_go_with_the_next():
    gate = Gate(KeyboardInterrupt())
    gate.opened.set()
    batch = GroupCommit(gate.carry_out)
    crowd = [Pending(Deduct(name, {"bolt": 1}), Future()) for name in ("first", "second")]

    with pytest.raises(KeyboardInterrupt):
        batch._run(crowd)
    batch._leader = crowd[0]
    batch._resign(crowd[0])

    assert crowd[1].answer.result(10).id == "second"
    assert gate.carried == [["first", "second"], ["second"]]
    batch.close()


def test_an_outage_is_told_to_all_at_once_and_not_tried_for_each():
    gate = Gate(DatabaseUnavailable("it is away"))
    gate.opened.set()
    batch = GroupCommit(gate.carry_out)
    crowd = [Pending(Deduct(name, {"bolt": 1}), Future()) for name in ("a", "b", "c")]

    batch._run(crowd)

    assert {type(pending.answer.exception(10)) for pending in crowd} == {DatabaseUnavailable}
    assert gate.carried == [["a", "b", "c"]]


async def test_a_loop_that_is_closed_leaves_the_others_their_answers(ledger):
    ledger.restock("delivery-1", {"bolt": 10})
    gate = threading.Event()
    carry_out = ledger._group._execute

    def slowly(requests):
        gate.wait(10)
        return carry_out(requests)

    ledger._group._execute = slowly

    async def leave() -> None:
        left = asyncio.ensure_future(ledger.adeduct("order-1", {"bolt": 1}))
        await asyncio.sleep(0)
        assert not left.done()

    await asyncio.to_thread(asyncio.run, leave())
    patient = asyncio.ensure_future(ledger.adeduct("order-2", {"bolt": 1}))
    await asyncio.sleep(0)
    gate.set()

    assert (await patient).id == "order-2"
