"""Commands: processes that outlive who started them, and are never started twice."""

import os
import signal
import stat
import sys
import threading
import tracemalloc

import pytest
from sqlalchemy import text

import windlass
from tests.wait import eventually
from windlass import Running, Status
from windlass.external import Command
from windlass.external.system.process import is_locked

pytestmark = pytest.mark.mostly("sqlite")


def ended(app, clock, *refs):
    def have_ended():
        clock.forward("30s")
        app.drain()
        return all(ref.status().is_final for ref in refs)

    eventually(have_ended, 30)


def test_a_command_outlives_who_started_it(app, clock, tmp_path):
    command = app.external(
        "command", Command(tmp_path / "commands", programs=[sys.executable]), every="1s"
    )
    code = "import sys, time; print('hello'); time.sleep(0.3); sys.exit(int(sys.argv[1]))"
    good = command.enqueue([sys.executable, "-c", code, "0"])
    bad = command.enqueue([sys.executable, "-c", code, "3"])
    app.drain()
    assert good.status() is Status.EXTERNAL

    ended(app, clock, good, bad)
    assert good.result(timeout=1) == {"code": 0, "output": "hello\n"}
    with pytest.raises(windlass.TaskFailed, match="exit code 3"):
        bad.result(timeout=1)


def test_a_command_whose_keeper_was_killed_runs_until_it_ends_and_not_beside_another(
    app, clock, tmp_path
):
    folder, mark, gate = tmp_path / "commands", tmp_path / "mark", tmp_path / "gate"
    command = app.external("command", Command(folder, programs=["sh"]), every="1s", retries=1)
    code = f"echo begin >> {mark}; while [ ! -e {gate} ]; do sleep 0.05; done; echo end >> {mark}"
    ref = command.enqueue(["sh", "-c", code])
    app.drain()
    eventually(lambda: mark.exists() and (folder / str(ref.id) / "pid").exists(), 30)

    os.kill(int((folder / str(ref.id) / "pid").read_text()), signal.SIGKILL)
    for _ in range(3):
        clock.forward("30s")
        app.drain()
    assert ref.status() is Status.EXTERNAL
    assert mark.read_text().split() == ["begin"]

    gate.touch()
    ended(app, clock, ref)
    assert mark.read_text().split() == ["begin", "end"] * 2


def test_a_command_that_was_cancelled_is_ended(app, clock, tmp_path):
    folder = tmp_path / "commands"
    command = app.external("command", Command(folder, programs=["sleep"]), every="1s")
    ref = command.enqueue(["sleep", "600"])
    app.drain()

    assert is_locked(folder / str(ref.id))

    ref.cancel()

    def is_over():
        clock.forward("1m")
        app.drain()
        return not is_locked(folder / str(ref.id))

    eventually(is_over, 30)


def test_a_command_without_a_program_is_refused_when_it_is_enqueued(app, tmp_path):
    command = app.external("command", Command(tmp_path, programs=["true"]))

    with pytest.raises(windlass.BadArgument):
        command.enqueue([])


@pytest.mark.parametrize("programs", [(), "sh", [""], [7]], ids=repr)
def test_a_command_must_name_the_programs_that_it_may_start(tmp_path, programs):
    with pytest.raises(windlass.BadInput, match="programs="):
        Command(tmp_path, programs=programs)


def test_a_program_that_was_not_named_is_never_started(app, clock, tmp_path):
    mark = tmp_path / "mark"
    command = app.external("command", Command(tmp_path / "commands", programs=["true"]))
    refs = [
        command.enqueue([program, "-c", f"touch {mark}"])
        for program in ("sh", "/bin/sh", "./true", "true ", "TRUE")
    ]
    app.drain()

    ended(app, clock, *refs)

    assert not mark.exists()
    assert not list(tmp_path.glob("commands/*"))
    for ref in refs:
        with pytest.raises(windlass.TaskFailed, match="not among the programs of this"):
            ref.result(timeout=1)


def test_a_command_that_cannot_be_started_has_failed(app, clock, tmp_path):
    system = Command(tmp_path, programs=["no-such-program", "echo"])
    command = app.external("command", system, every="1s")
    refs = [command.enqueue(["no-such-program"]), command.enqueue(["echo", "a\x00b"])]
    app.drain()

    ended(app, clock, *refs)

    for ref in refs:
        with pytest.raises(windlass.TaskFailed, match="exit code 127"):
            ref.result(timeout=1)


def test_of_a_command_of_another_machine_nothing_is_known(tmp_path):
    command = Command(tmp_path, programs=["true"])

    assert command.poll(["7@another-machine"]) == {"7@another-machine": Running()}
    with pytest.raises(OSError, match="runs on another-machine"):
        command.cancel("7@another-machine")


def test_a_long_output_is_not_read_into_memory_and_a_bad_handle_hides_no_other(tmp_path):
    command = Command(tmp_path, programs=["true"])
    handle = f"9@{command._host}"
    (tmp_path / "9").mkdir()
    (tmp_path / "9" / "exit").write_text("0")
    with (tmp_path / "9" / "output").open("wb") as output:
        output.truncate(100 * 1024 * 1024)

    tracemalloc.start()
    answers = command.poll([handle, "../x"])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert list(answers) == [handle]
    assert peak < 10 * 1024 * 1024


def test_the_folder_of_a_command_goes_some_time_after_its_end(tmp_path):
    for name in ("1", "2", "notes"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "exit").write_text("0")
    for name in ("1", "notes"):
        os.utime(tmp_path / name, (0, 0))

    Command(tmp_path, programs=["true"], keep="7d").poll([])

    assert {path.name for path in tmp_path.iterdir()} == {"2", "notes"}


def test_a_submission_starts_one_process_however_often_it_is_asked_for(app, tmp_path):
    mark, go = tmp_path / "mark", threading.Event()

    class Twice(Command):
        def submit(self, argv: list[str]) -> str:
            super().submit(argv)
            eventually(mark.exists, 30)
            handle = super().submit(argv)
            go.set()
            return handle

    twice = app.external("twice", Twice(tmp_path / "commands", programs=["sh"]), every="1s")
    twice.enqueue(["sh", "-c", f"echo begin >> {mark}"])
    app.drain()

    assert go.is_set()
    assert mark.read_text().split() == ["begin"]


@pytest.fixture
def careless():
    """A umask that takes nothing away."""
    before = os.umask(0)
    yield
    os.umask(before)


def test_only_its_user_can_read_what_a_command_was_given_and_said(app, clock, tmp_path, careless):
    folder = tmp_path / "new" / "commands"
    command = app.external(
        "command", Command(folder, programs=["true", "sh", "sleep", "echo", "cat"]), every="1s"
    )
    ref = command.enqueue(["sh", "-c", f"echo secret; umask > {tmp_path / 'umask'}"])
    app.drain()
    ended(app, clock, ref)

    made = [folder.parent, folder, *folder.rglob("*")]
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in made}
    folders = {"new", "commands", str(ref.id)}
    files = {"lock", "command", "output", "pid", "exit"}
    assert modes == dict.fromkeys(folders, 0o700) | dict.fromkeys(files, 0o600)
    assert int((tmp_path / "umask").read_text()) == 0


def test_files_of_an_earlier_release_become_private(tmp_path):
    command = Command(tmp_path, programs=["true", "sh", "sleep", "echo", "cat"])
    (tmp_path / "9").mkdir(mode=0o755)
    (tmp_path / "9" / "exit").write_text("0")

    command.poll([f"9@{command._host}"])

    assert stat.S_IMODE((tmp_path / "9").stat().st_mode) == 0o700


def error_of(app) -> str:
    with app.database.engine.begin() as connection:
        return connection.execute(text("select error from windlass_failure")).scalar_one()


def test_a_symlink_in_the_place_of_a_folder_is_not_followed(app, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    command = app.external(
        "command", Command(shared, programs=["true", "sh", "sleep", "echo", "cat"]), every="1s"
    )
    ref = command.enqueue(["true"])
    (shared / str(ref.id)).symlink_to(elsewhere)

    app.drain()

    assert list(elsewhere.iterdir()) == []
    assert "is a symlink" in error_of(app)


def test_a_symlink_in_the_place_of_a_file_is_not_followed(app, tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    folder = tmp_path / "commands"
    command = app.external(
        "command", Command(folder, programs=["true", "sh", "sleep", "echo", "cat"]), every="1s"
    )
    ref = command.enqueue(["echo", "overwritten"])
    place = folder / str(ref.id)
    place.mkdir(parents=True)
    (place / "output").symlink_to(victim)

    app.drain()

    assert "symbolic link" in error_of(app)
    assert victim.read_text() == "precious"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
@pytest.mark.parametrize("name", ["commands", "commands/{id}"])
def test_a_folder_of_another_user_is_refused(app, tmp_path, name):
    command = app.external(
        "command",
        Command(tmp_path / "commands", programs=["true", "sh", "sleep", "echo", "cat"]),
        every="1s",
    )
    ref = command.enqueue(["true"])
    foreign = tmp_path / name.format(id=ref.id)
    foreign.mkdir(parents=True)
    foreign.chmod(0o777)
    os.chown(foreign, 12_345, 12_345)

    app.drain()

    assert list(foreign.iterdir()) == []
    assert "belongs to user 12345" in error_of(app)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
def test_folders_of_other_users_do_not_keep_old_ones_from_being_removed(tmp_path):
    for name in ("1", "2", "3"):
        (tmp_path / name).mkdir()
        os.utime(tmp_path / name, (0, 0))
    os.chown(tmp_path / "1", 12_345, 12_345)
    os.utime(tmp_path / "1", (0, 0))
    (tmp_path / "4").symlink_to(tmp_path / "2")
    os.utime(tmp_path / "4", (0, 0), follow_symlinks=False)

    Command(tmp_path, programs=["true"], keep="7d").poll([])

    assert {path.name for path in tmp_path.iterdir()} == {"1", "4"}
