"""The pace of programs: how many requests a token of the role producer may send.

Each token has a budget that fills up at the rate, and holds what it may send in one second. It is
counted in this process: behind a load balancer each console allows the rate by itself.
"""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict
from typing import NamedTuple

from starlette.responses import Response

from windlass.value.rate import parse_rate
from windlass.web.problem import problem

# Tokens that were not used for longest are forgotten: their budgets are full again.
MOST_CALLERS = 10_000


class Allowance(NamedTuple):
    """How many requests a caller could send at a moment."""

    left: float
    at: float


class RequestRate:
    """Lets each caller send so many requests in a second, and not more."""

    def __init__(self, rate: str) -> None:
        self.rate = rate
        self._per_second = parse_rate(rate)
        self._most = max(1.0, self._per_second)
        self._budgets: OrderedDict[str, Allowance] = OrderedDict()
        self._lock = threading.Lock()

    def wait(self, caller: str, now: float | None = None) -> float:
        """Count a request; 0 if it may pass, or in how many seconds one may."""
        now = time.monotonic() if now is None else now
        with self._lock:
            before = self._budgets.pop(caller, Allowance(self._most, now))
            gained = max(0.0, now - before.at) * self._per_second
            left = min(self._most, before.left + gained)
            passes = left >= 1
            self._budgets[caller] = Allowance(left - 1 if passes else left, now)
            if len(self._budgets) > MOST_CALLERS:
                self._budgets.popitem(last=False)
        return 0.0 if passes else (1 - left) / self._per_second

    def refusal(self, caller: str) -> Response | None:
        """The answer to a request that comes too fast; None if it may pass."""
        seconds = self.wait(caller)
        if not seconds:
            return None
        again = max(1, math.ceil(seconds))
        text = f"this token may send {self.rate}; try again in {again} s"
        return problem(429, "TooFast", text, headers={"Retry-After": str(again)})
