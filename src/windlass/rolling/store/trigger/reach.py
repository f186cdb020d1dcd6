"""Whether a trigger on a table can write into our database."""

from __future__ import annotations

from sqlalchemy import URL

from windlass.source.store.dialect import file_of

PORTS = {"mysql": 3306, "postgresql": 5432}
LOCAL = {"", "localhost", "127.0.0.1", "::1"}


def is_within_reach(ours: URL, theirs: URL) -> bool:
    """Whether a statement in the database `theirs` can write into the database `ours`."""
    backend = _backend(ours)
    if backend != _backend(theirs):
        return False
    if backend == "sqlite":
        file = file_of(ours)
        return file is not None and file == file_of(theirs)
    if backend == "postgresql" and _database(ours) != _database(theirs):
        return False
    return _server(ours) == _server(theirs)


def _backend(url: URL) -> str:
    return url.get_backend_name().replace("mariadb", "mysql")


def _database(url: URL) -> str | None:
    return url.database or url.username


def _server(url: URL) -> tuple[str, int]:
    socket = url.query.get("unix_socket")
    host = str(socket or url.host or url.query.get("host") or "")
    port = url.port or int(str(url.query.get("port") or PORTS[_backend(url)]))
    return ("" if host in LOCAL else host), port
