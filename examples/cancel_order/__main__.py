"""`python -m examples.cancel_order sell|cancel ORDER`."""

import sys

from examples.cancel_order.shop import cancel, sell

if __name__ == "__main__":
    verb, order = sys.argv[1:]
    if verb == "sell":
        sell(order)
        print(f"{order} is sold: windlass ledger show {order}")
    else:
        print(f"run {cancel(order)} undoes {order} as soon as a worker is there")
