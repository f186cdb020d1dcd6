"""Stock levels are looked up elsewhere: in consumers without a way to the database."""

import os
import random

import windlass
from windlass import App
from windlass.queue import Queue

app = App(os.environ.get("WINDLASS_DATABASE_URL", "sqlite:///carrier.db"))
visits = Queue(os.environ.get("BROKER_URL", "amqp://guest:guest@127.0.0.1:5672//"), "visits")


@app.rolling(every="10d", via=visits, timeout="30s", retry_after="5s", rate="700/s")
async def stock_level(code: str) -> str:
    """Runs in `windlass consumer examples.carrier.shop:app visits`, or as in consumer.mjs."""
    if random.random() < 0.02:
        raise ConnectionError("the warehouse did not answer")
    return f"{len(code)} in stock, counted by Python in attempt {windlass.context().attempt}"
