"""Render the Helm chart by Go's own templates with the functions of Sprig, as Helm does.

Helm itself is needed for nothing but `include`: the named templates are rendered first, and
`include "NAME" .` becomes their text. So they must depend on nothing but the root, and `include` in
a `with` or a `range` must get `$`, or it fails here.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import go_template
import yaml

from scripts.deploy import DEPLOY

CHART = DEPLOY / "helm" / "windlass"
DEFINE = re.compile(r'{{-? define "([\w.]+)"')
INCLUDE = re.compile(r'include ("[\w.]+") (\$|\.)(?=[\s)])')


class CannotRender(Exception):
    """What the templates said."""


def render(values: dict[str, Any]) -> list[dict[str, Any]]:
    """The manifests that the chart makes of these values, over its own.

    In a process of its own, which an error in a template ends.
    """
    done = subprocess.run(
        [sys.executable, "-m", "scripts.deploy.chart"],
        input=json.dumps(values),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise CannotRender(f"{done.stdout}{done.stderr}".strip())
    manifests: list[dict[str, Any]] = json.loads(done.stdout)
    return manifests


def _render(values: dict[str, Any]) -> list[dict[str, Any]]:
    merged = merge(yaml.safe_load((CHART / "values.yaml").read_text()), values)
    root = {
        "Values": merged,
        "Chart": _chart(),
        "Release": {"Name": "shop", "Namespace": "default", "Service": "Helm"},
    }
    helpers = (CHART / "templates" / "_helpers.tpl").read_text()
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "template"
        included = {
            each: _execute(file, f'{helpers}{{{{ template "{each}" . }}}}', root).strip("\n")
            for each in DEFINE.findall(helpers)
        }
        root["Included"] = included
        found = []
        for template in sorted((CHART / "templates").glob("*.yaml")):
            text = _execute(file, _without_include(template), root)
            found += [each for each in yaml.safe_load_all(text) if each is not None]
        _execute(file, _without_include(CHART / "templates" / "NOTES.txt"), root)
    return found


def merge(under: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """As Helm merges values: maps are merged, everything else is replaced."""
    merged = dict(under)
    for key, value in over.items():
        below = merged.get(key)
        both = isinstance(value, dict) and isinstance(below, dict)
        merged[key] = merge(below, value) if both and below is not None else value
    return merged


def _without_include(template: Path) -> str:
    return INCLUDE.sub(
        lambda found: f"(index {'$' * (found[2] == '$')}.Included {found[1]})", template.read_text()
    )


def _chart() -> dict[str, str]:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    return {
        "Name": chart["name"],
        "Version": chart["version"],
        "AppVersion": str(chart["appVersion"]),
    }


def _execute(file: Path, text: str, root: dict[str, Any]) -> str:
    file.write_text(text)
    said: str = go_template.render(file, root).decode()
    return said


if __name__ == "__main__":
    json.dump(_render(json.load(sys.stdin)), sys.stdout)
