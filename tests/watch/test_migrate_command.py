"""`windlass migrate`, `check` and `status`: the tables, what is pending, and the way back."""

from contextlib import closing

import pytest

from tests.database.migration.next_release import ADDS, NEXT, next_release
from windlass import App, telemetry
from windlass.app import FACES
from windlass.core.maintenance import Maintenance
from windlass.database import migrate, version
from windlass.database.database import Database
from windlass.database.migration import history

pytestmark = pytest.mark.mostly("sqlite", "postgresql")


@pytest.fixture
def today(empty_database_url):
    """Tables as today's code makes them."""
    with closing(Database(empty_database_url)) as database:
        migrate.migrate(database)
        yield database


@pytest.fixture
def shop(today, write_module, monkeypatch):
    """A shop whose code is of the next release."""
    module = write_module(
        f"from windlass import App\napp = App({today.url.render_as_string(False)!r})\n"
        "@app.task\ndef work() -> None: ...\n"
    )
    monkeypatch.setenv("WINDLASS_APP", f"{module}:app")
    return module


@pytest.fixture
def next_code(tmp_path, monkeypatch):
    """From here on the code is of the next release."""
    made = next_release(tmp_path, ADDS)
    monkeypatch.setattr(history, "FOLDER", made._folder)
    monkeypatch.setattr(version, "VERSION", NEXT)
    monkeypatch.setattr(migrate, "VERSION", NEXT)
    return made


@pytest.mark.usefixtures("shop", "next_code")
def test_the_plan_shows_what_is_pending_and_changes_nothing(windlass, today):
    shown = windlass("migrate", "--plan")
    found = windlass("migrate", "--plan", "--json").json

    assert shown.code == 0
    assert f"has version {version.OLDEST}" in shown.out or migrate.current(today) in shown.out
    assert "create index windlass_task_started on windlass_task" in shown.out
    assert "Workers can go on working meanwhile." in shown.out
    assert (found["version"], found["pending"]) == (migrate.current(today), [NEXT])
    assert {"version", "operation", "table", "blocks", "is_online", "rows", "seconds", "sql"} == {
        *found["steps"][0]
    }
    assert migrate.current(today) != NEXT
    assert "is now at version" in windlass("migrate").out
    assert "is up to date" in windlass("migrate", "--plan").out


@pytest.mark.usefixtures("shop", "next_code")
def test_check_and_status_say_what_is_pending(windlass, today):
    found = windlass("check", "--json").json
    status = windlass("status", "--json").json
    shown = windlass("status")

    if today.dialect.migrates_itself:
        assert (status["schema"], status["pending"]) == (NEXT, [])
    else:
        (warning,) = [each for each in found if each["about"] == "database"]
        assert warning["level"] == "warning"
        assert f"pending: {NEXT}" in warning["text"]
        assert (status["schema"], status["pending"]) == (migrate.current(today), [NEXT])
        assert f"{NEXT} pending: windlass migrate" in shown.out


@pytest.mark.usefixtures("shop", "next_code")
def test_going_back_asks_first_and_says_what_is_lost(windlass, today, monkeypatch):
    before = migrate.current(today)
    windlass("migrate")
    asked = []
    monkeypatch.setattr("typer.confirm", lambda question, **_: asked.append(question))

    refused = windlass("migrate", "--to", before)

    assert refused.code == 1
    assert asked == [f"Go back to {before}, and lose what these have?"]
    assert "drop table windlass_parcel" in refused.err
    assert migrate.current(today) == NEXT
    done = windlass("migrate", "--to", before, "--yes", "--json")
    assert done.json == {"database": today.name, "from": NEXT, "to": before}
    assert migrate.current(today) == before


@pytest.mark.usefixtures("shop", "next_code")
def test_a_release_names_its_tables(windlass, today):
    windlass("migrate")

    assert windlass("migrate", "--to", "0.1.0", "--yes").code == 0

    assert migrate.current(today) == version.RELEASES["0.1.0"]


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--plan", "--sql"], "give one of --plan, --to and --sql"),
        (["--to", "0.9.9", "--yes"], "version '0.9.9' is not known"),
        (["--to", "0000", "--yes"], "version '0000' is not known"),
    ],
)
def test_what_cannot_be_done_is_refused(windlass, options, said):
    answer = windlass("migrate", *options)

    assert answer.code in (1, 2)
    assert said in answer.err


def test_a_running_worker_notices_other_tables(today, next_code):
    events = []
    unsubscribe = telemetry.subscribe(events.append)
    app = App(today.url)
    numbers = app.fleet.shards[0].numbers
    maintenance = Maintenance(app.database, app.clock, FACES, numbers=numbers)
    try:
        maintenance.tick()
        assert not app.database.schema.has(NEXT)
        migrate.migrate(today, history=next_code)

        maintenance.tick()

        assert app.database.schema.has(NEXT)
        assert "schema.changed" in [event.name for event in events]
        migrate.downgrade(today, to=migrate.OLDEST, history=next_code)
        maintenance.tick()
        assert not app.database.schema.has(NEXT)
    finally:
        unsubscribe()
        app.close()
