"""`python -m examples.cancel_order sell|cancel|report ORDER`."""

import sys

from examples.cancel_order.shop import cancel, report_of, sell

if __name__ == "__main__":
    verb, order = sys.argv[1:]
    if verb == "sell":
        sell(order)
        print(f"{order} is sold: windlass ledger show {order}")
    elif verb == "cancel":
        print(f"run {cancel(order)} undoes {order} as soon as a worker is there")
    else:
        for what, undone in (report_of(order) or {"report": "not yet"}).items():
            print(f"{what:8} {undone}")
