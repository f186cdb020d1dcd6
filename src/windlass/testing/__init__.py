"""For the tests of users: an app on its own database, a clock that stands still, and what was
enqueued.

pytest finds these fixtures by itself once Windlass is installed. `windlass_app` is an empty app
until `windlass_app_source` names yours:

    @pytest.fixture
    def windlass_app_source():
        return "shop:app"

    def test_an_order_sends_a_mail(windlass_app, assert_enqueued, drain):
        take_order.enqueue("order-7", "ada@example.com")
        drain()
        assert_enqueued("send_mail", to="ada@example.com")

The rest of Windlass imports nothing from here, so that it needs no pytest.
"""

from windlass.testing.borrow import borrowed
from windlass.testing.clock import Clock
from windlass.testing.enqueued import Enqueued, enqueued
from windlass.testing.fixture import (
    assert_enqueued,
    drain,
    pytest_addoption,
    windlass_app,
    windlass_app_source,
    windlass_clock,
    windlass_databases,
    windlass_lender,
)

__all__ = [
    "Clock",
    "Enqueued",
    "assert_enqueued",
    "borrowed",
    "drain",
    "enqueued",
    "pytest_addoption",
    "windlass_app",
    "windlass_app_source",
    "windlass_clock",
    "windlass_databases",
    "windlass_lender",
]
