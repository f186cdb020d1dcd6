"""Folders and files of this user alone, also where other users can make files.

A folder is opened once and checked, and everything in it is reached through the open folder. So
another user can neither read the files nor redirect them by a symlink.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

FOLDER_MODE = 0o700
FILE_MODE = 0o600


def make_parent(path: Path) -> None:
    """Make a folder for private folders. Raises PermissionError if it belongs to another user."""
    if not path.parent.exists():
        make_parent(path.parent)
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, FOLDER_MODE)
    for state in (path.lstat(), path.stat()):
        if state.st_uid not in (0, os.geteuid()):
            raise _foreign(path, state.st_uid)


@contextlib.contextmanager
def open_folder(path: Path, *, make: bool = False) -> Iterator[int]:
    """A folder that is private from now on, as a file descriptor; `make` it if it is missing.

    Raises PermissionError if it belongs to another user or is a symlink.
    """
    if make:
        with contextlib.suppress(FileExistsError):
            os.mkdir(path, FOLDER_MODE)
    try:
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError as problem:
        if problem.errno in (errno.ELOOP, errno.ENOTDIR):
            raise PermissionError(
                f"{path} is a symlink or a file, maybe of another user; remove it, or use another "
                "folder"
            ) from None
        raise
    try:
        state = os.fstat(folder)
        if state.st_uid != os.geteuid():
            raise _foreign(path, state.st_uid)
        if stat.S_IMODE(state.st_mode) & ~FOLDER_MODE:
            os.fchmod(folder, FOLDER_MODE)
        yield folder
    finally:
        os.close(folder)


def open_file(folder: int, name: str, flags: int) -> int:
    """Open a file in an open folder; no symlink is followed."""
    return os.open(name, flags | os.O_NOFOLLOW, FILE_MODE, dir_fd=folder)


def read_text(folder: int, name: str) -> str:
    """The text of a file in an open folder."""
    with open(open_file(folder, name, os.O_RDONLY)) as file:
        return file.read()


def write_text(folder: int, name: str, text: str) -> None:
    """Write a file in an open folder, in one step, so that it is never half written."""
    part = f"{name}.{os.getpid()}"
    with open(open_file(folder, part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "w") as file:
        file.write(text)
    os.replace(part, name, src_dir_fd=folder, dst_dir_fd=folder)


def _foreign(path: Path, owner: int) -> PermissionError:
    return PermissionError(
        f"{path} belongs to user {owner}, and this is user {os.geteuid()}; "
        "use a folder of your own, which no other user can change"
    )
