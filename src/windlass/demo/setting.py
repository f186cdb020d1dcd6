"""What the processes of the demo must agree on; it travels in the environment."""

from __future__ import annotations

import os
from dataclasses import dataclass

DATABASE = "WINDLASS_DEMO_DATABASE"
SERVICE = "WINDLASS_DEMO_SERVICE"
PACE = "WINDLASS_DEMO_PACE"


@dataclass(frozen=True)
class DemoSetting:
    """Where the tables are, and where the service of others is."""

    database: str
    service: str

    def publish(self) -> None:
        """Have this process and its children find it. A URL may hold a password: no arguments."""
        os.environ[DATABASE] = self.database
        os.environ[SERVICE] = self.service


def read() -> DemoSetting:
    """The setting of the demo that this process belongs to."""
    return DemoSetting(
        os.environ.get(DATABASE, "sqlite:///windlass-demo.db"),
        os.environ.get(SERVICE, "http://127.0.0.1:1"),
    )


def pace() -> float:
    """How much sooner than usual trouble is to begin; tests have little time."""
    return float(os.environ.get(PACE) or 1)
