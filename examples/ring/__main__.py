"""`python -m examples.ring`: kill a worker in the middle, and see that nothing is lost."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter

from examples.ring.shop import app, pack

ORDERS = 200


def main() -> None:
    """Two workers, two hundred orders, one kill."""
    app.migrate()
    workers = [start_worker() for _ in range(2)]
    refs = pack.enqueue_many([{"order": number} for number in range(ORDERS)])

    wait_until(lambda: ended(refs) > ORDERS // 4, "a quarter is packed")
    victim = workers[0]
    os.kill(victim.pid, signal.SIGKILL)
    victim.wait()
    print(f"worker {victim.pid} was killed when {ended(refs)} of {ORDERS} were packed")

    began = time.monotonic()
    wait_until(lambda: ended(refs) == ORDERS, "all is packed")
    print(f"all {ORDERS} were packed {time.monotonic() - began:.1f} s later, none is missing")
    for process, parcels in Counter(ref.result() for ref in refs).items():
        name = "the killed one" if process == victim.pid else "the other"
        print(f"  {parcels:>3} by {process}, {name}")

    # SIGTERM: it lets what runs finish, hands the rest back, and leaves with 0.
    workers[1].terminate()
    print(f"the other was asked to stop and left with {workers[1].wait()}")
    app.close()


def start_worker() -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "windlass", "worker", "examples.ring.shop:app"]
    return subprocess.Popen(command, stderr=subprocess.DEVNULL)


def ended(refs: list) -> int:
    return sum(str(ref.status()) == "succeeded" for ref in refs)


def wait_until(is_so, what: str, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > deadline:
            sys.exit(f"{what}: not after {seconds:g} s")
        time.sleep(0.1)


if __name__ == "__main__":
    main()
