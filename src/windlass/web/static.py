"""The built console: its files, and its one page under every path that is not the API's.

The page gets a <base> with the path under which it is mounted, so that its addresses work there.
Browsers keep files whose names have a hash without asking again; they never keep the page.
"""

from __future__ import annotations

import html
import mimetypes
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import PurePosixPath

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response

from windlass.web.problem import problem

PAGE = "index.html"
HASHED = "assets"
KEEP = "public, max-age=31536000, immutable"
KEEP_AN_HOUR = "public, max-age=3600"
NOT_BUILT = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Windlass console</title>
<h1>The console was not built</h1>
<p>This installation has no built console. Install Windlass from a wheel, or run
<code>npm ci &amp;&amp; npm run build</code> in the folder <code>console</code>.</p>
<p>The API works: see <a href="api/openapi.json">api/openapi.json</a>.</p></html>
"""

router = APIRouter(include_in_schema=False)


def is_built() -> bool:
    """Whether the pages of the console were built."""
    return _folder().joinpath(PAGE).is_file()


@router.get("/api/{path:path}")
@router.get("/api")
def nothing() -> Response:
    """A path below /api that has no route is not a page."""
    return problem(404, "HttpError", "there is no such route; see /api/openapi.json")


@router.get("/{path:path}")
def page(path: str, request: Request) -> Response:
    """A file of the console, or its page, which knows what to show under a path."""
    found = _file(path)
    if found is not None:
        return found
    if path.startswith(f"{HASHED}/"):
        return problem(404, "HttpError", "the console has no such file; load its page again")
    base = html.escape(str(request.scope.get("root_path", "")).rstrip("/") + "/", quote=True)
    if not is_built():
        return HTMLResponse(NOT_BUILT.replace("<title>", f'<base href="{base}"><title>'), 503)
    text = _folder().joinpath(PAGE).read_text("utf-8")
    with_base = text.replace("<head>", f'<head><base href="{base}">', 1)
    return HTMLResponse(with_base, headers={"Cache-Control": "no-cache"})


def _folder() -> Traversable:
    return files("windlass.web").joinpath("static")


def _file(path: str) -> Response | None:
    """A file of the console; no path leads out of its folder."""
    parts = PurePosixPath(path).parts
    if not parts or path == PAGE or any(_is_odd(part) for part in parts):
        return None
    found = _folder().joinpath(*parts)
    if not found.is_file():
        return None
    kind = mimetypes.guess_type(path)[0] or "application/octet-stream"
    cache = KEEP if parts[0] == HASHED else KEEP_AN_HOUR
    return Response(found.read_bytes(), media_type=kind, headers={"Cache-Control": cache})


def _is_odd(part: str) -> bool:
    return part in ("", ".", "..", "/") or part.startswith(".") or "\\" in part or ":" in part
