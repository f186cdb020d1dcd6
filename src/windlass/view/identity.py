"""Who acts: the user, the host and the process."""

from __future__ import annotations

import getpass
import os
import socket


def whoami() -> str:
    """The user and the host."""
    try:
        return f"{getpass.getuser()}@{socket.gethostname()}"
    except (OSError, KeyError):
        return socket.gethostname()


def this_process() -> str:
    """The user, the host and the process."""
    return f"{whoami()[:240]} {os.getpid()}"
