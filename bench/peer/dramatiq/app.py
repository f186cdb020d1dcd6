"""The no-op actor as a Dramatiq worker loads it."""

from __future__ import annotations

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from bench.contract import url
from bench.tally import Tally

broker = RedisBroker(url=url())
dramatiq.set_broker(broker)
ran = Tally()


@dramatiq.actor
def noop(number: int) -> None:
    ran()
