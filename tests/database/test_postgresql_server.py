"""PostgreSQL: which releases are too old."""

import re
import socket
from contextlib import closing, suppress
from urllib.parse import urlsplit

import pytest

from tests.server.relay import Relay
from windlass import App
from windlass.database.dialect.psycopg import refuse_old
from windlass.errors import BadDatabase


@pytest.mark.parametrize(
    ("number", "found"), [(90624, r"9\.6\.24"), (100023, r"10\.23"), (120022, r"12\.22")]
)
def test_a_release_that_is_too_old_is_refused(number, found):
    with pytest.raises(BadDatabase, match=f"PostgreSQL {found}, .* needs PostgreSQL 13 or newer"):
        refuse_old(number)


@pytest.mark.parametrize("number", [130000, 150018, 180006, 0])
def test_newer_releases_and_those_that_do_not_tell_are_taken(number):
    refuse_old(number)


class OldPostgreSQL(Relay):
    """The way to a server, on which it tells another version of itself."""

    def _pump(self, source, sink):
        with suppress(OSError):
            while block := source.recv(65_536):
                sink.sendall(TOLD.sub(rb"\g<1>12", block))
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


def test_a_server_that_is_too_old_is_refused_when_it_is_met(postgresql_url):
    with (
        OldPostgreSQL(urlsplit(postgresql_url).port) as way,
        closing(App(way.url(postgresql_url))) as app,
        pytest.raises(BadDatabase, match=r"the server is PostgreSQL 12\.\d+, .*; upgrade"),
    ):
        app.migrate()


# The server tells its settings one by one, with a zero byte after each name.
TOLD = re.compile(rb"(server_version\0)\d\d")
