"""The table of metrics, the dashboard and the alert rules name the same things."""

import json
import re
import shutil
import subprocess

import pytest
import yaml

from tests.tidy.source import ROOT
from windlass.telemetry import WORDS
from windlass.value.metric import MetricValue
from windlass.watch.metric.exposition import expose
from windlass.watch.metric.table import CARRIED, DATABASE, METRICS, PROCESS, Metric

MONITORING = ROOT / "monitoring"
# What Prometheus itself adds to series.
ADDED = {"job", "instance", "le"}
PROMTOOL = shutil.which("promtool")
needs_promtool = pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed")


def series_of(metric: Metric) -> set[str]:
    if metric.type != "histogram":
        return {metric.name}
    return {f"{metric.name}{end}" for end in ("_bucket", "_count", "_sum")}


SERIES = {name: metric for metric in METRICS.values() for name in series_of(metric)}


def dashboard():
    return json.loads((MONITORING / "grafana.json").read_text())


def rules():
    (group,) = yaml.safe_load((MONITORING / "alerts.yaml").read_text())["groups"]
    return group["rules"]


def shown():
    """Every PromQL expression of the dashboard, with its variables filled in."""
    targets = [target for panel in dashboard()["panels"] for target in panel.get("targets", ())]
    return [
        target["expr"].replace("$__rate_interval", "5m").replace("$kind", ".*")
        for target in targets
    ]


def expressions():
    return [*shown(), *(rule["expr"] for rule in rules()), *told()]


def told():
    """The expressions in the guide."""
    page = (ROOT / "docs/guide/monitor.md").read_text()
    return re.findall(r"`([^`\n]*windlass_[^`\n]*\([^`\n]*)`", page)


def test_the_page_has_every_metric_and_no_other():
    page = (ROOT / "docs/reference/metric.md").read_text()
    rows = re.findall(r"^\| `(windlass_\w+)` \| (\w+) \| (.*?) \| (.*?) \|$", page, re.MULTILINE)

    expected = [
        (
            metric.name,
            metric.type,
            ", ".join(f"`{label}`" for label in metric.labels) or "none",
            metric.help,
        )
        for metric in (*PROCESS, *CARRIED, *DATABASE)
    ]
    assert rows == expected


def test_names_follow_the_conventions_of_prometheus():
    for name, metric in METRICS.items():
        assert re.fullmatch(r"windlass_[a-z_]+", name)
        assert name.endswith("_total") == (metric.type == "counter")
        assert not name.endswith(("_count", "_sum", "_bucket"))
        assert not re.search(r"milli|_ms|minutes|hours", name)
        assert metric.type != "histogram" or name.endswith("_seconds")
        assert metric.labels != ("le",)


@pytest.mark.parametrize("expression", expressions())
def test_every_expression_names_what_exists(expression):
    names = set(re.findall(r"windlass_\w+", expression))
    assert names or "up{" in expression
    assert names <= SERIES.keys()

    known = {label for name in names for label in SERIES[name].labels} | ADDED
    by = {
        label.strip()
        for found in re.findall(r"by \(([^)]*)\)", expression)
        for label in found.split(",")
    }
    matched = set(re.findall(r"[{,]\s*(\w+)=", expression))
    assert by | matched <= known
    assert expression.count("(") == expression.count(")")


def test_events_in_expressions_exist():
    found = {
        name
        for expression in expressions()
        for listed in re.findall(r'event=~?"([^"]*)"', expression)
        for name in listed.split("|")
    }

    assert "database.failed" in found
    assert found <= WORDS.keys()


def test_counters_are_only_shown_as_rates():
    for expression in expressions():
        for name in re.findall(r"windlass_\w+(?:_total|_bucket|_count)\b", expression):
            used = re.findall(rf"(\w+)\({name}\b", expression)
            assert len(used) == expression.count(name), expression
            assert set(used) <= {"rate", "increase"}, expression


def test_the_dashboard_has_the_shape_that_grafana_reads():
    board = dashboard()
    panels = board["panels"]

    assert board["title"] == "Windlass"
    assert {each["name"] for each in board["templating"]["list"]} == {"datasource", "kind"}
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells
        assert panel["type"] in {"row", "stat", "timeseries"}
        if panel["type"] != "row":
            assert panel["description"].endswith(".")
            assert all(
                target["datasource"]["uid"] == "${datasource}" for target in panel["targets"]
            )
            assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])


def test_rules_have_the_shape_that_prometheus_reads():
    names = [rule["alert"] for rule in rules()]

    assert len(set(names)) == len(names)
    for rule in rules():
        assert rule.keys() <= {"alert", "expr", "for", "labels", "annotations"}
        assert rule["alert"].startswith("Windlass")
        assert rule["labels"]["severity"] in {"info", "warning", "critical"}
        assert rule["annotations"].keys() == {"summary", "description"}
        assert re.fullmatch(r"\d+[smhd]", rule.get("for", "0s"))
    for trouble in (
        "NoWorker",
        "BacklogOld",
        "Failures",
        "BreakerOpen",
        "HeartbeatOld",
        "RollingPromise",
        "PromiseAtRisk",
        "PromiseBroken",
    ):
        assert f"Windlass{trouble}" in names


def test_the_scrape_configuration_asks_with_a_credential():
    read = yaml.safe_load((MONITORING / "prometheus.yaml").read_text())

    assert read["rule_files"] == ["alerts.yaml"]
    for job in read["scrape_configs"]:
        assert job["authorization"]["credentials_file"].startswith("/")
        assert job["job_name"].startswith("windlass")


# With promtool, which knows the language.


def promtool(*arguments, text=None):
    assert PROMTOOL is not None
    command = [PROMTOOL, *arguments]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@needs_promtool
def test_promtool_takes_the_rules_and_every_expression_of_the_dashboard(tmp_path):
    assert "SUCCESS" in promtool("check", "rules", str(MONITORING / "alerts.yaml"))

    made = [
        {"record": f"shown:number_{place}", "expr": expression}
        for place, expression in enumerate([*shown(), *told()])
    ]
    file = tmp_path / "shown.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "shown", "rules": made}]}))
    assert "SUCCESS" in promtool("check", "rules", str(file))


@needs_promtool
def test_promtool_has_nothing_to_say_about_the_names():
    samples = [
        MetricValue(
            metric.name,
            tuple("x" for _ in metric.labels),
            1.0,
            [1] * (len(metric.bounds) + 1) if metric.bounds else None,
        )
        for metric in METRICS.values()
    ]

    assert promtool("check", "metrics", text=expose(samples).text) == ""


# What the console and a worker say, minute by minute.
SAID = {
    ("worker_alive", "windlass", None): "2x5 0x20",
    ("breaker_state", "windlass", "pay"): "1x30",
    ("promise_state", "windlass", "pay"): "0x5 1x25",
    ("promise_state", "windlass", "mail"): "0x5 2x25",
    ("switch_off", "windlass", "mail"): "0x30",
    ("window_closed", "windlass", "mail"): "0x30",
    ("task_oldest_due_age_seconds", "windlass", "pay"): "900x30",
    ("task_oldest_due_age_seconds", "windlass", "mail"): "900x30",
    ("task_done_total", "windlass-worker", "pay"): "0+50x30",
    ("task_failed_total", "windlass-worker", "pay"): "0+10x30",
    ("task_done_total", "windlass-worker", "mail"): "0+50x30",
    ("task_failed_total", "windlass-worker", "mail"): "0x30",
    ("worker_heartbeat_age_seconds", "windlass-worker", None): "1x10 30x20",
}
# The kinds that an alert is about after so many minutes.
FIRING = {
    ("NoWorker", 4): [],
    ("NoWorker", 10): [""],
    ("BreakerOpen", 10): ["pay"],
    ("PromiseAtRisk", 25): ["pay"],
    ("PromiseBroken", 4): [],
    ("PromiseBroken", 15): ["mail"],
    ("BacklogOld", 10): ["mail"],
    ("Failures", 15): ["pay"],
    ("HeartbeatOld", 9): [],
    ("HeartbeatOld", 20): [""],
}


def series(name, job, kind):
    labels = {"job": job, "instance": job, "shard": "1"} | ({"kind": kind} if kind else {})
    return f"windlass_{name}{{{', '.join(f'{key}={json.dumps(labels[key])}' for key in labels)}}}"


def asked(alert, minute, kinds):
    """How promtool is asked for the kinds that an alert is about."""
    firing = f'alertname="Windlass{alert}", alertstate="firing"'
    labels = [f'{{kind="{kind}"}}' if kind else "{}" for kind in kinds]
    return {
        "expr": f"count by (kind) (ALERTS{{{firing}}})",
        "eval_time": f"{minute}m",
        "exp_samples": [{"labels": each, "value": 1} for each in labels],
    }


@needs_promtool
def test_rules_fire_when_they_should_and_only_then(tmp_path):
    told = [{"series": series(*place), "values": values} for place, values in SAID.items()]
    questions = [asked(*place, kinds) for place, kinds in FIRING.items()]
    story = {"interval": "1m", "input_series": told, "promql_expr_test": questions}
    file = tmp_path / "story.yaml"
    rules = str(MONITORING / "alerts.yaml")
    file.write_text(yaml.safe_dump({"rule_files": [rules], "tests": [story]}))

    assert "SUCCESS" in promtool("test", "rules", str(file))
