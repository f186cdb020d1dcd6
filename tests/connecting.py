"""Connections as users have them: of SQLAlchemy, of its async part, and of the drivers."""

import sqlite3
from contextlib import closing, contextmanager
from urllib.parse import urlsplit

import psycopg
import pymysql
import pytest
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from windlass.database.database import normalise

WAYS = ["Connection", "Session", "scoped_session", "raw"]


def raw_connection(url):
    """A connection of the driver itself, as a user without SQLAlchemy has it."""
    if url.startswith("sqlite"):
        return sqlite3.connect(url.removeprefix("sqlite:///"))
    if url.startswith("postgresql"):
        return psycopg.connect(url)
    parts = urlsplit(url)
    return pymysql.connect(
        host=parts.hostname,
        port=parts.port,
        user=parts.username,
        password=parts.password or "",
        database=parts.path[1:],
    )


@contextmanager
def opened(way, engine, url):
    """A connection of the given kind, with what commits and what rolls back."""
    match way:
        case "Connection":
            with engine.connect() as connection:
                yield connection
        case "Session":
            with Session(engine) as session:
                yield session
        case "scoped_session":
            session = scoped_session(sessionmaker(engine))
            yield session
            session.remove()
        case "raw":
            with closing(raw_connection(url)) as connection:
                yield connection


def async_engine(url):
    """An engine of an async driver on the same database."""
    pytest.importorskip("greenlet")
    from sqlalchemy.ext.asyncio import create_async_engine

    normal = normalise(url)
    match normal.get_backend_name():
        case "sqlite":
            pytest.importorskip("aiosqlite")
            return create_async_engine(normal.set(drivername="sqlite+aiosqlite"))
        case "postgresql":
            return create_async_engine(normal)
    pytest.importorskip("aiomysql")
    # It knows the option by another name.
    bare = normal.difference_update_query(["ssl_disabled"])
    return create_async_engine(bare.set(drivername="mysql+aiomysql"))
