"""`python -m examples.sync.sell SELLER BEGIN END [AT_ONCE]`: sell, and say what is safe.

After each call it prints how many sales a shard has acknowledged. Killed between the commit and the
line, it is started again at the last line: then a sale is told twice, under the same id.
"""

import sys
import time

from examples.sync.shop import Sale, app, write
from windlass import DatabaseUnavailable


def sell(seller: str, begin: int, end: int, at_once: int = 1) -> None:
    """Tell the sales of a seller, some with each call."""
    for first in range(begin, end, at_once):
        sales = [
            Sale(f"{seller}-{number}", f"sku-{number % 100}", 1)
            for number in range(first, min(first + at_once, end))
        ]
        while not is_told(sales):
            time.sleep(0.2)
        print(first + len(sales), flush=True)


def is_told(sales: list[Sale]) -> bool:
    """Whether one of the shards has taken them; nobody knows if its answer is lost."""
    try:
        write.enqueue_many(sales)
    except DatabaseUnavailable as problem:
        print(str(problem).splitlines()[0], file=sys.stderr)
        return False
    return True


if __name__ == "__main__":
    sell(sys.argv[1], *map(int, sys.argv[2:]))
    app.close()
