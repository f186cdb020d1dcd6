"""Events: one stream, whose words live in one place."""

import logging
import re
from pathlib import Path

import pytest

import windlass
from windlass import telemetry


@pytest.fixture
def events():
    seen = []
    unsubscribe = telemetry.subscribe(seen.append)
    yield seen
    unsubscribe()


def test_a_listener_gets_the_event_with_its_facts(events):
    telemetry.emit("task.failed", task=7, error="no")

    (event,) = events
    assert (event.name, event.fields) == ("task.failed", {"task": 7, "error": "no"})
    assert (event.level, event.message) == (logging.ERROR, "task ? 7 failed: no")


def test_after_unsubscribing_there_is_silence(events):
    seen = []
    unsubscribe = telemetry.subscribe(seen.append)
    unsubscribe()
    unsubscribe()

    telemetry.emit("task.failed", task=7)

    assert seen == []
    assert len(events) == 1


def test_a_listener_that_fails_disturbs_nobody(events):
    def fail(event):
        raise RuntimeError("no")

    unsubscribe = telemetry.subscribe(fail)
    late = []
    also = telemetry.subscribe(late.append)

    telemetry.emit("task.failed", task=7)
    unsubscribe()
    also()

    assert len(events) == len(late) == 1


def test_an_event_is_a_log_record_with_its_facts(caplog):
    with caplog.at_level(logging.INFO, logger="windlass"):
        telemetry.emit("worker.joined", worker=7)
        telemetry.emit("prune.done", rows=3)

    (record,) = caplog.records
    assert (record.name, record.levelname) == ("windlass", "INFO")
    assert record.windlass.fields == {"worker": 7}
    assert (record.getMessage(), record.event, record.worker) == (
        "worker 7 joined",
        "worker.joined",
        7,
    )


def test_a_field_with_a_name_that_logging_needs_stays_in_the_record(caplog):
    with caplog.at_level(logging.INFO, logger="windlass"):
        telemetry.emit("control.started", name="load", partition="", tries=2)

    (record,) = caplog.records
    assert record.getMessage() == "control run load started (try 2)"
    assert (record.name, record.name_, record.partition) == ("windlass", "load", "")


def test_a_text_has_one_line_and_the_fields_have_all(caplog):
    telemetry.emit("task.failed", task=7, kind="mail", error="ValueError: a\nb")

    (record,) = caplog.records
    assert record.getMessage() == "task mail 7 failed: ValueError: a"
    assert record.error == "ValueError: a\nb"


def test_every_text_names_what_it_is_about():
    """A text without a field says the same of everything, which helps nobody."""
    silent = [name for name, (_, words) in telemetry.WORDS.items() if "{" not in words]

    assert silent == ["process.reloaded"]


def test_every_event_that_the_code_emits_has_its_words_and_every_word_its_event():
    source = "\n".join(path.read_text() for path in Path(windlass.__file__).parent.rglob("*.py"))
    quoted = set(
        re.findall(
            r'"((?:app|worker|process|hook|task|cron|prune|database|loop|kind|switch|breaker|control|members|ring'
            r'|shard|sweep|range|flow|external|guard|alert|beat|schema|clock|trace|window|carrier|consumer|queue|outbox|message|child|hot)\.\w+)"',
            source,
        )
    )

    emitted = set(re.findall(r'emit\(\s*"([\w.]+)"', source))

    assert emitted <= telemetry.WORDS.keys()
    assert telemetry.WORDS.keys() <= quoted
    assert [name for name, (_, words) in telemetry.WORDS.items() if not words] == []
