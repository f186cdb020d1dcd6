"""Every statement of sweeps that runs per tick takes an index, among many ranges and failures.

The statements are caught on their way to a database with many rows, and explained there.
"""

from collections.abc import Callable

import pytest
from sqlalchemy import Connection, text

from tests.core.ring.silent import mark_dead
from tests.database.plan import MYSQL_AND_MARIADB, SERIES, analyze, scans, statements
from tests.sweep.manual_worker import SWEEP, Owner, SweepHand, begin, key, split
from windlass import App, Keys
from windlass.app import FACES
from windlass.clock import SECOND
from windlass.core.face import Site
from windlass.sweep.engine import round as rounds
from windlass.sweep.store import failed_item as sweep_failure
from windlass.sweep.store import range as ranges
from windlass.sweep.store import run as runs
from windlass.sweep.store import sweep
from windlass.sweep.store.failed_item import FailedItem

MANY = 20_000
LAST = 1_000
TABLES = {"windlass_range", "windlass_sweep_failure", "windlass_round", "windlass_visit"}

# Of 200 other sweeps: 90 of 100 ranges are done, 9 wait, 1 is with a worker.
RANGES = """
insert into windlass_range (id, sweep, round, range_begin, range_end, breakpoint, read_to, status,
                            batch, worker, done, failed, repeated, rows_estimate, per_second, lost,
                            careful)
select 10000000 + i, {sweep}, 1, {i}, {next}, {i}, {i},
    case when i % 100 < 90 then 2 when i % 100 < 99 then 0 else 1 end,
    case when i % 100 = 99 then i else null end, case when i % 100 = 99 then i else null end,
    0, 0, 0, 10, 0, 0, 0
from {series} as series
"""
FAILURES = """
insert into windlass_sweep_failure (id, sweep, key_hash, item_key, round, failed_at, tries,
                                    retry_at, error)
select 20000000 + i, {sweep}, {i}, {i}, 1, i, 1, case when i % 2 = 0 then 1 else null end, 'no'
from {series} as series
"""

ACTS: dict[str, Callable[[SweepHand], object]] = {}


def act(function: Callable[[SweepHand], object]) -> Callable[[SweepHand], object]:
    ACTS[function.__name__] = function
    return function


def owner_of(hand: SweepHand) -> Owner:
    owner = hand.claim()
    assert owner is not None
    return owner


@act
def claim_reserve_and_save(hand: SweepHand) -> object:
    owner = owner_of(hand)
    hand.reserve(owner, 10)
    owner.run(owner.todo[0])
    owner.failures = [FailedItem(hand.numbers.take()[0], key(1), "no", 1, 1)]
    return hand.save(owner)


@act
def split_and_complete(hand: SweepHand) -> object:
    owner = owner_of(hand)
    split(hand.app, owner.claimed, owner.begun + 5)
    hand.reserve(owner, 100)
    hand.reserve(owner, 100)
    for item in list(owner.todo):
        owner.run(item)
    assert hand.complete(owner).is_done
    return owner


@act
def look(hand: SweepHand) -> object:
    now = hand.app.clock.now()

    def read(connection: Connection) -> object:
        sweep.listing(connection)
        sweep.named(connection, [SWEEP, f"{SWEEP}@1"])
        sweep.has_open_runs(connection)
        runs.to_serve(connection, [SWEEP], most=16, also=[f"{SWEEP}@1"])
        ranges.free(connection)
        ranges.listing(connection, SWEEP)
        ranges.held(connection, hand.id)
        return sweep.due_retries(connection, [SWEEP], now=now)

    return hand.database.read(read)


@act
def try_again(hand: SweepHand) -> object:
    now, batch = hand.app.clock.now(), hand.numbers.take()[0]

    def work(connection: Connection) -> None:
        sweep_failure.ask_retry(connection, SWEEP, now=now)
        taken = sweep_failure.claim(
            connection, SWEEP, batch=batch, worker=hand.id, now=now, limit=100
        )
        assert taken
        failed = {each.id: "no" for each in taken}
        sweep_failure.settle(connection, batch=batch, succeeded=[], failed=failed, now=now)

    return hand.database.write_as(hand.id, work, lost=None)


@act
def fall_and_hand_back(hand: SweepHand) -> object:
    victim = SweepHand(hand.app, LAST)
    owner_of(victim)
    now = hand.app.clock.now() + 60 * SECOND
    mark_dead(hand.database, FACES, number=victim.id, now=now, why="silent")
    owner_of(hand)
    hand.database.write(lambda connection: ranges.hand_back(connection, hand.id, unless=[7]))
    return hand.leave()


@act
def discover(hand: SweepHand) -> object:
    return rounds.discover(Site.at(hand.app.fleet.shards[0], hand.app.registry))


def test_no_statement_of_sweeps_that_runs_per_tick_reads_a_whole_table(
    database_engine, database_url
):
    app = App(database_url)
    app.sweep(Keys(1, LAST), name=SWEEP, ranges=10)(handle)
    begin(app, range(100, LAST, 100), LAST)
    fill(app, database_engine)

    problems = {}
    for name, function in ACTS.items():
        hand = SweepHand(app, LAST)
        with statements(app, "range|round|sweep|sweep_failure|sweep_run|visit") as caught:
            function(hand)
        assert caught, name
        problems[name] = [
            problem
            for statement in caught
            for problem in scans(database_engine, app, statement, TABLES)
        ]
    app.close()

    assert {name: found for name, found in problems.items() if found} == {}


@pytest.mark.mostly("sqlite")
def test_a_statement_without_an_index_is_found(database_engine, database_url):
    app = App(database_url)
    begin(app, [], LAST)
    fill(app, database_engine)

    with statements(app, "range") as caught:
        app.database.read(
            lambda connection: connection.execute(
                ranges.select(ranges.range_.c.id).where(ranges.range_.c.lost_at == "7")
            ).all()
        )

    assert scans(database_engine, app, caught[0], TABLES)
    app.close()


async def handle(number: int) -> None: ...


def fill(app: App, engine: str) -> None:
    series = SERIES[engine].format(count=MANY)
    join = "concat('{}', i {} 100)" if engine in MYSQL_AND_MARIADB else "'{}' || (i {} 100)"
    part = "/" if engine not in MYSQL_AND_MARIADB else "div"
    as_text = "char" if engine in MYSQL_AND_MARIADB else "text"
    words = {
        "series": series,
        "sweep": join.format("sweep-", part),
        "i": f"cast(i as {as_text})",
        "next": f"cast(i + 1 as {as_text})",
    }

    def work(connection: Connection) -> None:
        connection.execute(text(RANGES.format(**words)))
        connection.execute(text(FAILURES.format(**words)))

    app.database.write(work)
    with app.database.engine.connect() as connection:
        alone = connection.execution_options(isolation_level="AUTOCOMMIT")
        for table in sorted(TABLES):
            alone.execute(text(f"{analyze(engine)} {table}"))
