"""`python -m examples.sync`: kill a seller and a worker, and look into the book."""

import subprocess
import sys
import time

from sqlalchemy import func, select

from examples.sync.shop import app, book, prepare, sale

SALES = 600


def main() -> None:
    """Two sellers, two workers, two kills; every sale is in the book once."""
    prepare()
    workers = [start("windlass", "worker", "examples.sync.shop:app") for _ in range(2)]
    other = seller("berlin", 0)

    killed = seller("paris", 0)
    told = read_until(killed, SALES // 3)
    killed.kill()
    killed.wait()
    print(f"a seller was killed after {told} sales, and begins again where it knows to be")
    again = seller("paris", told)

    wait_until(lambda: in_book() > SALES // 4, "the first sales are in the book")
    workers[0].kill()
    workers[0].wait()
    print("a worker was killed in the middle")

    for each in (other, again):
        each.communicate()
    wait_until(lambda: in_book() == 2 * SALES, "all sales are in the book")
    print(f"all {2 * SALES:,} sales are in the book, each once")
    workers[1].terminate()
    workers[1].wait()
    app.close()


def seller(name: str, begin: int) -> subprocess.Popen:
    return start("examples.sync.sell", name, str(begin), str(SALES), stdout=subprocess.PIPE)


def start(*command: str, stdout: int | None = None) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-m", *command], stdout=stdout, stderr=subprocess.DEVNULL, text=True
    )


def read_until(process: subprocess.Popen, wanted: int) -> int:
    """How many sales it has told by its own account, once these are `wanted`."""
    assert process.stdout is not None
    return next(int(line) for line in process.stdout if int(line) >= wanted)


def in_book() -> int:
    with book.connect() as connection:
        return connection.scalar(select(func.count()).select_from(sale)) or 0


def wait_until(is_so, what: str, seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > deadline:
            sys.exit(f"{what}: not after {seconds:g} s")
        time.sleep(0.1)


if __name__ == "__main__":
    main()
