"""Exit with 0 if a worker or a console in this container is alive, otherwise with 1.

`python healthy.py [URL...]`: one of the addresses must answer with 200.
"""

import sys
import urllib.request

# A worker with `--health 127.0.0.1:8485`, or the console.
ADDRESSES = ("http://127.0.0.1:8485/healthz", "http://127.0.0.1:8484/healthz")


def is_healthy(address: str) -> bool:
    """Whether it answers with 200."""
    try:
        with urllib.request.urlopen(address, timeout=3) as answer:
            return answer.status == 200
    except OSError:
        return False


if __name__ == "__main__":
    sys.exit(not any(is_healthy(address) for address in sys.argv[1:] or ADDRESSES))
