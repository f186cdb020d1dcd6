"""A real HTTP receiver of webhooks that can refuse, redirect, hang and come back."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Receiver:
    """What arrived, and how to answer next."""

    def __init__(self) -> None:
        self.bodies: list[dict] = []
        self.headers: list[dict[str, str]] = []
        self.raw: list[bytes] = []
        self.pings = 0
        self.status = 204
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    @property
    def texts(self) -> list[str]:
        return [body["data"]["text"] for body in self.bodies]

    @property
    def titles(self) -> list[str]:
        return [body["data"]["title"] for body in self.bodies]


@contextmanager
def receiving(receiver: Receiver):
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if receiver.status < 300:
                receiver.raw.append(body)
                receiver.bodies.append(json.loads(body))
                receiver.headers.append(dict(self.headers))
            self._answer()

        def do_GET(self) -> None:
            receiver.pings += 1
            self._answer()

        def _answer(self) -> None:
            self.send_response(receiver.status)
            if receiver.status // 100 == 3:
                self.send_header("Location", "http://127.0.0.1:1/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", receiver.port), Handler)
    receiver.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
