"""The console and its API over HTTP.

    console = windlass.web.create(app, secret="...")

Serve the console alone, or mount it under any path of another application.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from windlass.errors import WindlassError

if TYPE_CHECKING:
    from windlass.web.proxy import Proxy
    from windlass.web.site import create

__all__ = ["Proxy", "create"]


def __getattr__(name: str) -> object:
    """Imported when it is used: callbacks work without the packages of the console."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from windlass.web.proxy import Proxy
        from windlass.web.site import create
    except ModuleNotFoundError as problem:
        if problem.name not in ("fastapi", "starlette", "pydantic"):
            raise
        raise WindlassError(
            f"the console needs {problem.name}, which is not installed; "
            "run: pip install fastapi uvicorn"
        ) from None
    return create if name == "create" else Proxy
