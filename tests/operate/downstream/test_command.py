"""`windlass downstream list|show`, and `pause|resume|set` of a downstream."""

import msgspec
import pytest

from tests.fixture.command import open_module
from windlass.database.schema import adapt
from windlass.value.load.adapt import AdaptPoint

pytestmark = pytest.mark.mostly("sqlite")

STORE = """
from windlass import App

app = App({url!r})
inventory = app.downstream("inventory", rate="700/s", concurrency=50, breaker="8 in a row, 30s")
app.downstream("mail", window="08:00-18:00")
app.downstream("catalog", rate="700/s", adapt=True)

@app.task(downstream=inventory)
def look(code: str) -> None:
    if code == "broken":
        raise ConnectionError("no inventory")

@app.task(downstream=[inventory, "mail"])
def tell(code: str) -> None: ...
"""


@pytest.fixture
def store(database_url: str, write_module, monkeypatch):
    """An app with two downstreams; commands find it by $WINDLASS_APP."""
    yield from open_module(STORE.format(url=database_url), write_module, monkeypatch)


def test_the_list_has_each_downstream_with_its_limits(windlass, store):
    answer = windlass("downstream", "list", "--json")

    catalog, inventory, mail = answer.json
    assert (catalog["name"], inventory["name"], mail["name"]) == ("catalog", "inventory", "mail")
    assert inventory["holds"] == {"rate": "700/s", "concurrency": 50, "window": None}
    assert [kind["kind"] for kind in inventory["kinds"]] == ["look", "tell"]
    assert [kind["kind"] for kind in mail["kinds"]] == ["tell"]


def test_what_is_set_holds_and_what_is_declared_stays(windlass, store):
    assert windlass("set", "inventory", "--rate", "300/s", "--concurrency", "20").code == 0

    found = windlass("downstream", "show", "inventory", "--json").json

    assert found["holds"] == {"rate": "300/s", "concurrency": 20, "window": None}
    assert found["declared"] == {"rate": "700/s", "concurrency": 50, "window": None}


def test_a_rate_of_zero_is_refused_with_the_cure(windlass, store):
    answer = windlass("set", "inventory", "--rate", "0/s")

    assert answer.code == 2
    assert "downstream 'inventory': rate: '0/s' is too slow" in answer.err
    assert "or pause it" in answer.err


def test_a_pause_is_shown_with_its_reason_and_for_each_kind(windlass, store):
    windlass("pause", "inventory", "--reason", "stocktaking", "--who", "ann")

    found = windlass("downstream", "show", "inventory", "--json").json

    assert found["off"] is True
    assert "paused by ann" in found["held_back"]
    assert all("downstream inventory: paused" in kind["held_back"] for kind in found["kinds"])
    assert "stocktaking" in windlass("downstream", "list").out
    assert windlass("resume", "inventory").code == 0
    assert windlass("downstream", "show", "inventory", "--json").json["held_back"] is None


def test_people_see_limits_kinds_and_state(windlass, store):
    shown = windlass("downstream", "show", "inventory").out

    assert "rate 700/s, no window, 50 at once" in shown
    assert "look" in shown
    assert "closed, 0 errors in a row" in shown


def test_permits_are_shown_by_worker(windlass, store):
    def write(connection):
        connection.exec_driver_sql(
            "insert into windlass_worker (id, host, pid, lease_until, joined_at, kinds) "
            "values (7, 'here', 1, 9999999999999999, 0, '{\"serves\":[],\"declares\":[]}')"
        )
        connection.exec_driver_sql(
            "insert into windlass_permit (name, worker, held, wanted, seen_at) "
            "values ('inventory', 7, 12, 14, 0)"
        )

    store.app.prepare()
    store.app.database.write(write)

    found = windlass("downstream", "show", "inventory", "--json").json

    permit = {"worker": 7, "held": 12, "wanted": 14, "waits_since": None}
    assert found["permits"] == [permit]
    assert (found["permits_held"], found["permits_wanted"]) == (12, 14)
    assert "12 of 50" in windlass("downstream", "list").out


def test_how_a_downstream_adapts_is_drawn_in_small_bars(windlass, store):
    points = [
        AdaptPoint(1_000_000 * at, rate, None, served, refused, None)
        for at, rate, served, refused in [(5, 100.0, 90.0, 0.0), (10, 200.0, 180.0, 4.0)]
    ]
    values = {"name": "catalog", "since": 0, "state": "{}", "seen": "{}"}
    history = msgspec.json.encode(points).decode()
    store.app.prepare()
    store.app.database.write(
        lambda connection: connection.execute(adapt.insert().values(history=history, **values))
    )

    lines = windlass("downstream", "show", "catalog").out.splitlines()

    assert [line.split() for line in lines if "▁" in line or "█" in line] == [
        ["rate", "limit", "▅█", "100.0", "200.0", "200.0"],
        ["served/s", "▅█", "90.0", "180.0", "180.0"],
        ["refused/s", "▁█", "0.0", "4.0", "4.0"],
    ]


def test_a_downstream_that_does_not_adapt_has_no_bars(windlass, store):
    assert "adapts" not in windlass("downstream", "show", "inventory").out


def test_an_unknown_downstream_is_refused_with_the_known_ones(windlass, store):
    answer = windlass("downstream", "show", "inventry")

    assert answer.code == 1
    assert (
        "'inventry' is not a downstream of this app; declared: catalog, inventory, mail"
        in answer.err
    )


def test_an_app_without_downstreams_says_so(windlass, shop):
    answer = windlass("downstream", "list")

    assert (answer.code, "No downstream is declared" in answer.out) == (0, True)
