"""A process that is a member of a ring for as long as it lives.

    python -m tests.fault.ring.member URL RING WORKER

It leaves in good order when its input ends.
"""

import sys

from windlass.core.ring.member import connect

DEAD_AFTER = 1_500_000


def main() -> None:
    url, ring, worker = sys.argv[1:]
    members = connect(url, dead_after=DEAD_AFTER)
    members.join(ring, int(worker))
    sys.stdin.read()
    members.close()


if __name__ == "__main__":
    main()
