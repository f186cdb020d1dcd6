"""Items of sweeps whose other side is overloaded: tried again, and not failed."""

import pytest

from windlass import Keys, Overloaded


@pytest.mark.everywhere
def test_an_overloaded_item_is_tried_again_within_its_range(app, clock):
    calls, left = [], {7: 2, 33: 1}

    @app.sweep(Keys(1, 40), ranges=2, breaker="1 in a row, 1m")
    def offer(number: int) -> None:
        calls.append(number)
        if left.get(number):
            left[number] -= 1
            raise Overloaded("inventory is full", retry_after="0s")

    app.drain()

    assert sorted(calls) == sorted([*range(1, 41), 7, 7, 33])
    progress = offer.progress()
    assert (progress.done, progress.failed, progress.is_running) == (40, 0, False)
    assert offer.failures() == []


@pytest.mark.everywhere
def test_a_worker_that_does_not_wait_leaves_it_to_others_and_it_has_not_failed(app, clock):
    calls, is_overloaded = [], [True]

    @app.sweep(Keys(1, 4), ranges=1)
    def offer(number: int) -> None:
        calls.append(number)
        if number == 2 and is_overloaded:
            raise Overloaded(retry_after="5s")

    app.drain()
    failed = offer.progress().failed, offer.failures()
    clock.forward("5s")
    app.drain()
    again = offer.failures()
    is_overloaded.clear()
    clock.forward("5s")
    app.drain()

    assert failed == (0, [])
    assert again == []
    assert calls == [1, 2, 3, 4, 2, 2]


def test_an_item_that_fails_after_an_overload_is_listed(app, clock):
    calls = []

    @app.sweep(Keys(1, 1), ranges=1)
    def offer(number: int) -> None:
        calls.append(number)
        raise Overloaded(retry_after="5s") if len(calls) == 1 else ValueError("no offer")

    app.drain()
    clock.forward("5s")
    app.drain()

    (failed,) = offer.failures()
    assert (failed.key, failed.error, failed.tries) == (1, "ValueError: no offer", 1)
