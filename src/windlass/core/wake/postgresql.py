"""Listens to PostgreSQL's notifications."""

from __future__ import annotations

from collections.abc import Callable
from selectors import EVENT_READ, DefaultSelector

from windlass.core.loop import Loop
from windlass.database.database import Database
from windlass.database.dialect.postgresql import CHANNEL
from windlass.errors import DatabaseUnavailable

LISTEN_SECONDS = 1.0


class Listener(Loop):
    """Hears the bells of other processes, on its own connection."""

    name = "listener"

    def __init__(
        self, database: Database, heard: Callable[[], None], *, me: Callable[[], int]
    ) -> None:
        super().__init__()
        self._database = database
        self._heard = heard
        self._me = me

    def tick(self) -> float:
        import psycopg

        try:
            self._listen()
        except psycopg.OperationalError as problem:
            raise DatabaseUnavailable(f"{self._database.name}: {problem}") from None
        return 0.0

    def _listen(self) -> None:
        import psycopg

        database = self._database
        renewals = database.renewals
        arguments = database.connect_arguments()
        with (
            psycopg.connect(autocommit=True, **arguments) as connection,
            DefaultSelector() as waits,
        ):
            waits.register(connection, EVENT_READ)
            connection.execute(f"listen {CHANNEL}")
            self._heard()
            # After a failover, the server of this connection says nothing new.
            while not self._stopping and renewals == database.renewals:
                # psycopg itself would wake ten times a second while it waits.
                if not waits.select(LISTEN_SECONDS):
                    continue
                for note in connection.notifies(timeout=0):
                    if note.payload != str(self._me()):
                        self._heard()
