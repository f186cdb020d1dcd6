"""The fixtures of `windlass.testing`, on the databases of this run."""

import pytest

from windlass.testing import (
    assert_enqueued,
    drain,
    windlass_app,
    windlass_app_source,
    windlass_clock,
)

__all__ = ["assert_enqueued", "drain", "windlass_app", "windlass_app_source", "windlass_clock"]


@pytest.fixture
def windlass_databases(database_url):
    return [database_url]
