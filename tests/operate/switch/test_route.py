"""Pauses and windows over HTTP: kinds, groups and everything."""

from datetime import datetime, timedelta

import pytest

from windlass.clock import to_datetime

pytestmark = pytest.mark.mostly("sqlite", "postgresql")


@pytest.fixture
def sale(web_shop):
    """The shop with a kind in a group."""

    @web_shop.app.task(group="sale", window="01:00-07:00, not 2026-01-03 Asia/Shanghai")
    def price() -> None: ...

    return web_shop


def told(console):
    return {each["name"]: each for each in console.get("pauses")}


def test_everything_is_paused_and_resumed(console, sale):
    everything, _ = console.do("pause", reason="moving", until="2h")

    assert (everything["name"], everything["off"], everything["reason"]) == ("*", True, "moving")
    assert "send_mail" in everything["kinds"]
    until = datetime.fromisoformat(everything["until"])
    since = datetime.fromisoformat(everything["since"])
    assert timedelta(hours=1, minutes=59) < until - since <= timedelta(hours=2)
    switch = console.get("switches/send_mail")
    assert (switch["off"], switch["paused_by"]) == (False, ["*"])
    assert switch["held_back"].startswith("everything paused by ")

    console.do("resume")
    assert not told(console)["*"]["off"]
    assert console.get("switches/send_mail")["held_back"] is None


def test_a_group_is_paused_and_resumed_and_both_are_in_the_audit_log(console, sale):
    console.do("pause", group="sale", reason="cheap")
    assert console.get("switches/price")["paused_by"] == ["group:sale"]
    assert console.get("switches/send_mail")["paused_by"] == []

    console.do("resume", group="sale")

    assert told(console)["group:sale"]["kinds"] == ["price"]
    assert not told(console)["group:sale"]["off"]
    entries = [
        (each["action"], each["about"], each["outcome"]) for each in console.get("audit")["items"]
    ]
    assert entries[:2] == [
        ("switch.resume", "group:sale", "group sale is resumed"),
        ("switch.pause", "group:sale", "group sale is paused"),
    ]


def test_a_kind_is_paused_until_a_time(console, sale):
    paused = console.do("switches/price/pause", until="23:59 Asia/Shanghai")

    assert paused["group"] == "sale"
    assert datetime.fromisoformat(paused["until"]).strftime("%H:%M") == "15:59"


@pytest.mark.mostly("sqlite")
def test_what_cannot_be_paused_is_refused(console, sale):
    unknown = console.post("pause", group="sal")

    assert unknown.status_code == 404
    assert "group 'sal' is not known; groups: sale" in unknown.json()["detail"]
    assert console.post("pause", until="2000-01-01").status_code == 422
    assert console.post("pause", until="soon").status_code == 422
    assert console.post("pause", kind="price").status_code == 422
    assert console.post("resume", group="sal").status_code == 404
    assert not any(each["off"] for each in told(console).values())


def test_the_two_weeks_ahead_of_a_window_are_shown(console, sale):
    ahead = console.get("switches/price")["ahead"]

    today = to_datetime(sale.app.clock.now()) + timedelta(hours=8)
    assert (ahead["zone"], len(ahead["days"])) == ("Asia/Shanghai", 14)
    assert ahead["days"][0]["date"] == f"{today:%Y-%m-%d}"
    assert ahead["now"] == today.hour * 60 + today.minute
    closed = [day["date"] for day in ahead["days"] if not day["open"]]
    assert closed == (["2026-01-03"] if f"{today:%Y-%m-%d}" <= "2026-01-03" else [])
    assert ahead["days"][0]["open"] == [{"begin": 60, "end": 420}]
    assert console.get("switches/send_mail")["ahead"] is None
