"""`windlass promise` and `windlass plan`, run as users run them."""

from functools import partial

import pytest
from sqlalchemy import Connection

from tests.fixture.command import open_module
from tests.watch.promise.served import serve, worked
from windlass.database.schema import range_

SHOP = """
from windlass import App, Keys
from windlass.clock import ManualClock

clock = ManualClock()
app = App({url!r}, clock=clock)

@app.task(within="10m")
def send_mail(to: str) -> None: ...

@app.rolling(every="10d", rate="1/m", concurrency=50)
def stock_level(code: str) -> None: ...

@app.sweep(Keys(1, 1000), ranges=4, within="4h")
def offer(number: int) -> None: ...

@app.task
def resize(name: str) -> None: ...
"""


@pytest.fixture
def shop(database_url, write_module, monkeypatch):
    """A shop with two workers: its sweep will end too late, and its rate is too low."""
    for made in open_module(SHOP.format(url=database_url), write_module, monkeypatch):
        app, clock = made.app, made.clock
        serve(app, clock)
        serve(app, clock, number=2)
        made.stock_level.add(str(number) for number in range(30_000))
        worked(app, clock, "stock_level", a_minute=1, milliseconds=50)
        made.offer.start()
        goes = range_.update().values(status=1, per_second=0.01, saved_at=clock.now())
        app.database.write(partial(Connection.execute, statement=goes))
        yield made


@pytest.mark.mostly("sqlite")
def test_promises_are_listed_the_worst_first(windlass, shop):
    shown = windlass("promise", "list")

    assert shown.code == 0
    for text in ("send_mail", "done within 10m of its due time", "a round within 4h", "needs "):
        assert text in shown.out
    listed = windlass("promise", "list", "--json").json
    assert [(each["kind"], each["state"]) for each in listed] == [
        ("offer", "at risk"),
        ("stock_level", "at risk"),
        ("send_mail", "kept"),
    ]
    assert listed[0].keys() >= {"promise", "standing", "forecast", "cure", "breaks_at", "within"}


@pytest.mark.mostly("sqlite")
def test_one_promise_is_shown(windlass, shop):
    shown = windlass("promise", "show", "offer")
    assert (shown.code, shown.out.splitlines()[0]) == (0, "at risk  offer")
    assert "more workers" in shown.out

    assert windlass("promise", "show", "offer", "--json").json["kind"] == "offer"
    nothing = windlass("promise", "show", "resize")
    assert (nothing.code, nothing.out) == (1, "")
    assert "kind 'resize' promises nothing; declare within=" in nothing.err
    assert windlass("promise", "show", "none").code == 1


def test_a_plan_says_what_a_change_would_do_and_changes_nothing(windlass, shop):
    words = ("plan", "--workers", "+8", "--rate", "stock_level=3/m", "--ranges", "offer=40")

    found = windlass(*words, "--json").json

    (ring,) = found["rings"]
    assert (ring["workers_before"], ring["workers_after"]) == (2, 10)
    assert (ring["buckets_before"], ring["buckets_after"]) == (128, 26)
    assert 0 < ring["moving"] < 256
    kinds = {each["kind"]: each for each in found["kinds"]}
    offer, stock = kinds["offer"], kinds["stock_level"]
    assert (offer["state_before"], offer["state_after"]) == ("at risk", "kept")
    assert offer["rate_after"] == pytest.approx(5 * offer["rate_before"])
    assert offer["ends_after"] < offer["ends_before"]
    assert (stock["state_before"], stock["state_after"]) == ("at risk", "kept")
    assert stock["rate_after"] == pytest.approx(0.05)
    assert "50 ms a run" in stock["basis"]
    assert found["change"] == ["workers +8", "rate of stock_level 3/m", "ranges of offer 40"]
    assert len(found["unknown"]) == 3
    # Nothing was changed.
    again = windlass("plan", "--json").json
    assert again["rings"][0]["workers_before"] == again["rings"][0]["workers_after"] == 2
    assert {each["kind"]: each["state_after"] for each in again["kinds"]} == {
        "offer": "at risk",
        "send_mail": "kept",
        "stock_level": "at risk",
    }


@pytest.mark.mostly("sqlite")
def test_a_plan_for_people_is_a_table_with_its_basis(windlass, shop):
    shown = windlass("plan", "--workers", "-1", "--concurrency", "resize=5")

    assert shown.code == 0
    for text in ("2 -> 1", "128 -> 256", "Based on: ", "note: ", "resize"):
        assert text in shown.out


@pytest.mark.mostly("sqlite")
@pytest.mark.parametrize(
    ("words", "code", "why"),
    [
        (("--rate", "offr=300/s"), 1, "offr"),
        (("--workers", "-3"), 1, "workers: -3 of 2 leaves -1; there cannot be fewer than 0"),
        (("--workers", "many"), 2, "workers: cannot read 'many'; write +2, -1 or 4"),
        (("--rate", "offer=fast"), 2, "rate of 'offer': cannot read 'fast'"),
        (("--rate", "300/s"), 2, "rate: cannot read '300/s'; write KIND=..., as in offer=300/s"),
        (("--concurrency", "offer=0"), 2, "'0' is not a number from 1 to 1,000,000"),
        (("--ranges", "offer=5000"), 2, "from 1 to 4096"),
        (("--ranges", "resize=5"), 1, "kind 'resize' is not a sweep"),
    ],
)
def test_a_change_that_cannot_be_is_refused(windlass, shop, words, code, why):
    refused = windlass("plan", *words)

    assert (refused.code, refused.out) == (code, "")
    assert why in refused.err
