"""Settings that the processes of the demo share, passed in the environment."""

from __future__ import annotations

import os
from dataclasses import dataclass

DATABASE = "WINDLASS_DEMO_DATABASE"
SERVICE = "WINDLASS_DEMO_SERVICE"
PACE = "WINDLASS_DEMO_PACE"


@dataclass(frozen=True)
class DemoSetting:
    """The URLs of the database and of the external service."""

    database: str
    service: str

    def publish(self) -> None:
        """Pass the setting to child processes; not as arguments, a URL may have a password."""
        os.environ[DATABASE] = self.database
        os.environ[SERVICE] = self.service


def read() -> DemoSetting:
    """The setting of the demo that this process belongs to."""
    return DemoSetting(
        os.environ.get(DATABASE, "sqlite:///windlass-demo.db"),
        os.environ.get(SERVICE, "http://127.0.0.1:1"),
    )


def pace() -> float:
    """How much earlier than usual failures begin, for tests."""
    return float(os.environ.get(PACE) or 1)
