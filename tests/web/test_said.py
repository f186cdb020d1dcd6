"""Sentences of the server: each has its code in both dictionaries of the console."""

import re

import pytest

from tests.tidy.source import ROOT
from windlass import App
from windlass.clock import SECOND
from windlass.core.limit.store import Switch
from windlass.core.limit.switch import held_back, paused_text
from windlass.value.breaker import Breaker, BreakerState
from windlass.view.sentence import SENTENCES

LINE = re.compile(r'^  "([^"]+)": "(.*)",$', re.MULTILINE)


def dictionary(language):
    text = (ROOT / f"console/src/text/said/{language}.ts").read_text()
    return dict(LINE.findall(text))


def test_the_english_dictionary_says_what_the_server_says():
    assert dictionary("en") == SENTENCES


def test_the_chinese_dictionary_has_each_sentence_with_the_same_values():
    chinese = dictionary("zh")

    assert chinese.keys() == SENTENCES.keys()
    for code, text in SENTENCES.items():
        values = re.findall(r"\{\w+\}", text)
        assert sorted(re.findall(r"\{\w+\}", chinese[code])) == sorted(values), code


@pytest.mark.mostly("sqlite")
def test_why_a_kind_is_held_back_has_codes_all_the_way_down(sqlite_url):
    app = App(sqlite_url)
    partner = app.downstream("partner", window="01:00-02:00")

    @app.task(breaker="2 in a row, 1m", downstream=partner)
    def work() -> None: ...

    kind, now = app.registry.kinds["work"], 20 * 3_600 * SECOND
    paused = Switch("work", off=True, reason="sale", who="ann", since=now - 60 * SECOND)
    open_breaker = Breaker(BreakerState.OPEN, 2, now, now + 30 * SECOND, 60 * SECOND)
    texts = [
        held_back(kind, paused, now=now),
        held_back(kind, Switch("work", breaker=open_breaker), now=now),
        held_back(kind, Switch("work"), now=now),
        paused_text(Switch("*", off=True, until=now + SECOND), now=now),
    ]
    app.close()

    assert [str(text) for text in texts[:2]] == [
        "paused by ann 1m ago: sale",
        "breaker open after 2 errors in a row, probed in 30s",
    ]
    assert [text.code for text in texts] == [
        "held.paused",
        "held.breaker",
        "held.downstream",
        "held.paused",
    ]
    assert texts[2].wire["values"]["why"]["code"] == "held.window"
