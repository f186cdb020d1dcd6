"""Rows of lanes: which columns they have, and which of them holds its lane."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from sqlalchemy import Column, ColumnElement, Connection, literal, update

from windlass.database.database import has_tables
from windlass.database.schema import task

TABLES = "0009"
COLUMNS = (task.c.lane, task.c.lane_place)

# The place of a row that holds its lane, and of one that waits in the order of due times.
HOLDING = task.c.lane_place - task.c.lane_place % 2
IN_ORDER = HOLDING + 1


def all_columns(connection: Connection) -> list[Column[Any]]:
    """All columns of the task table that the database has."""
    has_lanes = has_tables(connection, TABLES)
    return [column for column in task.c if has_lanes or column not in set(COLUMNS)]


def shown(connection: Connection, view: Collection[ColumnElement[Any]]) -> list[Any]:
    """The columns of a view, with null for the lane where rows have none."""
    if has_tables(connection, TABLES):
        return list(view)
    return [literal(None).label("lane") if each is task.c.lane else each for each in view]


def hold(connection: Connection, ids: Collection[int]) -> None:
    """Let waiting rows be the next of their lanes, before all others, and hold these until then."""
    if ids and has_tables(connection, TABLES):
        connection.execute(update(task).where(task.c.id.in_(ids)).values(lane_place=HOLDING))


def let_pass(connection: Connection, ids: Collection[int]) -> None:
    """Let waiting rows take their places in the order of due times, whatever they held before."""
    if ids and has_tables(connection, TABLES):
        connection.execute(update(task).where(task.c.id.in_(ids)).values(lane_place=IN_ORDER))


def holding(connection: Connection) -> dict[str, Any]:
    """The new value of a row that holds its lane, as one more value of an update."""
    return {"lane_place": HOLDING} if has_tables(connection, TABLES) else {}


def in_order(connection: Connection) -> dict[str, Any]:
    """The new value of a row that takes its place in the order of its lane."""
    return {"lane_place": IN_ORDER} if has_tables(connection, TABLES) else {}
