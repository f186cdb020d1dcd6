"""Random stories against a small model, alone or at the same moment, with an audit at each step."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from copy import deepcopy
from itertools import count, permutations
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from windlass.errors import Refused
from windlass.ledger import IdConflict, Ledger

SKUS = ("a", "b", "c")
EXAMPLES = count(1)

lines = st.dictionaries(st.sampled_from(SKUS), st.integers(1, 4), min_size=1)
orders = st.sampled_from(["o1", "o2", "o3", "o4"])
returns = st.sampled_from(["r1", "r2", "r3"])


class Call(NamedTuple):
    """One call of the ledger."""

    verb: str
    ids: tuple[str, ...]
    lines: tuple[tuple[str, int], ...] = ()

    def __str__(self) -> str:
        return f"{self.verb}{self.ids}{dict(self.lines)}"


calls = st.one_of(
    st.builds(lambda o, b: Call("deduct", (o,), tuple(sorted(b.items()))), orders, lines),
    st.builds(lambda o, b: Call("deduct", (o,), tuple(sorted(b.items()))), orders, lines),
    st.builds(
        lambda o, r, b: Call("give_back", (o, r), tuple(sorted(b.items()))), orders, returns, lines
    ),
    st.builds(
        lambda o, r, b: Call("give_back", (o, r), tuple(sorted(b.items()))), orders, returns, lines
    ),
    st.builds(lambda o: Call("void", (o,)), orders),
    st.builds(lambda o: Call("confirm", (o,)), orders),
    st.builds(lambda r, b: Call("restock", (r,), tuple(sorted(b.items()))), returns, lines),
    st.builds(
        lambda r, b, sign: Call("adjust", (r,), tuple((k, sign * n) for k, n in sorted(b.items()))),
        returns,
        lines,
        st.sampled_from([1, -1]),
    ),
)


class Model:
    """The ledger as a person would keep it: what is there, who took what, what was said."""

    def __init__(self) -> None:
        self.stock: dict[str, int] = {}
        self.taken: dict[str, dict[str, int]] = {}
        self.said: dict[tuple, tuple] = {}
        self.tombs: set[str] = set()

    def answer(self, call: Call) -> tuple:
        """What the ledger must say: done, or the name of the error and its facts."""
        key = (call.verb, *call.ids)
        if call.verb == "confirm":
            return self.confirm(call.ids[0])
        if call.verb == "deduct" and call.ids[0] in self.tombs:
            return ("IdConflict",)
        if key in self.said:
            body, said = self.said[key]
            return said if body == call.lines else ("IdConflict",)
        said = getattr(self, call.verb)(*call.ids, *([dict(call.lines)] if call.lines else []))
        self.said[key] = (call.lines, said)
        return said

    def restock(self, _id: str, body: dict[str, int]) -> tuple:
        for sku, n in body.items():
            self.stock[sku] = self.stock.get(sku, 0) + n
        return ("done", body)

    def adjust(self, _id: str, body: dict[str, int]) -> tuple:
        refused = self.lacking({sku: -n for sku, n in body.items()})
        if refused is None:
            for sku, n in body.items():
                self.stock[sku] += n
        return refused or ("done", body)

    def deduct(self, order: str, body: dict[str, int]) -> tuple:
        refused = self.lacking(body)
        if refused is not None:
            return refused
        for sku, n in body.items():
            self.stock[sku] -= n
        self.taken[order] = dict(body)
        return ("done", body)

    def give_back(self, order: str, _id: str, body: dict[str, int]) -> tuple:
        if order not in self.taken:
            return ("UnknownDeduction", order)
        for sku, n in body.items():
            left = self.taken[order].get(sku, 0)
            if n > left:
                return ("OverReturn", sku, n, left)
        for sku, n in body.items():
            self.taken[order][sku] -= n
            self.stock[sku] += n
        return ("done", body)

    def void(self, order: str) -> tuple:
        left = {sku: n for sku, n in self.taken.get(order, {}).items() if n}
        if order not in self.taken and ("deduct", order) not in self.said:
            self.tombs.add(order)
        for sku, n in left.items():
            self.taken[order][sku] = 0
            self.stock[sku] += n
        return ("done", left)

    def confirm(self, order: str) -> tuple:
        if order in self.tombs:
            return ("NotHeld", order, "voided")
        if ("deduct", order) not in self.said:
            return ("UnknownDeduction", order)
        if order not in self.taken:
            return ("NotHeld", order, "refused")
        # Without a hold it is for good from the start, until it is voided.
        return ("NotHeld", order, "voided") if ("void", order) in self.said else ("done", {})

    def lacking(self, body: dict[str, int]) -> tuple | None:
        for sku, n in body.items():
            if sku not in self.stock:
                return ("UnknownSku", sku)
            if n > self.stock[sku]:
                return ("OutOfStock", sku, n, self.stock[sku])
        return None


def ask(ledger: Ledger, call: Call, place: str) -> tuple:
    """What the ledger says, in the words of the model; `place` keeps examples apart."""

    def there(name: str) -> str:
        return f"{place}{name}"

    def back(fact: object) -> object:
        return fact.removeprefix(place) if isinstance(fact, str) else fact

    body = [(there(sku), n) for sku, n in call.lines]
    try:
        made = getattr(ledger, call.verb)(*map(there, call.ids), *([body] if body else []))
    except IdConflict:
        return ("IdConflict",)
    except Refused as problem:
        return (type(problem).__name__, *map(back, problem.facts.values()))
    return ("done", {back(line.sku): line.quantity for line in getattr(made, "lines", ())})


class Story(RuleBasedStateMachine):
    """Calls one after the other, repeated, and several at the same moment."""

    ledger: Ledger
    threads: ThreadPoolExecutor

    def __init__(self) -> None:
        super().__init__()
        self.place = f"{next(EXAMPLES)}-"
        self.model = Model()
        self.past: list[Call] = []

    @rule(call=calls)
    def do(self, call: Call) -> None:
        assert ask(self.ledger, call, self.place) == self.model.answer(call), str(call)
        self.past.append(call)

    @rule(data=st.data())
    def do_again(self, data: st.DataObject) -> None:
        if self.past:
            self.do(data.draw(st.sampled_from(self.past)))

    @rule(together=st.lists(calls, min_size=2, max_size=4))
    def do_at_once(self, together: list[Call]) -> None:
        """The answers are those of some order, one after the other."""
        said = list(self.threads.map(lambda call: ask(self.ledger, call, self.place), together))
        for order in permutations(range(len(together))):
            model = deepcopy(self.model)
            if all(model.answer(together[i]) == said[i] for i in order):
                rows = self.ledger.stocks([self.place + sku for sku in SKUS])
                if {row.sku[len(self.place) :]: row.available for row in rows} == model.stock:
                    self.model = model
                    self.past += together
                    return
        raise AssertionError(f"no order explains {list(map(str, together))}: {said}")

    @invariant()
    def the_books_balance(self) -> None:
        rows = self.ledger.stocks([self.place + sku for sku in SKUS])
        assert {row.sku[len(self.place) :]: row.available for row in rows} == self.model.stock
        for row in rows:
            entries = self.ledger.entries(row.sku)
            assert sum(entry.quantity for entry in entries) == row.available >= 0
        assert self.ledger.audit().problems == ()


def tell(url: str, *, stories: int, steps: int) -> None:
    with closing(Ledger(url)) as ledger, ThreadPoolExecutor(4) as threads:
        story = type("Story", (Story,), {"ledger": ledger, "threads": threads})
        run_state_machine_as_test(
            story,
            settings=settings(
                max_examples=stories,
                stateful_step_count=steps,
                deadline=None,
                database=None,
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            ),
        )


def test_random_stories_are_told_as_the_model_tells_them(database_url):
    tell(database_url, stories=6, steps=15)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_many_random_stories_are_told_as_the_model_tells_them(database_url):
    tell(database_url, stories=100, steps=30)
