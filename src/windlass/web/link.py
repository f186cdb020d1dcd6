"""A link that logs one browser in, once: the way into a console that has no secret.

The link lives in a private folder: a random key, and a page that leads a browser to the link. The
page is removed when the link is used, and that succeeds once. So the link works once, also if
`windlass dev` has restarted the console meanwhile. A browser is started with the page and not with
the link, because every user of the machine can read the arguments of a process.
"""

from __future__ import annotations

import hmac
import html
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0;url={url}"><title>Windlass console</title>
<a href="{url}">Open the console</a></html>
"""


class Link:
    """The link whose files are in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.page = folder / "open.html"
        key = (folder / "key").read_bytes()
        self.token = hmac.digest(key, b"link", "sha256").hex()
        self.session_key = hmac.digest(key, b"session", "sha256")

    @classmethod
    @contextmanager
    def made(cls) -> Iterator[Link]:
        """A new link, until the block ends."""
        # Only this user can read a folder that mkdtemp makes.
        folder = Path(tempfile.mkdtemp(prefix="windlass-console-"))
        try:
            (folder / "key").write_bytes(secrets.token_bytes(32))
            yield cls(folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def at(self, address: str) -> str:
        """The URL of the link for a console at `address`; from now on it can be used."""
        url = f"{address}/login?token={self.token}"
        self.page.write_text(PAGE.format(url=html.escape(url, quote=True)), encoding="utf-8")
        return url

    def use(self) -> bool:
        """Whether it was not used before; it is used then."""
        try:
            self.page.unlink()
        except FileNotFoundError:
            return False
        return True
