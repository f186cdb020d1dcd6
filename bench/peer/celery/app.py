"""The no-op task as a Celery worker loads it."""

from __future__ import annotations

from celery import Celery

from bench.contract import url
from bench.tally import Tally

app = Celery("bench", broker=url())
app.conf.update(
    task_ignore_result=True,
    worker_prefetch_multiplier=1000,
    worker_send_task_events=False,
    broker_connection_retry_on_startup=True,
)
ran = Tally()


@app.task(name="noop")
def noop(number: int) -> None:
    ran()
