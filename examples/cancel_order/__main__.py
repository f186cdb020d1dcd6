"""`python -m examples.cancel_order sell|cancel ORDER`."""

import sys

from examples.cancel_order.shop import cancel, sell

if __name__ == "__main__":
    verb, order = sys.argv[1:]
    {"sell": sell, "cancel": cancel}[verb](order)
