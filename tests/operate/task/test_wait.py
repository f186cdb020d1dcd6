"""Waiting for results over HTTP: all who wait share each look at the database."""

import asyncio
import threading

import pytest

from tests.wait import eventually
from windlass import Status, TaskNotFound
from windlass.errors import NotPossible
from windlass.operate.task import wait
from windlass.operate.task.wait import TaskWaiters


@pytest.fixture
def waiters(web_shop):
    web_shop.app.prepare()
    return TaskWaiters(web_shop.app.fleet)


def test_all_who_wait_are_answered_when_their_tasks_have_ended(waiters, web_shop, monkeypatch):
    refs = web_shop.send_mail.enqueue_many([{"to": str(number)} for number in range(50)])
    looks = []
    statuses = waiters._statuses
    monkeypatch.setattr(waiters, "_statuses", lambda ids: looks.append(len(ids)) or statuses(ids))

    async def everyone():
        waiting = [asyncio.create_task(waiters.wait(ref.id, 30)) for ref in refs]
        await asyncio.to_thread(eventually, lambda: sum(looks) >= 100, 20)
        threads = threading.active_count()
        await asyncio.to_thread(web_shop.app.drain)
        return await asyncio.gather(*waiting), threads

    ended, threads = asyncio.run(everyone())

    assert [each.result for each in ended] == [f"sent to {number}" for number in range(50)]
    assert {each.status for each in ended} == {Status.SUCCEEDED}
    assert max(looks) > 10
    assert threads < 50


def test_who_has_waited_long_enough_is_told_how_it_is(waiters, web_shop):
    ref = web_shop.send_mail.enqueue("a")

    found = asyncio.run(waiters.wait(ref.id, 0.2))

    assert (found.status, found.ended, found.result) == (Status.WAITING, False, None)


def test_a_task_that_succeeds_meanwhile_and_is_not_kept_has_succeeded(waiters, web_shop):
    ref = web_shop.odd.enqueue()

    async def both():
        waiting = asyncio.create_task(waiters.wait(ref.id, 30))
        await asyncio.sleep(0.1)
        await asyncio.to_thread(web_shop.app.drain)
        return await waiting

    found = asyncio.run(both())

    assert (found.status, found.ended, found.kind) == (Status.SUCCEEDED, True, "odd/name ü")
    with pytest.raises(TaskNotFound):
        asyncio.run(waiters.wait(ref.id, 1))


@pytest.mark.mostly("sqlite")
def test_so_many_may_wait_and_not_more(waiters, web_shop, monkeypatch):
    monkeypatch.setattr(wait, "MOST_WAITING", 0)
    ref = web_shop.send_mail.enqueue("a")

    assert asyncio.run(waiters.wait(ref.id, 0)).ended is False
    with pytest.raises(NotPossible, match="wait for results already"):
        asyncio.run(waiters.wait(ref.id, 1))
