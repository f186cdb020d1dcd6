"""Fixtures that give every test a clean database of each kind.

`database_url` runs its test once per engine; `pytest --database sqlite,postgresql`
restricts the engines, and the marker `mostly` leaves some to the slow tests, as `often_on`
does for what is not about SQL. Servers start on first use and end with the run.
"""

import gc
import os
import signal
from collections.abc import Collection, Generator, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar
from zlib import crc32

import pytest
from hypothesis import settings

from tests.fixture.coordinator import KINDS, Coordinators
from tests.fixture.database import ENGINES, SERVERS, Pools, chosen_engines, pool_of
from tests.fixture.statement import compile_once
from tests.fixture.worker import end_guard, watch_workers
from tests.server import Etcd, ZooKeeper
from tests.server.process import WHICH

pytest_plugins = [
    "tests.fixture.app",
    "tests.fixture.broker",
    "tests.fixture.command",
    "tests.fixture.console",
    "tests.fixture.trace",
]

T = TypeVar("T")

ROOT = Path(__file__).parent
POOLS = pytest.StashKey[Pools]()
# MariaDB and MySQL are much alike: what is not about their SQL runs on one of them, by turns.
ALIKE = ("mariadb", "mysql")
TURNS = tuple(("sqlite", server) for server in SERVERS)
ALONE = [("sqlite",)] * len(TURNS)
MOST = tuple(("sqlite", "postgresql", one) for one in ALIKE)
ALL, HALF, QUARTER = TURNS, (*TURNS, *ALONE), (*TURNS, *ALONE * 3)
EIGHTH = (*TURNS, *ALONE * 7)
# By turns: on which databases the tests below a folder run often. The innermost folder decides;
# tests of other folders run on SQLite, PostgreSQL, and MariaDB or MySQL.
OFTEN_ON = {
    "store": (ENGINES,),
    **dict.fromkeys(("fault", "story", "migration", "testing"), ALL),
    "ledger": HALF,
    "core": QUARTER,
    **dict.fromkeys(("operate", "watch", "cli", "web"), EIGHTH),
    **dict.fromkeys(("rolling", "control", "sweep", "flow", "external", "queue"), EIGHTH),
}

# How long an example takes is the machine's affair.
settings.register_profile("windlass", deadline=None)
settings.load_profile("windlass")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--database",
        default=",".join(ENGINES),
        metavar="NAMES",
        help=f"the databases to test on, from {','.join(ENGINES)} (default: all)",
    )


def pytest_configure(config: pytest.Config) -> None:
    # Under nohup, or in the background of a script, the processes of tests would ignore these.
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    compile_once()
    watch_workers()
    for engine in chosen_engines(config):
        if engine not in ENGINES:
            raise pytest.UsageError(
                f"--database: unknown database {engine!r}; choose from {', '.join(ENGINES)}"
            )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    config = metafunc.config
    chosen = chosen_engines(config)
    if "database_engine" in metafunc.fixturenames:
        often = often_on(metafunc.definition)
        metafunc.parametrize("database_engine", by_turns(chosen, often, config))
    if "server_engine" in metafunc.fixturenames:
        servers = [engine for engine in chosen if engine in SERVERS]
        often = servers_often(metafunc.definition)
        metafunc.parametrize("server_engine", by_turns(servers, often, config))


def by_turns(engines: Collection[str], often: Collection[str], config: pytest.Config) -> list[Any]:
    """The engines as parameters; a test is a slow one on those that are not meant `often`.

    Thousands of slow ones are not made at all where they would be left out.
    """
    now = [each for each in engines if each in often]
    if now and config.option.markexpr == "not slow":
        return now
    slow = pytest.mark.slow
    return [each if each in often else pytest.param(each, marks=slow) for each in engines]


def often_on(test: pytest.Item) -> Collection[str]:
    """The databases on which a test is not a slow one.

    What is about the engine and not about its SQL runs on SQLite, and all, half, a quarter or an
    eighth of it on one of the servers, by turns. The slow run has all of it on all of them.
    """
    if test.get_closest_marker("everywhere"):
        return "sqlite", "postgresql", turn_of(test, ALIKE)
    mostly = test.get_closest_marker("mostly")
    if mostly is not None:
        return [turn_of(test, ALIKE) if each in ALIKE else each for each in mostly.args]
    folders = test.path.relative_to(ROOT).parent.parts
    known = [OFTEN_ON[folder] for folder in folders if folder in OFTEN_ON]
    return turn_of(test, known[-1] if known else MOST)


def servers_often(test: pytest.Item) -> Collection[str]:
    """The servers on which a test of servers alone is not a slow one."""
    mostly = test.get_closest_marker("mostly")
    if test.get_closest_marker("everywhere") or mostly is not None:
        return often_on(test)
    return "postgresql", turn_of(test, ALIKE)


def turn_of(test: pytest.Item, turns: Sequence[T]) -> T:
    """Whose turn it is: always the same for one test."""
    return turns[crc32(test.name.encode()) % len(turns)]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave some pairs to the slow run, and put first what waits for processes to die.

    Workers of pytest take their tests from the front of a share each and help each other from
    the back. So these run one at a time, beside tests that compute, and none is left for the end.
    A run about other servers than usual has only tests that use a server.
    """
    if os.environ.get(WHICH):
        left = [item for item in items if "pools" not in getattr(item, "fixturenames", ())]
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if item not in set(left)]
    for item in items:
        if not is_turn_of_broker(item):
            item.add_marker("slow")
    items.sort(key=lambda item: "fault" not in item.path.relative_to(ROOT).parts)


def is_turn_of_broker(item: pytest.Item) -> bool:
    """Whether a test with each broker and several databases often runs on this pair of them.

    One of the brokers is tested with SQLite, the other one with servers, by turns.
    """
    params = item.callspec.params if hasattr(item, "callspec") else {}
    if not {"any_broker", "database_engine"} <= params.keys():
        return True
    with_sqlite = ("rabbitmq", "redis")[crc32(item.originalname.encode()) % 2]
    return (params["any_broker"] == with_sqlite) == (params["database_engine"] == "sqlite")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    """After a test that failed, the next one gets new databases."""
    report = yield
    pools = item.config.stash.get(POOLS, None)
    if pools is not None and call.when != "teardown":
        pools.doubt(report.failed)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Any:
    """Let no test begin with a guard that another one left."""
    try:
        return (yield)
    finally:
        end_guard()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is there then stays: look for garbage among what tests make, and less often."""
    gc.disable()
    result = yield
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)
    gc.enable()
    return result


def pytest_sessionfinish() -> None:
    """What is there now was looked at: pytest would do so five times more."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> Iterator[None]:
    yield
    pools = config.stash.get(POOLS, None)
    if pools is not None and pools.missing:
        reasons = "; ".join(f"{engine} ({reason})" for engine, reason in pools.missing.items())
        terminalreporter.write_line(f"!!! NOT TESTED: {reasons}", red=True, bold=True)


@pytest.fixture(scope="session")
def pools(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Iterator[Pools]:
    pools = Pools(tmp_path_factory.mktemp("sqlite"))
    pytestconfig.stash[POOLS] = pools
    yield pools
    pools.close()


@pytest.fixture
def database_url(database_engine: str, pools: Pools, pytestconfig: pytest.Config) -> Iterator[str]:
    """A migrated database without a task, once per engine."""
    with pool_of(database_engine, pools, pytestconfig).migrated() as url:
        yield url


@pytest.fixture
def second_database_url(
    database_engine: str, pools: Pools, pytestconfig: pytest.Config
) -> Iterator[str]:
    """Another database like `database_url`, of the same engine: a second shard."""
    with pool_of(database_engine, pools, pytestconfig).migrated() as url:
        yield url


@pytest.fixture
def empty_database_url(
    database_engine: str, pools: Pools, pytestconfig: pytest.Config
) -> Iterator[str]:
    """A database without any table, once per engine."""
    with pool_of(database_engine, pools, pytestconfig).empty() as url:
        yield url


@pytest.fixture
def sqlite_url(pools: Pools, pytestconfig: pytest.Config) -> Iterator[str]:
    """A migrated SQLite database without a task."""
    with pool_of("sqlite", pools, pytestconfig).migrated() as url:
        yield url


@pytest.fixture
def second_sqlite_url(pools: Pools, pytestconfig: pytest.Config) -> Iterator[str]:
    """Another database like `sqlite_url`: a second shard."""
    with pool_of("sqlite", pools, pytestconfig).migrated() as url:
        yield url


@pytest.fixture
def postgresql_url(pools: Pools, pytestconfig: pytest.Config) -> Iterator[str]:
    """A migrated PostgreSQL database without a task."""
    with pool_of("postgresql", pools, pytestconfig).migrated() as url:
        yield url


@pytest.fixture
def mariadb_url(pools: Pools, pytestconfig: pytest.Config) -> Iterator[str]:
    """A migrated MariaDB database without a task."""
    with pool_of("mariadb", pools, pytestconfig).migrated() as url:
        yield url


@pytest.fixture
def mysql_url(pools: Pools, pytestconfig: pytest.Config) -> Iterator[str]:
    """A migrated MySQL database without a task."""
    with pool_of("mysql", pools, pytestconfig).migrated() as url:
        yield url


@pytest.fixture
def server_url(server_engine: str, pools: Pools, pytestconfig: pytest.Config) -> Iterator[str]:
    """A migrated database without a task, once per server: two transactions can be open at once."""
    with pool_of(server_engine, pools, pytestconfig).migrated() as url:
        yield url


@pytest.fixture(scope="session")
def coordinators(pools: Pools) -> Iterator[Coordinators]:
    coordinators = Coordinators(pools.missing)
    yield coordinators
    coordinators.close()


@pytest.fixture
def etcd(coordinators: Coordinators) -> Etcd:
    """A running etcd that the test may kill; its keys are those of all tests."""
    return coordinators.of("etcd")


@pytest.fixture
def zookeeper(coordinators: Coordinators) -> ZooKeeper:
    """A running ZooKeeper that the test may kill; its nodes are those of all tests."""
    return coordinators.of("zookeeper")


@pytest.fixture(params=KINDS)
def coordinator(request: pytest.FixtureRequest, coordinators: Coordinators) -> Etcd | ZooKeeper:
    """Each of the two in turn."""
    return coordinators.of(request.param)
