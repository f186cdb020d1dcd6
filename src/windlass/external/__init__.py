"""External systems that are ready to use: jobs behind HTTP, and processes of this machine."""

from windlass.external.command import Command
from windlass.external.http import HttpJob

__all__ = ["Command", "HttpJob"]
