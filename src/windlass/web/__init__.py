"""The console and its API, as an ASGI application.

    console = windlass.web.create(app, secret="...")

Serve it alone, or mount it under any path of another application.
"""

from __future__ import annotations

from windlass.errors import WindlassError

try:
    from windlass.web.site import create
except ModuleNotFoundError as problem:
    if problem.name not in ("fastapi", "starlette", "pydantic"):
        raise
    raise WindlassError(
        f"the console needs {problem.name}, which is not installed; "
        "run: pip install 'windlass[console]'"
    ) from None

__all__ = ["create"]
