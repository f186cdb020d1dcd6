"""The app of the outbox scenario: it only knows the queue that its messages go to."""

from __future__ import annotations

import os

from bench.contract import url
from windlass import App
from windlass.queue import Queue

BROKER = "BENCH_BROKER"

app = App(url())
out = Queue(os.environ[BROKER], "out")
