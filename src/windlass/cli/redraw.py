"""Redraws the screen every second, for `--watch`."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from windlass.cli.output import console
from windlass.errors import DatabaseUnavailable

REDRAW_SECONDS = 1.0


def redraw(draw: Callable[[], RenderableType], *, until: Callable[[], bool] | None = None) -> None:
    """Draw on the alternate screen until Ctrl-C, or until `until` is true; keep the last picture.

    While the database does not answer, show the error above the last picture.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    last = shown = draw()
    try:
        with Live(console=console, screen=True, auto_refresh=False) as live:
            while True:
                live.update(shown, refresh=True)
                if until is not None and until():
                    break
                time.sleep(REDRAW_SECONDS)
                try:
                    last = shown = draw()
                except DatabaseUnavailable as away:
                    shown = Group(Text(str(away), style="red"), last)
    except KeyboardInterrupt:
        pass
    console.print(last)
