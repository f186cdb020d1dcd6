"""Random graphs that are retried, skipped, cancelled and edited, against a simple oracle.

The oracle knows how each node ended by itself, if it did, and derives everything else from that
with plain words about the parents; it shares no code with the engine.
"""

from copy import deepcopy
from dataclasses import dataclass, field

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from sqlalchemy import select

from tests.core.fetch.manual_worker import Hand
from tests.flow.manual_worker import End
from windlass import BadFlow, Status
from windlass.database.schema import task
from windlass.flow.model.graph import How
from windlass.value.outcome import Cancelled, Failed, Succeeded

pytestmark = pytest.mark.mostly("sqlite")

TRIGGERS = ("all_success", "all_done", "any_success")
OUTCOMES = {
    "ok": (Succeeded(), How.SUCCEEDED),
    "bad": (Failed("broken", "broken"), How.FAILED),
    "passed": (Cancelled("skipped: when", is_skipped=True), How.SKIPPED),
}
ENDS = {
    "ok": Status.SUCCEEDED,
    "bad": Status.FAILED,
    "cancelled": Status.CANCELLED,
    "passed": Status.CANCELLED,
}
STEPS = (
    *("take", "ok", "ok", "bad", "bad", "bad", "passed", "both", "stale"),
    *("retry", "retry one", "retry one", "skip", "skip", "cancel", "add", "link", "unlink"),
)


@dataclass
class Node:
    """What the oracle knows of a node."""

    after: list[int]
    trigger: str
    # How it ended by itself: ok, bad, passed (its condition did not hold) or cancelled.
    own: str | None = None
    is_due: bool = False
    has_begun: bool = False
    # How it ended because of its parents: bad or passed.
    derived: str | None = None

    def begin_again(self):
        self.own, self.is_due, self.has_begun = None, False, False

    @property
    def end(self):
        return self.own or self.derived


@dataclass
class Oracle:
    """The nodes as they must be."""

    nodes: list[Node]
    is_cancelled: bool = False
    running: dict[int, object] = field(default_factory=dict)

    def copy(self):
        return Oracle(deepcopy(self.nodes), self.is_cancelled, dict(self.running))

    def wanted(self, node):
        """What the parents of a node say: due, wait, or the ways in which it may have ended."""
        ends = [self.nodes[parent].end for parent in node.after]
        bad = {"passed" if end == "passed" else "bad" for end in ends if end not in (None, "ok")}
        if node.trigger == "all_success" and bad:
            return bad
        if node.trigger == "any_success" and "ok" in ends:
            return "due"
        if None in ends:
            return "wait"
        return bad if node.trigger == "any_success" and bad else "due"

    def in_order(self):
        seen = []
        while len(seen) < len(self.nodes):
            seen += [
                number
                for number, node in enumerate(self.nodes)
                if number not in seen and set(node.after) <= set(seen)
            ]
        return seen

    def settle(self, statuses):
        """Derive what follows; where two ends are right, the one that the database has."""
        for number in self.in_order():
            node = self.nodes[number]
            node.derived = None
            if node.own is not None or node.is_due:
                continue
            wanted = self.wanted(node)
            if isinstance(wanted, set):
                kept = {end for end in wanted if ENDS[end] is statuses.get(number)}
                node.derived = next(iter(kept or wanted))
            else:
                node.is_due = wanted == "due"

    def below(self, number):
        found, queue = set(), [number]
        while queue:
            parent = queue.pop()
            more = {i for i, node in enumerate(self.nodes) if parent in node.after} - found
            found |= more
            queue += more
        return found

    def reopen_below(self, number):
        """What was cancelled before it began waits again for what is above it."""
        for below in self.below(number):
            node = self.nodes[below]
            if node.own == "cancelled" and not node.has_begun:
                node.begin_again()

    @property
    def open(self):
        return [node for node in self.nodes if node.end is None]

    @property
    def status(self):
        if self.open:
            return Status.RUNNING
        if self.is_cancelled:
            return Status.CANCELLED
        ends = {node.end for node in self.nodes}
        if "bad" in ends:
            return Status.FAILED
        return Status.CANCELLED if "cancelled" in ends else Status.SUCCEEDED


class World:
    """A run with a worker that is moved by hand, and the oracle beside it."""

    def __init__(self, app, start, nodes):
        self.app = app
        self.hand = Hand(app)
        self.oracle = Oracle([Node(list(after), trigger) for after, trigger in nodes])
        self.run = start(nodes)
        self.stale = []
        self.check()

    def rows(self):
        query = select(task.c.id, task.c.status, task.c.open_slots, task.c.remark).where(
            task.c.flow_id == self.run.id
        )
        run, *rows = self.app.database.read(
            lambda connection: connection.execute(query.order_by(task.c.id)).all()
        )
        return run, rows

    def check(self):
        """The database is as the oracle says."""
        run, rows = self.rows()
        self.oracle.settle({number: Status(row.status) for number, row in enumerate(rows)})
        assert len(rows) == len(self.oracle.nodes)
        for number, (node, row) in enumerate(zip(self.oracle.nodes, rows, strict=True)):
            if node.end is not None:
                assert row.status == ENDS[node.end], (number, node, row)
            elif node.is_due:
                is_running = number in self.oracle.running
                assert row.status == (Status.RUNNING if is_running else Status.WAITING), number
            else:
                left = [each for each in node.after if self.oracle.nodes[each].end is None]
                assert left, f"{number} waits for nothing"
                assert (row.status, row.open_slots) == (Status.BLOCKED, len(left)), number
            if node.derived is not None:
                assert row.remark.startswith(("blocked by n", "skipped: n"))
        assert run.status == self.oracle.status
        assert run.open_slots == len(self.oracle.open)

    def take(self, choice):
        claimed = self.hand.claim(1)
        for taken in claimed:
            number = msgspec.json.decode(taken.payload)["index"]
            node = self.oracle.nodes[number]
            assert node.is_due
            assert number not in self.oracle.running
            self.oracle.running[number] = taken
            node.has_begun = True
        return claimed

    def end(self, choice, end, count=1):
        while len(self.oracle.running) < count and self.take(choice):
            pass
        numbers = sorted(self.oracle.running)
        chosen = [numbers[(choice + i) % len(numbers)] for i in range(min(count, len(numbers)))]
        ended = [(number, self.oracle.running.pop(number)) for number in chosen]
        assert self.finish([taken for _, taken in ended], end) == {each.id for _, each in ended}
        for number, _ in ended:
            self.oracle.nodes[number].own = end

    def finish(self, taken, end):
        if not taken:
            return set()
        outcome, _how = OUTCOMES[end]
        return End(self.hand, taken, outcome).write()

    def late(self, choice):
        """Outcomes of what was skipped or cancelled meanwhile are refused."""
        assert self.finish(self.stale, "bad") == set()
        self.stale = []

    def forget(self, number):
        taken = self.oracle.running.pop(number, None)
        if taken is not None:
            self.stale.append(taken)

    def change(self, call, expected):
        """Call what changes the run, which must be refused unless the oracle has an answer."""
        if expected is None:
            with pytest.raises(BadFlow):
                call()
        else:
            call()
            self.oracle = expected

    def retry(self, choice):
        expected = self.oracle.copy()
        for node in expected.nodes:
            if node.own in ("bad", "cancelled"):
                node.begin_again()
        expected.is_cancelled = False
        self.change(self.run.retry, expected)

    def some(self, choice):
        """A node, mostly one that did not end well."""
        numbers = range(len(self.oracle.nodes))
        failed = [each for each in numbers if self.oracle.nodes[each].own in ("bad", "cancelled")]
        return failed[choice % len(failed)] if failed and choice % 4 else choice % len(numbers)

    def retry_one(self, choice):
        number = self.some(choice)
        expected = None
        if self.oracle.nodes[number].own in ("bad", "cancelled"):
            expected = self.oracle.copy()
            expected.nodes[number].begin_again()
            expected.reopen_below(number)
            expected.is_cancelled = False
            expected.settle({})
            expected = None if expected.nodes[number].derived else expected
        self.change(lambda: self.run.retry(f"n{number}"), expected)

    def skip(self, choice):
        number = self.some(choice)
        expected = None
        if self.oracle.nodes[number].own != "ok":
            self.forget(number)
            expected = self.oracle.copy()
            expected.nodes[number].own = "ok"
            expected.reopen_below(number)
            expected.is_cancelled = False
        self.change(lambda: self.run.skip(f"n{number}"), expected)

    def cancel(self, choice):
        if choice % 3:
            return
        is_running = self.oracle.status is Status.RUNNING
        assert self.run.cancel() is is_running
        if is_running:
            self.oracle.is_cancelled = True
            for number in list(self.oracle.running):
                self.forget(number)
            for node in self.oracle.open:
                node.own = "cancelled"

    def add(self, choice):
        number = len(self.oracle.nodes)
        after = sorted({choice % number, choice // 7 % number})
        trigger = TRIGGERS[choice % len(TRIGGERS)]
        expected = None
        if self.oracle.status is Status.RUNNING:
            expected = self.oracle.copy()
            expected.nodes.append(Node(after, trigger))
        names = [f"n{parent}" for parent in after]
        options = {"name": f"n{number}", "after": names, "trigger": trigger}
        self.change(lambda: self.run.edit(lambda it: it.add("node", number, **options)), expected)

    def edge(self, choice, is_new):
        count = len(self.oracle.nodes)
        parent, child = choice % count, choice // count % count
        node = self.oracle.nodes[child]
        is_waiting = node.end is None and not node.is_due
        fits = (parent in node.after) is not is_new
        if is_new and (parent == child or parent in self.oracle.below(child)):
            fits = False
        expected = None
        if self.oracle.status is Status.RUNNING and is_waiting and fits:
            expected = self.oracle.copy()
            after = expected.nodes[child].after
            after.append(parent) if is_new else after.remove(parent)
            expected.reopen_below(child)
            expected.settle({})
            expected = None if expected.nodes[child].derived else expected

        def change(edit):
            (edit.link if is_new else edit.unlink)(f"n{parent}", f"n{child}")

        self.change(lambda: self.run.edit(change), expected)

    def step(self, name, choice):
        match name:
            case "ok" | "bad" | "passed":
                self.end(choice, name)
            case "both":
                self.end(choice, ("ok", "bad")[choice % 2], count=2)
            case "link" | "unlink":
                self.edge(choice, name == "link")
            case _:
                steps = {"take": self.take, "stale": self.late, "retry": self.retry}
                steps |= {"retry one": self.retry_one, "skip": self.skip}
                steps |= {"cancel": self.cancel, "add": self.add}
                steps[name](choice)
        self.check()

    def work_off(self):
        """Take and end everything; the run must have ended then."""
        while any(node.is_due and node.own is None for node in self.oracle.nodes):
            self.take(0)
            self.end(0, "ok", count=len(self.oracle.running))
            self.check()
        assert self.oracle.status.is_final


@pytest.fixture
def start(app):
    """Starts a run of a graph."""
    graph, runs = [], []

    @app.task
    async def node(index: int) -> None: ...

    @app.flow
    def drawn(flow):
        for index, (after, trigger) in enumerate(graph):
            names = [f"n{parent}" for parent in after]
            flow.add(node, index, after=names, trigger=trigger, name=f"n{index}")

    def start(nodes):
        for run in runs:
            # An example that failed has left something behind.
            run.cancel()
        graph[:] = nodes
        runs[:] = [drawn.start()]
        return runs[0]

    return start


@st.composite
def graphs(draw):
    """Nodes, each with what it waits for among those before it, and its trigger."""
    nodes = []
    for index in range(draw(st.integers(4, 8))):
        after = (
            draw(st.sets(st.integers(0, index - 1), min_size=1, max_size=3)) if index > 1 else set()
        )
        nodes.append((sorted(after), draw(st.sampled_from(TRIGGERS))))
    return nodes


@settings(
    max_examples=40,
    deadline=None,
    # To make a failure smaller takes longer than a test may; the examples are small.
    phases=[Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    nodes=graphs(),
    steps=st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 99)), min_size=12, max_size=30),
)
def test_whatever_is_changed_in_whatever_order_no_node_is_forgotten_or_too_early(
    app, start, nodes, steps
):
    world = World(app, start, nodes)

    for name, choice in steps:
        world.step(name, choice)

    world.work_off()
