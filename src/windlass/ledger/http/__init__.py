"""The ledger over HTTP: an ASGI application to serve alone or to mount in another."""

from windlass.ledger.http.server import create

__all__ = ["create"]
