"""How long flows of nodes that do nothing take, every outcome committed.

The clock starts when the start of a run is asked for and ends when its last
node is committed, by the database's own times. A chain and the fans have one
worker, the layered graph two.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from bench.contract import end_in_order_when_told, running
from bench.scenario.crew import wait_until_settled, worker
from bench.scenario.flow_app import app, chain, fan, layered

MODULE = "bench.scenario.flow_app:app"
REPEAT = 3
WAIT_SECONDS = 120.0


def main() -> None:
    end_in_order_when_told()
    is_quick = "--quick" in sys.argv
    app.migrate()
    figures: dict[str, object] = {}
    with running([worker(MODULE)]):
        wait_until_settled(app, 1)
        fan.start(10).wait(timeout=WAIT_SECONDS)
        length = 20 if is_quick else 200
        seconds = best(chain, length)
        figures |= {f"chain_{length}_s": seconds, "hop_ms": round(1_000 * seconds / length, 2)}
        for width in (50,) if is_quick else (500, 1_000):
            figures[f"fan_{width}_s"] = best(fan, width)
    layers = 10 if is_quick else 100
    with running([worker(MODULE) for _ in range(2)]):
        wait_until_settled(app, 2)
        begin = time.monotonic()
        run = layered.start(layers, 100)
        figures["start_s"] = round(time.monotonic() - begin, 3)
        figures[f"layered_{layers * 100}_s"] = length_of(run)
    print(json.dumps(figures))


def best(flow: Any, size: int) -> float:
    """The shortest of a few runs."""
    return min(length_of(flow.start(size)) for _ in range(REPEAT))


def length_of(run: Any) -> float:
    """Seconds from the start of a run to the end of its last node."""
    run.wait(timeout=WAIT_SECONDS)
    row = app.flows.run(run.id)
    return round((row.finished_at - row.created_at) / 1e6, 3)


if __name__ == "__main__":
    main()
