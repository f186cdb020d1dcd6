"""Alerts: somebody has seen them, who and when is told, and what is new rings again."""

from contextlib import closing
from datetime import UTC, datetime

import pytest

from tests.fixture.console import Console, opened
from windlass import App
from windlass.clock import SECOND, ManualClock
from windlass.core.alert import store as alert_store
from windlass.core.alert.model import Trouble
from windlass.core.alert.store import note, raise_alert
from windlass.watch.operate import change

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
HOUR = 3_600 * SECOND


class Tower:
    """A place where alerts are raised by hand, and the console that shows them."""

    def __init__(self, app: App, clock: ManualClock, console: Console) -> None:
        self.app = app
        self.clock = clock
        self.console = console
        self._numbers = iter(range(1, 1_000))

    def rings(self, what: str, kind: str = "send_mail") -> int:
        self.clock.advance(SECOND)
        number, now = next(self._numbers), self.clock.now()
        write = note if what == "breaker closed" else raise_alert
        problem = Trouble(what, kind, f"{what}!")
        self.app.database.write(lambda connection: write(connection, number, problem, now=now))
        found = (each for each in self.app.alerts() if (each.what, each.kind) == (what, kind))
        return next(found).id

    def open(self) -> list[int]:
        found = [each["id"] for each in self.console.get("alerts")["items"] if each["is_open"]]
        assert self.console.get("alerts/open") == {"count": len(found)}
        return found


@pytest.fixture
def tower(database_url):
    clock = ManualClock(NOON)
    with closing(App(database_url, clock=clock)) as app:
        app.prepare()
        console = opened(app)
        with console.client:
            yield Tower(app, clock, console)


def test_an_alert_that_somebody_has_seen_stays_visible_and_is_told_by_whom(tower):
    first = tower.rings("poison")
    assert tower.rings("poison") == first, "one cause has one alert"
    other = tower.rings("poison", kind="resize")

    done = tower.console.do(f"alerts/{first}/acknowledge")

    assert done["message"] == "poison of send_mail is acknowledged; a new one is told"
    assert tower.open() == [other]
    shown = {each["id"]: each for each in tower.console.get("alerts")["items"]}
    assert set(shown) == {first, other}
    assert (shown[first]["times"], shown[other]["times"]) == (2, 1)
    who = tower.console.get("session")["name"]
    assert shown[first]["seen_by"] == who
    assert shown[first]["seen_at"].startswith("2026-01-01T12:00:03")
    assert shown[other]["seen_by"] is None
    (deed,) = tower.console.get("audit")["items"]
    assert (deed["action"], deed["about"]) == ("alert.acknowledge", "poison of send_mail")


def test_what_happens_after_it_was_seen_is_told_again(tower):
    tower.console.do(f"alerts/{tower.rings('poison')}/acknowledge")

    again = tower.rings("poison")

    assert tower.open() == [again]


def test_quiet_for_an_hour_holds_for_what_comes_and_ends_by_itself(tower):
    first = tower.rings("poison")
    tower.console.do(f"alerts/{first}/acknowledge", quiet="1h")
    tower.rings("poison")
    assert tower.open() == []
    mark = change.marks(tower.app.fleet)["alerts"]

    tower.clock.advance(HOUR)

    assert tower.open() == [first]
    assert change.marks(tower.app.fleet)["alerts"] != mark, "whoever looks should see it"


def test_quiet_ends_with_the_trouble_and_a_new_one_rings(tower):
    opened = tower.rings("breaker opened")
    tower.console.do(f"alerts/{opened}/acknowledge", quiet="1h")

    tower.rings("breaker closed")
    assert tower.open() == [], "an end asks nothing of anybody"
    anew = tower.rings("breaker opened")
    assert anew != opened

    assert tower.open() == [anew]


def test_what_was_acknowledged_by_mistake_is_open_again(tower):
    number = tower.rings("poison")
    tower.console.do(f"alerts/{number}/acknowledge")
    tower.console.do(f"alerts/{number}/acknowledge", quiet="1h")

    assert tower.console.do(f"alerts/{number}/recall")["message"] == (
        "poison of send_mail is open again"
    )

    assert tower.open() == [number]


def test_what_cannot_be_acknowledged_is_said(tower):
    number = tower.rings("poison")

    assert tower.console.post("alerts/999/acknowledge").status_code == 404
    assert tower.console.post("alerts/999/recall").status_code == 404
    assert tower.console.post(f"alerts/{number}/acknowledge", quiet="soon").status_code == 422


def test_what_was_seen_long_ago_is_forgotten_with_its_alerts(tower):
    tower.console.do(f"alerts/{tower.rings('poison')}/acknowledge")

    now = tower.clock.now() + 31 * 24 * HOUR
    tower.app.database.write(lambda connection: alert_store.prune(connection, now=now))

    assert tower.console.get("alerts")["items"] == []
    with tower.app.database.engine.connect() as connection:
        left = connection.exec_driver_sql("select count(*) from windlass_acknowledgement").scalar()
    assert left == 0
