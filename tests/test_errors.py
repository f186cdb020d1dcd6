"""Errors need no import of their own, travel between processes, and can be extended."""

import copy
import subprocess
import sys

import pytest

from windlass import errors
from windlass.ledger import OutOfStock, Refused


def test_the_module_of_errors_needs_no_import_of_its_own():
    code = "import windlass; assert issubclass(windlass.errors.Unknown, windlass.WindlassError)"

    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    "error",
    [
        Refused("not today", sku="bolt"),
        OutOfStock("bolt", 3, 1),
        errors.AlreadyRunning("load", who="ann"),
        errors.RunLost("load", why="it was released"),
        errors.UnknownHandle("h-1"),
        errors.TaskNotFound(7),
    ],
)
def test_an_error_travels_with_its_fields_and_notes(error):
    error.add_note("seen by a test")

    same = copy.copy(error)  # as pickle does it

    assert (type(same), str(same), same.__notes__) == (type(error), str(error), error.__notes__)
    assert same.facts == error.facts


def test_a_refusal_of_your_own_needs_only_a_message():
    class Sealed(Refused):
        """A warehouse of our own refuses."""

    assert str(Sealed("the warehouse is sealed", gate=4)) == "the warehouse is sealed"
    assert Sealed("the warehouse is sealed", gate=4).facts == {"gate": 4}


def test_an_error_with_fields_can_be_extended_by_an_ordinary_class():
    class Busy(errors.AlreadyRunning):
        reason: str

    assert str(Busy("load", who="ann")) == "control 'load': ann has been running it"
