"""What can damage a SQLite file, or keeps SQLite from using it."""

from __future__ import annotations

import os
import re
import sqlite3
from pathlib import Path, PurePosixPath

from windlass.view.action import whoami

MOUNTS = Path("/proc/self/mountinfo")

# https://sqlite.org/wal.html#walresetbug: all versions with a write-ahead log, until it was fixed.
FIRST_WITH_BUG = (3, 7, 0)
FIXED = (3, 51, 3)
FIXED_BRANCHES = ((3, 44, 6), (3, 50, 7))

# Several machines can have these mounted, and they share no memory for the write-ahead log.
# fmt: off
NETWORK = frozenset((
    "9p", "acfs", "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "drvfs", "gfs", "gfs2",
    "glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4", "ocfs2", "orangefs", "smb3", "smbfs",
    "vboxsf", "vmhgfs", "webdav",
))
# fmt: on
NETWORK_OVER_FUSE = re.compile(
    r"fuse\..*(s3|gcs|sshfs|gluster|ceph|rclone|juicefs|davfs|blob|nfs|smb|moose|seaweed|vmhgfs).*"
)


def hazards(file: str) -> list[str]:
    """What can damage the database in `file`, and what to do about it."""
    found = []
    if has_wal_reset_bug(sqlite3.sqlite_version_info):
        found.append(
            f"SQLite {sqlite3.sqlite_version} has the WAL-reset bug, which in rare cases corrupts "
            "a database that several threads or processes use; use a Python with SQLite "
            f"{_text(FIXED)} or newer (or {' or '.join(map(_text, FIXED_BRANCHES))}); see "
            "https://sqlite.org/wal.html#walresetbug"
        )
    kind = file_system(file)
    if kind is not None and is_network(kind):
        found.append(
            f"{file} is on a network file system ({kind}), where processes of several machines "
            "corrupt it; move it to a local disk, or use PostgreSQL, MySQL or MariaDB"
        )
    return found


def has_wal_reset_bug(version: tuple[int, ...]) -> bool:
    """Whether this version of SQLite has the bug; a distribution may have fixed its own."""
    if not FIRST_WITH_BUG <= version < FIXED:
        return False
    return not any(version[:2] == fixed[:2] and version >= fixed for fixed in FIXED_BRANCHES)


def is_network(kind: str) -> bool:
    """Whether file systems of this type are shared by several machines."""
    return kind in NETWORK or NETWORK_OVER_FUSE.fullmatch(kind) is not None


def file_system(file: str, mounts: Path = MOUNTS) -> str | None:
    """The type of the file system that `file` is on; None where only Linux would know."""
    try:
        lines = mounts.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
        folder = PurePosixPath(Path(file).absolute().parent.resolve())
    except OSError:
        return None
    kind, longest = None, -1
    for line in lines:
        # The optional fields before the dash vary in number.
        before, _, after = line.partition(" - ")
        point = PurePosixPath(_unescaped(before.split(" ")[4]))
        # A later mount at the same place covers the earlier one.
        if len(point.parts) >= longest and folder.is_relative_to(point):
            kind, longest = after.split(" ")[0], len(point.parts)
    return kind


def _unescaped(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), text)


def _text(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def refusal(problem: BaseException, file: str, *, was_reached: bool) -> str | None:
    """Why SQLite cannot use a file, and the cure; None if it is something else.

    A file that `was_reached` before may only be away for a moment.
    """
    path, code = Path(file).absolute(), str(getattr(problem, "sqlite_errorname", ""))
    if code.startswith("SQLITE_READONLY"):
        return (
            f"{path} cannot be written by user {whoami()}; give the user of this process the "
            "right to write it, and its folder"
        )
    if was_reached:
        return None
    if code == "SQLITE_NOTADB":
        return f"{path} is not a SQLite database; give the path of another file"
    if not code.startswith("SQLITE_CANTOPEN"):
        return None
    if os.path.isdir(path):
        return f"{path} is a folder; give the path of a file in it, such as {path / 'shop.db'}"
    if _is_missing(path.parent):
        return f"{path}: there is no folder {path.parent}; create it, or give another path"
    return (
        f"{path} cannot be opened by user {whoami()}; give the user of this process the right to "
        "read and write it, and its folder"
    )


def _is_missing(folder: Path) -> bool:
    """Whether there is no such folder; a folder that may not be looked at is there."""
    try:
        return not folder.is_dir()
    except PermissionError:
        return False
