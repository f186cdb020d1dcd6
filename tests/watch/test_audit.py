"""The audit log: written before the deed, ended after it, and bounded."""

import pytest

from windlass.errors import DatabaseUnavailable, WindlassError
from windlass.view.action import Operator
from windlass.watch.operate import audit
from windlass.watch.store import audit as store

ADA = Operator("Ada", "api", "192.0.2.7")


def actions(app) -> list[tuple[str, bool | None, str | None]]:
    return [(deed.action, deed.ok, deed.outcome) for deed in audit.listing(app.fleet, limit=100)]


def test_a_deed_is_there_before_it_is_done(web_shop):
    with audit.AuditLog(web_shop.app.fleet, ADA).record("test.act", "x", n=1) as entry:
        assert actions(web_shop.app) == [("test.act", None, None)]
        entry.says("all is well")

    assert actions(web_shop.app) == [("test.act", True, "all is well")]
    (deed,) = audit.listing(web_shop.app.fleet, limit=1)
    assert (deed.who, deed.via, deed.address) == ("Ada", "api", "192.0.2.7")
    assert (deed.about, deed.detail) == ("x", '{"n":1}')


def test_a_deed_that_fails_says_why_and_tells_no_more_of_a_surprise_than_its_name(web_shop):
    with (
        pytest.raises(WindlassError),
        audit.AuditLog(web_shop.app.fleet, ADA).record("test.refused"),
    ):
        raise WindlassError("not today")
    with pytest.raises(KeyError), audit.AuditLog(web_shop.app.fleet, ADA).record("test.broken"):
        raise KeyError("a secret")

    assert actions(web_shop.app) == [
        ("test.broken", False, "KeyError"),
        ("test.refused", False, "not today"),
    ]


def test_nothing_is_done_of_which_nothing_can_be_written_down(web_shop, monkeypatch):
    def away(*_: object, **__: object) -> None:
        raise DatabaseUnavailable("away")

    web_shop.app.prepare()
    monkeypatch.setattr(store, "begin", away)
    done = []

    with (
        pytest.raises(DatabaseUnavailable),
        audit.AuditLog(web_shop.app.fleet, ADA).record("test.act"),
    ):
        done.append(1)

    assert done == []


def test_only_the_newest_are_kept(web_shop, monkeypatch):
    monkeypatch.setattr(store, "KEPT", 3)
    for number in range(6):
        with audit.AuditLog(web_shop.app.fleet, ADA).record(f"test.{number}"):
            pass

    web_shop.app.database.write(store.prune)

    assert [action for action, _, _ in actions(web_shop.app)] == ["test.5", "test.4", "test.3"]
