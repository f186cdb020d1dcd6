"""`windlass demo`, for real: every face moves, what dies comes back, and nothing is left behind."""

import os
import signal

import pytest
from sqlalchemy import create_engine, inspect

from tests.demo import PATIENCE, Demo, demo
from tests.wait import eventually
from windlass.database.database import normalise

pytestmark = pytest.mark.mostly("sqlite")


# In passing, `tests/browser` sees the same through the console.
@pytest.mark.slow
def test_every_face_moves_and_nothing_is_left_behind(tmp_path, database_engine, empty_database_url):
    on_server = database_engine != "sqlite"
    with demo(tmp_path, *(["--database", empty_database_url] if on_server else [])) as shop:
        for face, moves in FACES.items():
            eventually(lambda moves=moves: moves(shop), PATIENCE, what=face, poll=0.3)
        pids = {move["pid"] for move in shop.ring()["moves"]}
        shop.process.send_signal(signal.SIGINT)
        code = shop.process.wait(30)

    assert code == 0, shop.lines
    assert "Traceback" not in "".join(shop.lines)
    assert len(pids) >= 3
    assert not [pid for pid in pids if _is_there(pid)]
    assert [path.name for path in tmp_path.rglob("*")] == ["tmp"]
    if on_server:
        assert _tables(empty_database_url) == []


@pytest.mark.slow
def test_it_ends_by_itself_when_its_time_is_over(tmp_path, database_engine):
    if database_engine != "sqlite":
        pytest.skip("the same on every database")

    with demo(tmp_path, "--seconds", "1") as shop:
        code = shop.process.wait(60)

    assert code == 0
    eventually(lambda: "everything was removed" in shop.lines[-1], what="the last line")
    assert [path.name for path in tmp_path.rglob("*")] == ["tmp"]


def test_a_database_that_is_not_empty_is_left_alone(tmp_path, database_engine, database_url):
    before = _tables(database_url)

    with demo(tmp_path, "--database", database_url) as shop:
        code = shop.process.wait(60)

    assert code == 1
    said = "exists already" if database_engine == "sqlite" else "is not empty"
    eventually(lambda: said in "".join(shop.lines), what="the reason")
    assert _tables(database_url) == before


def _rolls(shop: Demo) -> bool:
    fresh = {each["kind"]: each for each in shop.get("rolling")}
    item = shop.get("rolling/bestseller/items?limit=1")["items"][0]
    return fresh["stock_level"]["actual_rate"] > 0 and item["finished_at"] is not None


def _sweeps(shop: Demo) -> bool:
    return shop.get("sweeps/offer")["done"] > 0


def _deducts(shop: Demo) -> bool:
    return len(shop.get("deductions?prefix=order-")["items"]) >= 3


def _cancels(shop: Demo) -> bool:
    """A cancelled order has given its stock back, and its flow has ended."""
    ended = shop.get("flows?flow=cancel_order&status=succeeded")["items"]
    return bool(ended) and bool(shop.get("returns")["items"])


def _imports(shop: Demo) -> bool:
    runs = shop.get("control?name=import-prices")["items"]
    return any(run["status"] == "succeeded" and len(run["steps"]) == 4 for run in runs)


def _prints(shop: Demo) -> bool:
    return bool(shop.get("flows?flow=print_catalogue&status=succeeded")["items"])


def _dies_and_comes_back(shop: Demo) -> bool:
    """Somebody was found dead, and two are there again."""
    ring = shop.ring()
    died = [move for move in ring["moves"] if move["what"] == "left"]
    alive = {member["pid"] for member in ring["members"] if member["is_alive"]}
    return bool(died) and len(alive) == 2


def _breaks_and_heals(shop: Demo) -> bool:
    seen = {(alert["kind"], alert["what"]) for alert in shop.get("alerts")["items"]}
    return seen >= {("stock_level", "breaker opened"), ("stock_level", "breaker closed")}


def _closes(shop: Demo) -> bool:
    """The switch of the mails has been off: who did it is noted."""
    return "the switch of send_mail is on again" in "".join(shop.lines)


FACES = {
    "a product that was visited": _rolls,
    "an article that was swept": _sweeps,
    "stock that was deducted": _deducts,
    "an order that was cancelled by a flow": _cancels,
    "an import with all its steps": _imports,
    "a breaker that opened and healed": _breaks_and_heals,
    "a worker that died and came back": _dies_and_comes_back,
    "a switch that was closed for a while": _closes,
    "a catalogue that was printed elsewhere": _prints,
}


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _tables(url: str) -> list[str]:
    engine = create_engine(normalise(url))
    try:
        found = inspect(engine)
        return sorted([*found.get_table_names(), *found.get_view_names()])
    finally:
        engine.dispose()
