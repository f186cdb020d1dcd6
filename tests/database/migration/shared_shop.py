"""A shop whose workers and producers are of two releases at once.

    python -m shared_shop BEGIN END    adds work of several faces

Each handler writes the release that ran it into the file. It uses only what every release since
0.1.0 has.
"""

import os
import sys
import time
from pathlib import Path

from windlass import App, Keys, __version__

app = App(os.environ["SHOP_URL"])
effects = Path(os.environ["SHOP_EFFECTS"])


def tell(kind: str, key: object) -> None:
    line = f"{__version__} {kind} {key}\n".encode()
    file = os.open(effects, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, line)
    os.close(file)
    # Long enough that two workers get their share.
    time.sleep(0.01)


@app.task
def order(number: int) -> None:
    tell("order", number)


@app.task(keep="1d")
def invoice(number: int) -> int:
    tell("invoice", number)
    return number


@app.rolling(every="30d")
def product(code: str) -> None:
    tell("product", code)


@app.sweep(Keys(1, 60), ranges=6)
def offer(key: int) -> None:
    tell("offer", key)


@app.task
def pack(number: int, part: str) -> None:
    tell("pack", f"{number}-{part}")


@app.flow
def ship(flow, number: int):
    box = flow.add(pack, number, "box")
    flow.add(pack, number, "label", after=[box])


def add(begin: int, end: int) -> None:
    numbers = range(begin, end)
    order.enqueue_many([{"number": number} for number in numbers])
    # They are due at once either way. Release 0.1.0 hurried new items, by another transaction, even
    # if a worker had just visited them: then they were visited twice.
    product.add([f"p{number}" for number in numbers], now=__version__ != "0.1.0")
    for number in numbers[:10]:
        invoice.using(key=str(number)).enqueue(number)
        ship.start(number)
    app.close()


def trace() -> None:
    """Set a tracer provider: what is enqueued from now on carries a context."""
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import set_tracer_provider

    set_tracer_provider(TracerProvider())


if __name__ == "__main__":
    if "SHOP_TRACES" in os.environ:
        trace()
    add(int(sys.argv[1]), int(sys.argv[2]))
