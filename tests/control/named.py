"""What tests of named runs share."""

from windlass.control import store
from windlass.control.model.argument import ControlKey


def steps_of(row):
    """The steps of a run, and whether each is done."""
    return {step.step: step.is_done for step in row.steps}


def history(app, name, partition=""):
    """The tries of a run that ended, newest first."""
    return app.database.read(
        lambda connection: store.history(connection, ControlKey(name, partition), limit=200)
    )


def fail(app, name, *steps):
    """A try that takes these steps and fails in the last of them."""
    assert app.control.start(name).code == 0
    for step in steps:
        app.control.step(name, step)
    assert app.control.error(name, "boom").code == 0
