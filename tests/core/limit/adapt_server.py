"""A real HTTP server that refuses calls above a rate, which may be changed."""

import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class LimitedServer:
    """Answers 200 up to `rate` calls a second, and 503 above that."""

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self.taken = self.refused = 0
        self._lock = threading.Lock()
        self._tokens, self._filled_at = 1.0, time.monotonic()
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                is_taken = server._take()
                self.send_response(200 if is_taken else 503)
                if not is_taken:
                    self.send_header("Retry-After", "1")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_given: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}/"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def count(self) -> tuple[int, int]:
        """How many were taken and refused since the last time."""
        with self._lock:
            found = self.taken, self.refused
            self.taken = self.refused = 0
            return found

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _take(self) -> bool:
        with self._lock:
            now = time.monotonic()
            filled = self._tokens + (now - self._filled_at) * self.rate
            self._tokens, self._filled_at = min(max(5.0, self.rate / 4), filled), now
            if self._tokens < 1:
                self.refused += 1
                return False
            self._tokens -= 1
            self.taken += 1
            return True
