"""Rows of a transaction that takes its time: they are made now, and written later."""

from windlass import App
from windlass.value.bucket import bucket_of
from windlass.value.task import NewTask


def make_rows(app: App, kind: str, count: int) -> list[NewTask]:
    """Rows as an enqueue of now makes them, not written yet."""
    assert app.fleet.single is not None
    now = app.clock.now()
    return [
        NewTask(number, kind, None, bucket_of(str(number)), 0, now + index, "{}", now + index)
        for index, number in enumerate(app.fleet.single.numbers.take(count))
    ]
