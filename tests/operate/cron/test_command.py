"""`windlass cron`."""

import pytest

pytestmark = pytest.mark.mostly("sqlite")


def test_crons_are_listed_and_shown(windlass, shop):
    shop.app.drain()

    listed = windlass("cron", "list")
    (row,) = windlass("cron", "list", "--json").json
    one = windlass("cron", "show", "nightly")

    assert "every day at 03:00 (Asia/Shanghai)" in listed.out
    assert (row["kind"], row["status"], len(row["next"])) == ("nightly", "waiting", 5)
    assert row["schedule"]["words"] == "every day at 03:00"
    assert "0 3 * * * (Asia/Shanghai)" in one.out
    assert windlass("cron", "show", "none").code == 1


def test_a_schedule_is_set_and_reset_and_both_are_in_the_audit_log(windlass, shop):
    done = windlass("cron", "set", "nightly", "--cron", "0 4 * * *", "--who", "ann")
    changed = windlass("cron", "show", "nightly", "--json").json["cron"]
    windlass("cron", "reset", "nightly")
    again = windlass("cron", "show", "nightly", "--json").json["cron"]

    assert "nightly runs by 0 4 * * * Asia/Shanghai; next in" in done.out
    assert (changed["schedule"]["cron"], changed["changed"]["who"]) == ("0 4 * * *", "ann")
    assert again["changed"] is None
    reset, set_ = windlass("audit", "--json").json[:2]
    assert (set_["who"], set_["action"], reset["action"]) == ("ann", "cron.set", "cron.reset")
    assert "0 3 * * * Asia/Shanghai" in set_["detail"]["old"]
    assert "0 4 * * * Asia/Shanghai" in set_["detail"]["new"]


def test_a_cron_runs_now(windlass, shop):
    number = windlass("cron", "run", "nightly", "--json").json["id"]

    assert windlass("task", "show", str(number), "--json").json["kind"] == "nightly"


def test_bad_schedules_are_usage_errors(windlass, shop):
    assert windlass("cron", "set", "nightly").code == 2
    assert windlass("cron", "set", "nightly", "--cron", "soon").code == 2
    bad = windlass("cron", "set", "nightly", "--every", "1h", "--tz", "Asia/Shanghai")
    assert (bad.code, "leave it out" in bad.err) == (2, True)
    assert windlass("audit", "--json").json == []
