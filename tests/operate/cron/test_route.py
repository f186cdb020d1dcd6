"""Crons in the API."""

import pytest

pytestmark = pytest.mark.mostly("sqlite")


@pytest.fixture
def nightly(web_shop):
    @web_shop.app.cron("0 3 * * *", tz="Asia/Shanghai", timeout="5s")
    def nightly() -> None:
        """Write the report."""

    return nightly


def test_a_cron_is_shown_set_reset_and_run(console, nightly):
    (listed,) = console.get("crons")["items"]
    assert listed["schedule"]["words"]["code"] == "cron.daily"

    changed = console.do("crons/nightly/set", cron="30 4 * * *")["cron"]
    again = console.do("crons/nightly/reset")["cron"]
    started = console.do("crons/nightly/run")

    assert changed["schedule"]["cron"] == "30 4 * * *"
    assert (again["changed"], again["schedule"]["cron"]) == (None, "0 3 * * *")
    assert console.get(f"tasks/{started['id']}")["task"]["kind"] == "nightly"
    actions = [entry["action"] for entry in console.get("audit")["items"]]
    assert actions == ["cron.run", "cron.reset", "cron.set"]


def test_a_bad_schedule_is_refused_and_a_task_is_not_a_cron(console, nightly):
    refused = console.post("crons/nightly/set", cron="61 3 * * *")

    assert (refused.status_code, refused.json()["title"]) == (422, "BadSchedule")
    assert console.post("crons/send_mail/run").status_code == 404
