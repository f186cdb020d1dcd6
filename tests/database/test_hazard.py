"""What can damage a SQLite file is noticed, and said with what to do."""

import sqlite3
from contextlib import closing

import pytest

from tests.core.run.working import listening, working
from windlass import App
from windlass.database.dialect import hazard
from windlass.database.dialect.hazard import file_system, has_wal_reset_bug, hazards, is_network
from windlass.watch.operate.check import check


@pytest.mark.parametrize(
    ("version", "has_bug"),
    [
        ((3, 6, 23), False),
        ((3, 7, 0), True),
        ((3, 40, 1), True),
        ((3, 44, 5), True),
        ((3, 44, 6), False),
        ((3, 45, 0), True),
        ((3, 50, 6), True),
        ((3, 50, 7), False),
        ((3, 51, 0), True),
        ((3, 51, 2), True),
        ((3, 51, 3), False),
        ((3, 52, 0), False),
        ((3, 53, 1), False),
        ((4, 0, 0), False),
    ],
)
def test_the_versions_with_the_wal_reset_bug_are_known(version, has_bug):
    assert has_wal_reset_bug(version) is has_bug


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "9p", "fuse.sshfs", "fuse.glusterfs"])
def test_network_file_systems_are_known(kind):
    assert is_network(kind)


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "overlay", "tmpfs", "fuse.ntfs-3g"])
def test_local_file_systems_are_not_taken_for_network_ones(kind):
    assert not is_network(kind)


def test_the_file_system_of_a_file_is_that_of_the_nearest_mount(tmp_path):
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
        "41 22 0:40 / /srv rw - tmpfs tmpfs rw\n"
        "42 22 0:41 / /srv rw shared:7 master:2 - nfs4 filer:/export rw,vers=4.2\n"
        "43 22 0:42 / /with\\040space rw - cifs //filer/share rw\n"
        "44 42 0:43 / /srv/local rw - xfs /dev/sdb1 rw\n"
    )

    kinds = {
        file: file_system(file, mounts)
        for file in ("/a.db", "/srv/a.db", "/srv/local/a.db", "/srvx/a.db", "/with space/a.db")
    }

    assert kinds == {
        "/a.db": "ext4",
        "/srv/a.db": "nfs4",
        "/srv/local/a.db": "xfs",
        "/srvx/a.db": "ext4",
        "/with space/a.db": "cifs",
    }


def test_the_mounts_of_this_machine_are_understood(tmp_path):
    if not hazard.MOUNTS.exists():
        assert file_system("/proc/a.db") is None
        pytest.skip("only Linux lists its mounts there")

    assert file_system("/proc/a.db") == "proc"
    assert file_system(str(tmp_path / "a.db")) is not None


@pytest.fixture
def bad_place(tmp_path, monkeypatch):
    """A SQLite file on a network file system, opened by a SQLite with the bug."""
    mounts = tmp_path / "mountinfo"
    mounts.write_text(f"22 1 8:1 / {tmp_path} rw - nfs4 filer:/export rw\n")
    monkeypatch.setattr(file_system, "__defaults__", (mounts,))
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 50, 4))
    monkeypatch.setattr(sqlite3, "sqlite_version", "3.50.4")
    return f"sqlite:///{tmp_path}/shop.db"


def test_a_worker_that_starts_warns(bad_place):
    with closing(App(bad_place)) as app:
        app.task(name="work")(lambda: None)
        with listening("database.endangered") as told, working(app):
            pass

    texts = [event.fields["hazard"] for event in told]
    assert "SQLite 3.50.4 has the WAL-reset bug" in texts[0]
    assert "3.51.3 or newer" in texts[0]
    assert "is on a network file system (nfs4)" in texts[1]
    assert "move it to a local disk" in texts[1]


def test_a_check_warns(bad_place):
    with closing(App(bad_place)) as app:
        app.task(name="work")(lambda: None)
        found = [finding for finding in check(app.fleet, app.registry) if finding.about != "work"]

    assert [(finding.level, finding.about) for finding in found] == [("warning", "database")] * 2


def test_nothing_is_said_of_a_good_place(tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 51, 3))

    assert hazards(str(tmp_path / "shop.db")) == []


def test_a_database_in_memory_has_no_file_to_damage(monkeypatch):
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 50, 4))

    with closing(App("sqlite://")) as app:
        app.task(name="work")(lambda: None)
        assert check(app.fleet, app.registry) == []
