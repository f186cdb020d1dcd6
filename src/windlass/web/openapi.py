"""`python -m windlass.web.openapi` prints the OpenAPI document of the console's API."""

from __future__ import annotations

import json
import secrets
import sys

from windlass.app import App
from windlass.web.site import create


def document() -> str:
    """The document; no database is needed for it."""
    site = create(App("sqlite://"), secret=secrets.token_urlsafe())
    return json.dumps(site.openapi(), indent=2) + "\n"


if __name__ == "__main__":
    sys.stdout.write(document())
