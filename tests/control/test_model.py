"""Any order of starts, steps and ends, by several holders, against a model of named runs."""

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
)
from sqlalchemy import delete

from tests.fixture.machine import campaign, walk
from windlass import App, BadStep
from windlass.clock import SECOND, ManualClock
from windlass.control import operate as control
from windlass.control.model.argument import ControlKey
from windlass.control.model.control import RunStatus
from windlass.database.schema import control as control_table
from windlass.database.schema import control_run

HOUR = 3600 * SECOND
PLACES = [ControlKey("load"), ControlKey("load", "p"), ControlKey("Load")]
NUMBERS, NAMES = (1, 2, 3), ("a", "b", "c")
# Of a step that was done without a function.
NO_RESULT = object()

places = st.sampled_from(PLACES)
holders = st.integers(0, 2)
steps = st.sampled_from([*NUMBERS, *NAMES])


class Model:
    """One run, told in sets and lists: what is done, what was asked for, who holds it."""

    def __init__(self):
        self.status = RunStatus.READY
        self.holder = None
        self.expires = None
        self.tries = 0
        self.order = []
        self.done = {}
        self.asked = []
        self.under_way = None
        self.ended = []

    def start(self, holder, hour, lasting):
        if self.status is RunStatus.RUNNING:
            if self.expires is None or hour < self.expires:
                return 8
            self.ended.insert(0, "expired")
        if self.status in (RunStatus.RUNNING, RunStatus.FAILED):
            self.tries += 1
        else:
            self.tries, self.order, self.done = 1, [], {}
        self.status, self.holder = RunStatus.RUNNING, holder
        self.expires = None if lasting is None else hour + lasting
        self.asked, self.under_way = [], None
        return 0

    def step(self, step):
        """The code: 451 if the step is out of order."""
        if step in NAMES and step in self.order and step not in self.asked:
            before = self.order[: self.order.index(step)]
            if any(one in NAMES and one in self.done and one not in self.asked for one in before):
                return 451
        if step in self.done:
            self._ask(step)
            return 2
        if step in NUMBERS and any(one > step for one in self.asked if one in NUMBERS):
            return 451
        if self.under_way not in (None, step):
            self.done[self.under_way] = NO_RESULT
        self.under_way = step
        self._ask(step)
        return 0

    def _ask(self, step):
        if step not in self.asked:
            place = 1 + max((self.order.index(one) for one in self.asked), default=-1)
            if step in self.done:
                place = self.order.index(step)
            elif step in self.order:
                place -= self.order.index(step) < place
            if step in self.order:
                self.order.remove(step)
            self.order.insert(place, step)
            self.asked.append(step)

    def keep(self, step, result):
        """A step with a function: it is done at once, with its result."""
        self.done[step] = result
        self.under_way = None

    def reset(self):
        self.status, self.tries = RunStatus.READY, 0
        self.done, self.order, self.asked = {}, [], []

    def end(self, status, why):
        if self.under_way is not None and status is RunStatus.SUCCEEDED:
            self.done[self.under_way] = NO_RESULT
        self.under_way = None
        self.status = status
        self.ended.insert(0, why)


class Runs(RuleBasedStateMachine):
    """Three apps as in three processes; each sends the batch of what it started itself."""

    url: str

    def __init__(self):
        super().__init__()
        self.clock = ManualClock()
        self.apps = [App(self.url, clock=self.clock) for _ in range(3)]
        self.models = {place: Model() for place in PLACES}
        # The number of the start that each app believes in; None: whatever runs now.
        self.beliefs = [dict.fromkeys(PLACES) for _ in range(3)]
        self.starts = 0
        self.hour = 0

    @initialize()
    def begin(self):
        def empty(connection):
            connection.execute(delete(control_table))
            connection.execute(delete(control_run))

        self.apps[0].prepare()
        self.apps[0].database.write(empty)

    def teardown(self):
        for app in self.apps:
            app.close()

    def _may(self, holder, place):
        model, belief = self.models[place], self.beliefs[holder][place]
        return model.status is RunStatus.RUNNING and belief in (None, model.holder)

    @rule(place=places, holder=holders, lasting=st.sampled_from([None, 1, 3]))
    def start(self, place, holder, lasting):
        number = self.starts = self.starts + 1
        code = self.models[place].start(number, self.hour, lasting)

        expires = None if lasting is None else f"{lasting}h"
        reply = self.apps[holder].control.start(*place, expires=expires)

        assert reply.code == code
        if code == 0:
            self.beliefs[holder][place] = number

    @rule(place=places, holder=holders, step=steps)
    def step(self, place, holder, step):
        code = self.models[place].step(step) if self._may(holder, place) else 451

        reply = self.apps[holder].control.step(place.name, step, place.partition)

        assert reply.code == code

    @rule(place=places, holder=holders)
    def finish(self, place, holder):
        may = self._may(holder, place)

        reply = self.apps[holder].control.finish(*place)

        assert reply.code == (0 if may else 451)
        if may:
            self._ended(place, holder, RunStatus.SUCCEEDED, None)

    @rule(place=places, holder=holders)
    def error(self, place, holder):
        may = self._may(holder, place)

        reply = self.apps[holder].control.error(place.name, "boom", place.partition)

        assert reply.code == (0 if may else 451)
        if may:
            self._ended(place, holder, RunStatus.FAILED, "boom")

    @rule(place=places)
    def release(self, place):
        may = self.models[place].status is RunStatus.RUNNING

        app = self.apps[0]
        reply = control.release(app.fleet, place, who="ops")

        assert reply.code == (0 if may else 451)
        if may:
            self.models[place].end(RunStatus.FAILED, "released by ops")

    @rule(place=places)
    def reset(self, place):
        may = self.models[place].status is RunStatus.FAILED

        reply = control.reset(self.apps[0].fleet, place)

        assert reply.code == (0 if may else 451)
        if may:
            self.models[place].reset()

    @rule(hours=st.sampled_from([1, 2]))
    def wait(self, hours):
        self.clock.advance(hours * HOUR)
        self.hour += hours

    @rule(place=places, step=steps, result=st.integers())
    def block(self, place, step, result):
        """A whole block that takes one step with a function, and fails."""
        model = self.models[place]
        number = self.starts = self.starts + 1
        if model.start(number, self.hour, None) == 8:
            return
        code = model.step(step)
        remembered = model.done.get(step) if code == 2 else result

        with pytest.raises((LookupError, BadStep)), self.apps[0].control(*place) as run:
            assert run.step(step, lambda: result) == remembered
            raise LookupError

        if code == 0:
            model.keep(step, result)
        error = "BadStep" if code == 451 or remembered is NO_RESULT else "LookupError"
        model.end(RunStatus.FAILED, error)

    @invariant()
    def each_row_is_as_the_model_foretells(self):
        for place, model in self.models.items():
            row = self.apps[0].control.get(*place)
            if row is None:
                assert model.status is RunStatus.READY
                continue
            assert (row.status, row.tries) == (model.status, model.tries)
            assert [step.step for step in row.steps] == model.order
            assert {step.step for step in row.steps if step.is_done} == model.done.keys()

    @invariant()
    def each_try_that_ended_is_remembered(self):
        for place, model in self.models.items():
            tries = control.history(self.apps[0].fleet, place, limit=100)
            told = [None if run.error is None else run.error.splitlines()[0] for run in tries]
            assert [None if one is None else one.split(":")[0] for one in told] == model.ended

    def _ended(self, place, holder, status, why):
        model = self.models[place]
        if self.beliefs[holder][place] == model.holder:
            self.beliefs[holder][place] = None
        model.end(status, why)


@pytest.mark.mostly("postgresql")
def test_any_order_of_calls_leaves_the_runs_that_the_model_foretells(database_engine, database_url):
    examples = 12 if database_engine == "sqlite" else 6
    walk(Runs, database_engine, database_url, examples=examples, steps=40)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_long_campaign_of_calls_leaves_the_runs_that_the_model_foretells(
    database_engine, database_url
):
    campaign(Runs, database_engine, database_url, steps=40)
