"""The manifests and the chart, as far as they can be read without Go; see `make deploy-check`."""

import json
import re
import shlex

import jsonschema_rs
import pytest
import yaml

import windlass
from scripts.deploy import DEPLOY
from scripts.deploy.rule import commands_in, problems
from tests.story.reader import check_options

KUBERNETES = DEPLOY / "kubernetes"
CHART = DEPLOY / "helm" / "windlass"
USED = re.compile(r"\.Values((?:\.\w+)+)")
FILLED = {"image": {"repository": "shop"}, "secret": {"name": "shop"}}


@pytest.fixture(scope="module")
def manifests():
    paths = sorted(path for path in KUBERNETES.glob("*.yaml") if path.stem != "kustomization")
    return [each for path in paths for each in yaml.safe_load_all(path.read_text())]


@pytest.fixture(scope="module")
def values():
    return yaml.safe_load((CHART / "values.yaml").read_text())


@pytest.fixture(scope="module")
def schema():
    return json.loads((CHART / "values.schema.json").read_text())


def test_probes_graces_rights_and_selectors_fit(manifests):
    assert problems(manifests) == []


def test_a_manifest_that_kills_a_worker_too_early_is_found(manifests):
    changed = json.loads(json.dumps(manifests))
    worker = next(each for each in changed if (each["kind"], each["metadata"]["name"]) == WORKER)[
        "spec"
    ]["template"]["spec"]
    worker["terminationGracePeriodSeconds"] = 30
    worker["containers"][0]["livenessProbe"]["httpGet"]["path"] = "/readyz"

    found = problems(changed)

    assert "shop-worker: is killed before its grace of 30 s and 15 s are over" in found
    assert any(each.startswith("shop-worker: livenessProbe asks") for each in found)


WORKER = ("Deployment", "shop-worker")


def test_containers_run_commands_that_there_are(manifests):
    commands = list(commands_in(manifests))

    assert {command[1] for command in commands} == {"migrate", "worker", "console"}
    for command in commands:
        check_options(shlex.join(command))


def test_the_kustomization_has_what_needs_nothing_else(manifests):
    listed = yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text())["resources"]

    there = {path.name for path in KUBERNETES.glob("*.yaml")}
    assert there - set(listed) == {"kustomization.yaml", "autoscale.yaml"}


def test_the_chart_has_the_version_of_windlass():
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())

    semantic = re.sub(r"\.?(dev|a|b|rc)(\d+)$", r"-\1.\2", windlass.__version__)
    assert (chart["apiVersion"], chart["name"]) == ("v2", CHART.name)
    assert (chart["version"], chart["appVersion"]) == (semantic, windlass.__version__)


def test_the_values_are_what_their_schema_says(values, schema):
    check = jsonschema_rs.validator_for(schema)

    assert [error.message for error in check.iter_errors(values)] == []
    assert not check.is_valid({**values, "worker": {}})
    assert not check.is_valid({**values, "app": "shop app"})
    wrong = {"default": {**values["workers"]["default"], "concurrency": 0}}
    assert not check.is_valid({**values, "workers": wrong})
    assert schema["properties"].keys() - {"global"} == values.keys()
    known = schema["definitions"]["worker"]["properties"]
    assert values["workers"]["default"].keys() == known.keys()


def test_templates_use_values_that_there_are(values):
    templates = sorted((CHART / "templates").iterdir())
    used = {name for path in templates for name in USED.findall(path.read_text())}

    def has(path):
        found = values
        for name in path.strip(".").split("."):
            if name not in found:
                return False
            found = found[name]
        return True

    assert used
    assert [path for path in sorted(used) if not has(path)] == []


def test_the_chart_has_no_secret_of_its_own():
    told = "".join(path.read_text() for path in sorted((CHART / "templates").iterdir()))

    assert "kind: Secret" not in told
