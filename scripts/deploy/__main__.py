"""What `make deploy-check` runs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import yaml

from scripts.deploy import DEPLOY
from scripts.deploy.chart import CannotRender, render
from scripts.deploy.rule import problems

# The oldest that the chart allows, and a newer one.
KUBERNETES = ("1.27", "1.34")
# hadolint wants the versions of Debian's packages pinned, but none is installed.
IGNORED: tuple[str, ...] = ()
GIVEN = {"image": {"repository": "shop"}, "secret": {"name": "shop"}}
CHARTS: dict[str, dict[str, Any]] = {
    "the least": GIVEN,
    "everything": {
        **GIVEN,
        "image": {"repository": "shop", "tag": "2026-11-19"},
        "imagePullSecrets": [{"name": "pull"}],
        "env": [{"name": "WINDLASS_LOG", "value": "debug"}],
        "workers": {
            "default": {"autoscaling": {"enabled": True}, "options": ["--shard", "0"]},
            "mails": {
                "replicas": 2,
                "graceSeconds": 300,
                "concurrency": 500,
                "kinds": ["send_mail"],
                "resources": {"limits": {"memory": "1Gi"}},
            },
        },
        "console": {
            "replicas": 2,
            "options": ["--read-only"],
            "ingress": {"enabled": True, "host": "shop.example", "tlsSecret": "shop-tls"},
        },
        "podAnnotations": {"prometheus.io/scrape": "false"},
        "nodeSelector": {"disk": "fast"},
        "tolerations": [{"key": "shop", "operator": "Exists"}],
    },
    "workers alone": {**GIVEN, "console": {"enabled": False}, "migrate": {"enabled": False}},
}


def main() -> None:
    found = [*_manifests(), *_charts(), *_refusals(), *_dockerfile()]
    for each in found:
        print(each, file=sys.stderr)
    if found:
        sys.exit(1)
    print("deploy/ is well: manifests, chart and Dockerfile")


def _manifests() -> Iterator[str]:
    manifests = []
    for path in sorted((DEPLOY / "kubernetes").glob("*.yaml")):
        if path.name != "kustomization.yaml":
            manifests += list(yaml.safe_load_all(path.read_text()))
    yield from _valid("kubernetes", manifests)
    yield from problems(manifests)


def _charts() -> Iterator[str]:
    for name, values in CHARTS.items():
        try:
            manifests = render(values)
        except CannotRender as problem:
            yield f"chart, {name}: {problem}"
            continue
        yield from _valid(f"chart, {name}", manifests)
        yield from (f"chart, {name}: {said}" for said in problems(manifests))
        print(f"chart, {name}: {len(manifests)} manifests")


def _refusals() -> Iterator[str]:
    """Without an image or a secret there must be an error that says what to give."""
    for name, given in {"image.repository": "secret", "secret.name": "image"}.items():
        try:
            render({given: GIVEN[given]})
        except CannotRender as problem:
            if name not in str(problem):
                yield f"chart: without {name} it says {problem}"
        else:
            yield f"chart: without {name} it is rendered"


def _valid(what: str, manifests: list[dict[str, Any]]) -> Iterator[str]:
    if not manifests:
        yield f"{what}: no manifests"
    for manifest in manifests:
        where = f"{what}: {manifest['kind']} {manifest['metadata']['name']}"
        for version in KUBERNETES:
            try:
                kubernetes_validate.validate(manifest, version, strict=True)
            except kubernetes_validate.ValidationError as problem:
                yield f"{where} is wrong for {version}: {problem.message} at {list(problem.path)}"


def _dockerfile() -> Iterator[str]:
    hadolint = Path(sys.executable).with_name("hadolint")
    ignored = [word for rule in IGNORED for word in ("--ignore", rule)]
    command = [hadolint, *ignored, DEPLOY / "docker" / "Dockerfile"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        yield f"hadolint: {done.stdout}{done.stderr}"


main()
