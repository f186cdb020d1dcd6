"""A TCP relay between a client and a server, which can stall, cut and refuse."""

import contextlib
import re
import socket
import struct
import threading
from typing import Self

BLOCK = 65_536


class Relay:
    """Passes bytes both ways until it is told otherwise.

    `stall` keeps connections open and passes nothing, as a network that drops packets does.
    `cut` resets all connections; `refuse` also takes no new ones. `heal` passes bytes again.
    `lose_answer` passes what the client says, and resets the connection instead of answering.
    `lose_answer_and_refuse` does that, and then refuses until it is healed.
    """

    def __init__(self, port: int) -> None:
        self._target = ("127.0.0.1", port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._passing = threading.Event()
        self._passing.set()
        self._refusing = False
        self._to_lose: bytes | None = None
        self._refuses_after = False
        self._doomed: set[socket.socket] = set()
        self.lost = 0
        self._lock = threading.Lock()
        self._pairs: set[tuple[socket.socket, socket.socket]] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def url(self, url: str) -> str:
        """`url`, by way of this relay."""
        return re.sub(rf":{self._target[1]}(?=[/,]|$)", f":{self.port}", url)

    def stall(self) -> None:
        self._passing.clear()

    def cut(self) -> None:
        with self._lock:
            pairs, self._pairs = self._pairs, set()
        for pair in pairs:
            for end in pair:
                _reset(end)

    def refuse(self) -> None:
        self._refusing = True
        self.cut()

    def lose_answer(self, to: bytes) -> None:
        """Lose the answer to the next words of a client that contain `to`, in any case."""
        self._to_lose = to.lower()

    def lose_answer_and_refuse(self, to: bytes) -> None:
        self._refuses_after = True
        self.lose_answer(to)

    def heal(self) -> None:
        self._refusing = False
        self._passing.set()

    def close(self) -> None:
        self.refuse()
        self._listener.close()
        self._passing.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self._refusing:
                _reset(client)
                continue
            try:
                server = socket.create_connection(self._target, timeout=5)
            except OSError:
                _reset(client)
                continue
            server.settimeout(None)
            with self._lock:
                self._pairs.add((client, server))
            for ends in ((client, server), (server, client)):
                threading.Thread(target=self._pump, args=ends, daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while block := source.recv(BLOCK):
                self._passing.wait()
                if source in self._doomed:
                    if self._refuses_after:
                        self._refuses_after = False
                        self.refuse()
                    self.lost += 1
                    _reset(sink)
                    break
                if self._to_lose is not None and self._to_lose in block.lower():
                    self._to_lose = None
                    self._doomed.add(sink)
                sink.sendall(block)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


def _reset(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        # Closing alone would not wake the thread that reads from it.
        end.shutdown(socket.SHUT_RD)
        end.close()
