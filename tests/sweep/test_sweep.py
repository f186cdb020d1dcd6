"""Sweeps: every row of a source is handed to the handler, in ranges, round after round."""

import asyncio
import threading
from collections import Counter
from contextlib import closing
from datetime import timedelta

import pytest
from sqlalchemy import select
from sqlalchemy.exc import OperationalError

from tests.rolling.stock import serving
from tests.sweep.offer import Articles, declare
from tests.wait import eventually
from windlass import (
    App,
    BadDeclaration,
    BadInput,
    BadSource,
    DuplicateKind,
    Keys,
    Lines,
    Status,
    Table,
    context,
)
from windlass.database.schema import stat, sweep
from windlass.sweep.store import range as ranges

# What differs between the databases is proven by the protocol's tests, on all three.
pytestmark = pytest.mark.mostly("sqlite")
everywhere = pytest.mark.everywhere


@pytest.fixture
def seen():
    return []


@pytest.fixture
def offer(app, seen):
    return declare(app, seen)


@pytest.fixture
def articles(database_url):
    with closing(Articles(database_url, 50)) as articles:
        yield articles


@everywhere
def test_every_item_is_handled_once_and_the_round_ends(app, offer, seen):
    app.drain()

    assert sorted(seen) == list(range(1, 101))
    progress = offer.progress()
    assert (progress.round, progress.is_running, progress.percent) == (1, False, 100.0)
    assert (progress.done, progress.failed, progress.repeated, progress.total) == (100, 0, 0, 100)
    assert offer.audit().ok
    assert [each.status for each in offer.ranges()] == [Status.SUCCEEDED] * 4


@everywhere
def test_a_round_is_kept_as_history(app, offer, clock):
    app.drain()

    (round_,) = offer.rounds()
    assert (round_.round, round_.done, round_.failed, round_.ranges) == (1, 100, 0, 4)
    assert round_.ended_at >= round_.started_at
    assert round_.rate > 0


def test_a_sweep_without_redo_stops_after_one_round_and_start_begins_another(app, offer, seen):
    app.drain()
    app.drain()
    assert len(seen) == 100

    assert offer.start() == 2
    assert [each.status for each in offer.ranges()] == [Status.WAITING] * 4
    assert offer.start() == 2
    app.drain()

    assert Counter(seen) == dict.fromkeys(range(1, 101), 2)
    assert [round_.round for round_ in offer.rounds()] == [2, 1]


def test_the_next_round_begins_when_redo_says(app, seen, clock):
    offer = declare(app, seen, redo="4h")
    app.drain()
    app.drain()
    assert len(seen) == 100
    assert offer.progress().next_at - offer.progress().ended_at == timedelta(hours=4)

    clock.forward("3h59m")
    app.drain()
    assert len(seen) == 100
    clock.forward("1m")
    app.drain()

    assert (len(seen), offer.progress().round) == (200, 2)


def test_a_drain_begins_no_second_round(app, seen):
    declare(app, seen, redo="0s")

    app.drain()
    assert len(seen) == 100
    app.drain()

    assert len(seen) == 200


def test_a_worker_goes_on_with_the_next_round_by_itself(database_url):
    app = App(database_url)
    seen = []
    offer = declare(app, seen, redo="0s", ranges=2)

    with closing(app), serving(app):
        eventually(lambda: offer.progress().round >= 2, 15.0, what="a second round")
        eventually(lambda: len(seen) >= 200, 15.0)

    assert min(Counter(seen).values()) >= 2


def test_an_empty_source_makes_a_round_that_ends_at_once_and_no_busy_loop(database_url):
    app = App(database_url)
    seen = []
    offer = declare(app, seen, source=Keys(1, 0), redo="0s")

    with closing(app), serving(app):
        eventually(offer.rounds, 10.0, what="a round")
        threading.Event().wait(1.5)
        rounds = len(offer.rounds())

    assert rounds == 1
    assert seen == []
    assert offer.audit().ok


@everywhere
def test_rows_of_a_table_come_as_mappings(app, articles, seen):
    declare(app, seen, source=Table(articles.engine.url, "article", key="id"), batch=7)

    app.drain()

    assert sorted(row["id"] for row in seen) == list(range(1, 51))
    assert seen[0].keys() == {"id", "title"}


def test_key_only_hands_the_key(app, articles, seen):
    source = Table(articles.engine.url, "article", key="id")
    declare(app, seen, source=source, key_only=True)

    app.drain()

    assert sorted(seen) == list(range(1, 51))


def test_many_hands_lists_of_up_to_batch_rows(app, articles, seen):
    source = Table(articles.engine.url, "article", key="id")
    offer = declare(app, seen, source=source, many=True, batch=10, ranges=1, key_only=True)

    app.drain()

    assert [len(rows) for rows in seen] == [10] * 5
    assert sorted(key for rows in seen for key in rows) == list(range(1, 51))
    assert offer.progress().done == 50


def test_an_async_handler_is_awaited(app):
    seen = []

    @app.sweep(Keys(1, 50), ranges=3, concurrency=5)
    async def offer(number: int) -> None:
        await asyncio.sleep(0)
        seen.append(number)

    app.drain()

    assert sorted(seen) == list(range(1, 51))


def test_no_more_run_at_once_than_the_concurrency_allows(app):
    running, most = set(), []

    @app.sweep(Keys(1, 60), ranges=4, concurrency=3)
    async def offer(number: int) -> None:
        running.add(number)
        most.append(len(running))
        await asyncio.sleep(0.001)
        running.discard(number)

    app.drain()

    assert len(most) == 60
    assert max(most) == 3


def test_a_handler_knows_where_it_is(app):
    told = []

    @app.sweep(Keys(7, 7), ranges=1)
    def offer(number: int) -> None:
        run = context()
        told.append((run.kind, run.key, run.attempt, run.fence > 0))

    app.drain()

    assert told == [("offer", "7", 1, True)]


def test_calling_the_sweep_just_calls_the_function(offer, seen):
    offer("anything")

    assert seen == ["anything"]
    assert (offer.kind, repr(offer)) == ("offer", "<sweep 'offer'>")


def test_rows_beyond_the_old_maximum_belong_to_the_last_range(app, articles):
    seen = []
    source = Table(articles.engine.url, "article", key="id")

    @app.sweep(source, ranges=3, concurrency=1, batch=5)
    def offer(row):
        if not seen:
            articles.insert(60, 61, 62)
        seen.append(row["id"])

    app.drain()

    assert sorted(seen) == [*range(1, 51), 60, 61, 62]
    assert offer.ranges()[-1].end is None


def test_a_row_inserted_into_a_range_that_is_not_yet_passed_is_seen(app, database_url):
    seen = []
    with closing(Articles(database_url)) as articles:
        articles.insert(*range(10, 1_000, 10))
        source = Table(articles.engine.url, "article", key="id", columns=["id"])

        @app.sweep(source, ranges=1, concurrency=1, batch=5)
        def offer(row):
            if row["id"] == 10:
                articles.insert(985)
            seen.append(row["id"])

        app.drain()

    assert seen == sorted([*range(10, 1_000, 10), 985])


@everywhere
def test_ranges_hold_equal_rows_although_the_keys_are_clustered(app, database_url, seen):
    with closing(Articles(database_url)) as articles:
        articles.insert(*range(1, 31), *range(10**6, 10**6 + 30), *range(10**12, 10**12 + 30))
        offer = declare(app, seen, Table(articles.engine.url, "article", key="id"), ranges=9)
        app.drain()

    assert [each.done for each in offer.ranges()] == [10] * 9


def test_lines_of_a_file_are_swept(app, tmp_path, seen):
    path = tmp_path / "codes.txt"
    path.write_text("".join(f"code-{number}\n" for number in range(200)))
    offer = declare(app, seen, source=Lines(path), batch=10)

    app.drain()

    assert sorted(seen) == sorted(f"code-{number}" for number in range(200))
    assert offer.audit().ok
    assert len(offer.ranges()) == 4


class Letters:
    """A source of one's own: the letters of a text, in its order."""

    def __init__(self, text):
        self.text = text

    def bounds(self, ranges):
        step = max(1, len(self.text) // ranges)
        return list(self.text[step - 1 : -1 : step])

    def middle(self, after, upto):
        rows = self.read(after, upto, len(self.text))
        return rows[len(rows) // 2 - 1][0] if len(rows) > 1 else None

    def read(self, after, upto, limit):
        begin = 0 if after is None else self.text.index(after) + 1
        end = len(self.text) if upto is None else self.text.index(upto) + 1
        return [(letter, letter.upper()) for letter in self.text[begin:end][:limit]]


def test_a_source_of_ones_own_needs_three_methods_and_orders_its_keys_itself(app, seen):
    offer = declare(app, seen, source=Letters("zyxabcmnopq"), ranges=3, batch=2, concurrency=1)

    app.drain()

    assert sorted(seen) == sorted("ZYXABCMNOPQ")
    assert offer.audit().ok
    assert [each.end for each in offer.ranges()] == ["x", "c", None]


def test_ranges_are_begun_from_the_end_if_that_is_asked_for(app, seen):
    declare(app, seen, order="desc", concurrency=1)

    app.drain()

    assert seen[:25] == list(range(76, 101))
    assert sorted(seen) == list(range(1, 101))


@everywhere
def test_a_worker_finds_what_is_declared_and_says_what_is_not_any_more(
    app, offer, other, clock, events
):
    app.drain()
    declared = [fields for name, fields in events if name == "sweep.declared"]
    events.clear()

    @other.task
    def something() -> None: ...

    other.drain()

    assert [fields["sweep"] for fields in declared] == ["offer"]
    assert ("sweep.stopped", {"sweep": "offer"}) in events
    assert offer.progress().why == "no longer declared"


def test_a_sweep_that_is_declared_again_goes_on(app, offer, other, seen):
    offer.start()

    @other.task
    def something() -> None: ...

    other.drain()
    assert offer.progress().why == "no longer declared"

    app.drain()

    assert sorted(seen) == list(range(1, 101))


def test_a_sweep_of_another_living_worker_is_left_alone(app, offer, other, clock):
    with serving(app):

        @other.task
        def something() -> None: ...

        other.drain()

        assert offer.progress().why != "no longer declared"


@everywhere
def test_what_a_sweep_did_is_counted(app, offer):
    app.drain()

    counted = app.database.read(
        lambda connection: connection.execute(select(stat.c.kind, stat.c.done)).all()
    )
    assert [tuple(row) for row in counted] == [("offer", 100)]


def test_the_pulse_of_a_worker_counts_items(app, offer):
    worker = app.worker(until_idle=True)

    asyncio.run(worker.run())

    assert (worker.pulse().done, worker.pulse().failed) == (100, 0)


def test_another_number_of_ranges_counts_from_the_next_round_on(app, offer, other, seen):
    offer.start()
    again = declare(other, seen, ranges=7)
    other.drain()
    assert len(again.ranges()) == 4

    again.start()

    assert len(again.ranges()) == 7


def test_tasks_and_sweeps_share_a_worker(app, offer, seen):
    done = []

    @app.task
    def work(number: int) -> None:
        done.append(number)

    for number in range(20):
        work.enqueue(number)
    app.drain()

    assert sorted(done) == list(range(20))
    assert len(seen) == 100


def test_what_items_enqueue_is_run_by_the_same_drain(app):
    done = []

    @app.task
    def work(number: int) -> None:
        done.append(number)

    @app.sweep(Keys(1, 10), ranges=2)
    def offer(number: int) -> None:
        work.enqueue(number)

    app.drain()

    assert sorted(done) == list(range(1, 11))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"ranges": 0}, "sweep: ranges=0 is not a number from 1 to 4096"),
        ({"ranges": 5_000}, "sweep: ranges=5000 is not a number from 1 to 4096"),
        ({"batch": 0}, "batch=0"),
        ({"redo": "often"}, "redo"),
        ({"order": "newest"}, "order='newest'"),
        ({"concurrency": 0}, "concurrency=0"),
        ({"rate": "fast"}, "rate"),
        ({"breaker": "never"}, "breaker"),
        ({"window": "night"}, "window"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused_by_name(app, options, words):
    with pytest.raises(BadInput, match=words):
        declare(app, [], **options)


def test_what_is_not_a_source_or_not_a_handler_is_refused(app):
    with pytest.raises(BadDeclaration, match="is not a source"):
        declare(app, [], source=[1, 2, 3])
    with pytest.raises(BadDeclaration, match="called with one argument"):

        @app.sweep(Keys(1, 2))
        def nothing() -> None: ...

    declare(app, [])
    with pytest.raises(DuplicateKind):
        declare(app, [])


def test_a_source_that_cannot_be_read_is_told_and_tried_again(app, tmp_path, seen, events):
    path = tmp_path / "codes.txt"
    offer = declare(app, seen, source=Lines(path))

    with pytest.raises(BadSource, match="No such file"):
        app.drain()

    assert "No such file" in offer.progress().error
    assert offer.progress().why.startswith("its source cannot be read")
    assert [alert.what for alert in app.alerts()] == ["source"]
    assert [name for name, _ in events].count("sweep.failed") == 1
    path.write_text("one\n")
    app.drain()
    assert seen == ["one"]
    assert offer.progress().error is None


def test_a_source_that_fails_in_the_middle_goes_on_where_it_was(database_url):
    class Shaky(Keys):
        reads = 0

        def read(self, after, upto, limit):
            self.reads += 1
            if self.reads == 3:
                raise OSError("the line is cut")
            return super().read(after, upto, limit)

    app = App(database_url)
    seen = []
    offer = declare(app, seen, source=Shaky(1, 100), batch=10, concurrency=2)

    with closing(app), serving(app):
        eventually(offer.rounds, 20.0, what="a round")

    assert sorted(seen) == list(range(1, 101))


def test_trouble_of_our_own_database_is_not_told_as_trouble_of_the_source(
    database_url, seen, monkeypatch
):
    app = App(database_url)
    offer = declare(app, seen)
    reserve, times = ranges.reserve, []

    def reserve_late(*given, **values):
        times.append(1)
        if len(times) == 1:
            raise OperationalError("update", {}, Exception("the connection is gone"))
        return reserve(*given, **values)

    monkeypatch.setattr(ranges, "reserve", reserve_late)
    with closing(app), serving(app):
        eventually(offer.rounds, 15.0, what="the end of the round")
        assert app.alerts() == []
        assert offer.progress().error is None

    assert Counter(seen) == dict.fromkeys(range(1, 101), 1)


def test_a_worker_that_stops_hands_its_ranges_on_and_nothing_runs_twice(database_url):
    app = App(database_url)
    seen = []

    @app.sweep(Keys(1, 300), ranges=3, concurrency=3)
    async def offer(number: int) -> None:
        seen.append(number)
        await asyncio.sleep(0.002)

    with closing(app):
        worker = app.worker()
        thread = threading.Thread(target=lambda: asyncio.run(worker.run()), daemon=True)
        thread.start()
        eventually(lambda: len(seen) > 50)
        worker.stop()
        thread.join(20)
        handed_back = offer.ranges()
        assert len(seen) < 300
        app.drain()

    assert {each.owner for each in handed_back} == {None}
    assert Counter(seen) == dict.fromkeys(range(1, 301), 1)
    assert offer.progress().repeated == 0


def test_the_row_of_a_sweep_names_its_source(app, offer):
    app.drain()

    named = app.database.read(lambda connection: connection.scalar(select(sweep.c.source)))
    assert named == "the numbers from 1 to 100 | Keys"


async def test_every_call_has_a_twin(app, seen):
    offer = declare(app, seen)

    assert await offer.astart() == 1
    assert await offer.asplit(5) == 5
    assert len(await offer.aranges()) == 5
    await offer.apause("sale")
    await offer.aresume()
    await app.adrain()
    assert (await offer.aprogress()).done == 100
    assert (await offer.aaudit()).ok
    assert await offer.afailures() == []
    assert await offer.aretry_failures() == 0
    assert len(await offer.arounds()) == 1
