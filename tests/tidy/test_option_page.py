"""The page of options names each option of a declaration, with the default that it has."""

import inspect
import re

import pytest

from tests.tidy.source import ROOT
from windlass import App

DECLARED = ("task", "cron", "rolling", "sweep")
VALUE = re.compile(r"\b(\w+)=(\"[^\"]*\"|[\w.]+)(?=[,)])")
PAGE = (ROOT / "docs/reference/option.md").read_text()


def section_of(name):
    return re.split(rf"^## @?app\.{name}\b", PAGE, flags=re.MULTILINE)[1].split("\n## ")[0]


def options_of(name):
    found = inspect.signature(getattr(App, name)).parameters
    return {key: each.default for key, each in found.items() if key not in ("self", "function")}


@pytest.mark.parametrize("name", DECLARED)
def test_every_option_is_told(name):
    section = section_of(name)

    untold = [
        option
        for option in options_of(name)
        if not re.search(rf"`{option}`|\b{option}=", section)
        and not (name != "task" and option in section)
    ]

    assert [option for option in untold if option != "options"] == []


@pytest.mark.parametrize("name", DECLARED)
def test_defaults_are_those_of_the_code(name):
    told = dict(VALUE.findall(section_of(name).strip().partition(")`")[0] + ")"))
    defaults = options_of(name)

    wrong = {
        option: value
        for option, value in told.items()
        if option in defaults
        and defaults[option] is not inspect.Parameter.empty
        and value not in (repr(defaults[option]), f'"{defaults[option]}"')
    }

    assert wrong == {}
