"""Who owns how much of the ring, as the database says."""

from collections import Counter

from sqlalchemy import select

from tests.fault.crew import Crew, Process
from windlass.database.database import Database
from windlass.database.schema import bucket


def shares(crew: Crew) -> Counter[int | None]:
    """How many buckets each worker owns; those of nobody under None."""
    return shares_in(crew.jobs.app.database)


def shares_in(database: Database) -> Counter[int | None]:
    query = select(bucket.c.owner)
    return Counter(database.read(lambda connection: connection.scalars(query).all()))


def owned_by(crew: Crew, *processes: Process) -> bool:
    """Whether these processes own everything, each its even share."""
    return is_even(shares(crew), {process.workers[-1] for process in processes})


def is_even(found: Counter[int | None], workers: set[int]) -> bool:
    """Whether these workers own everything, each its even share."""
    sizes = found.values()
    return found.keys() == workers and max(sizes) - min(sizes) <= 1
