"""Numbers: unique over threads and processes, and about in order."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from tests.spawn import Forked
from windlass import App
from windlass.database.database import Database, Numbers


@pytest.fixture
def database(database_url):
    with closing(App(database_url)) as app:
        app.prepare()
    database = Database(database_url)
    yield database
    database.close()


@pytest.mark.parametrize("count", [1, 63, 64, 65, 1000])
def test_as_many_numbers_come_as_were_asked_for(database, count):
    numbers = Numbers(database)

    taken = numbers.take(count) + numbers.take(count)

    assert len(taken) == len(set(taken)) == 2 * count
    assert taken == sorted(taken)
    assert min(taken) >= 1


def test_threads_never_share_a_number(database):
    shared, own = Numbers(database), [Numbers(database) for _ in range(4)]

    def take(index):
        numbers = shared if index % 2 else own[index // 2]
        return [number for size in (1, 7, 64, 130) for number in numbers.take(size)]

    with ThreadPoolExecutor(8) as threads:
        taken = [number for part in threads.map(take, range(8)) for number in part]

    assert len(taken) == len(set(taken)) == 8 * 202


@pytest.mark.mostly("postgresql", "mariadb")
def test_processes_never_share_a_number(database, database_url):
    code = (
        "from windlass.database.database import Database, Numbers\n"
        f"numbers = Numbers(Database({database_url!r}))\n"
        "print([n for size in (1, 50, 200) for n in numbers.take(size)])\n"
    )
    processes = [
        Forked([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(3)
    ]

    said = [process.communicate(timeout=60)[0] for process in processes]

    taken = [int(number) for line in said for number in line.strip("[]\n").split(", ")]
    assert len(taken) == len(set(taken)) == 3 * 251


def test_what_was_taken_in_a_transaction_that_failed_is_never_given_out_twice(database):
    numbers = Numbers(database)
    taken = []

    def work(connection):
        taken.extend(numbers.take(10, inside=connection))
        raise RuntimeError

    with pytest.raises(RuntimeError):
        database.write(work)
    after = numbers.take(10)

    if not database.dialect.numbers_join:
        assert set(taken).isdisjoint(after)
    assert len(set(after)) == 10
