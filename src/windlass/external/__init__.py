"""External systems: tasks that another system executes, and two systems that are ready to use."""

from typing import TYPE_CHECKING

from windlass.lazy import attributes_of

if TYPE_CHECKING:
    from windlass.external.system.http import HttpJob
    from windlass.external.system.process import Command

__all__ = ["Command", "HttpJob"]

__getattr__ = attributes_of(
    __name__,
    {
        "windlass.external.system.http": ("HttpJob",),
        "windlass.external.system.process": ("Command",),
    },
)
