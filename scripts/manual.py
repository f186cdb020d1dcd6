"""Build the manual of each release and of the work tree, side by side, with a switch between them.

    python -m scripts.manual            # into build/manual, with mkdocs from build/docs-venv

`make manual` does it. A release is a tag such as v0.2.0; its newest patch is shown as 0.2, and the
work tree as dev. Nothing is fetched: the folder can be served by any web server as it is.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TAG = re.compile(r"^v(\d+)\.(\d+)\.(\d+)$")
WORK_TREE = "dev"
# The theme draws the switch; it reads versions.json beside the folders of the versions.
SWITCH = """INHERIT: {config}
docs_dir: {docs}
site_dir: {site}
extra:
  version:
    provider: mike
    default: [{default}]
"""
FRONT = """<!doctype html>
<meta charset="utf-8">
<title>Windlass</title>
<meta http-equiv="refresh" content="0; url={version}/index.html">
<a href="{version}/index.html">Windlass {version}</a>
"""


def main() -> None:
    parser = argparse.ArgumentParser(prog="manual")
    parser.add_argument("--mkdocs", type=Path, default=ROOT / "build/docs-venv/bin/mkdocs")
    parser.add_argument("--into", type=Path, default=ROOT / "build/manual")
    asked = parser.parse_args()
    build(asked.mkdocs.absolute(), asked.into.absolute(), newest_of(_tags()))
    print(f"the manuals are at {asked.into}; serve them: python -m http.server -d {asked.into}")


def newest_of(tags: list[str]) -> dict[str, str]:
    """The tag of the newest patch of each release, as 0.2: v0.2.1, the newest release first."""
    numbers = sorted(tuple(map(int, found.groups())) for tag in tags if (found := TAG.match(tag)))
    found = {f"{major}.{minor}": f"v{major}.{minor}.{patch}" for major, minor, patch in numbers}
    return dict(reversed(found.items()))


def build(mkdocs: Path, into: Path, releases: dict[str, str]) -> None:
    """Put a folder for each version into `into`, and what leads to them."""
    shutil.rmtree(into, ignore_errors=True)
    into.mkdir(parents=True)
    default = next(iter(releases), WORK_TREE)
    _build(mkdocs, ROOT, into / WORK_TREE, default=default, strict=True)
    for version, tag in releases.items():
        with _tree_of(tag) as tree:
            _build(mkdocs, tree, into / version, default=default, strict=False)
    versions = [*releases, WORK_TREE]
    listed = [{"version": each, "title": each, "aliases": []} for each in versions]
    (into / "versions.json").write_text(json.dumps(listed, indent=2) + "\n")
    (into / "index.html").write_text(FRONT.format(version=default))


def _build(mkdocs: Path, tree: Path, site: Path, *, default: str, strict: bool) -> None:
    with tempfile.TemporaryDirectory() as name:
        config = Path(name) / "mkdocs.yml"
        config.write_text(
            SWITCH.format(
                config=tree / "mkdocs.yml", docs=tree / "docs", site=site, default=default
            )
        )
        command = [mkdocs, "build", "--quiet", "--strict" if strict else "--no-strict"]
        done = subprocess.run(
            [*command, "--config-file", config],
            env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
            check=False,
        )
    if done.returncode:
        sys.exit(f"the manual of {site.name} cannot be built")


@contextmanager
def _tree_of(tag: str) -> Iterator[Path]:
    """The manual's sources as they were at a tag."""
    packed = subprocess.run(
        ["git", "archive", tag, "docs", "mkdocs.yml"], cwd=ROOT, capture_output=True, check=True
    )
    with tempfile.TemporaryDirectory() as name:
        with tarfile.open(fileobj=BytesIO(packed.stdout)) as files:
            files.extractall(name, filter="data")
        yield Path(name)


def _tags() -> list[str]:
    listed = subprocess.run(
        ["git", "tag", "--list"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return listed.stdout.split()


if __name__ == "__main__":
    main()
