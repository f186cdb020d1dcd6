"""The inventory system: not ours, one product at a time, slow, and sometimes it does not answer."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

BROKEN = 0.05
SLOWEST_SECONDS = 0.02


@contextmanager
def serving(seed: int = 7) -> Iterator[str]:
    """Its address, while it runs."""
    dice = random.Random(seed)

    class Inventory(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            time.sleep(dice.uniform(0, SLOWEST_SECONDS))
            is_broken = dice.random() < BROKEN
            self.send_response(503 if is_broken else 200)
            self.end_headers()
            if not is_broken:
                self.wfile.write(json.dumps({"quantity": dice.randrange(100)}).encode())

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Inventory)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
