"""What class an error was of, read from its traceback."""

from __future__ import annotations

import re

ERROR = re.compile(r"^(?P<path>[A-Za-z_][\w.]*)(?::|$)")


def exception_path(trace: str) -> str:
    """The path of the class of the last error in a traceback: `builtins.ValueError`."""
    for line in reversed(_last_part(trace).splitlines()):
        if (found := ERROR.match(line)) is not None:
            path = found["path"]
            return path if "." in path else f"builtins.{path}"
    return "builtins.Exception"


def _last_part(trace: str) -> str:
    """From the last frame on: the message of an error may have many lines."""
    lines = trace.splitlines()
    frames = [number for number, line in enumerate(lines) if line.startswith("  ")]
    first = frames[-1] + 1 if frames else 0
    # The first line below the frames names the class.
    return "\n".join(lines[first : first + 1]) or trace
