"""What users do in a walk, while workers work."""

import random
from typing import Any

from tests.core.ring.late import make_rows
from tests.simulation.actor import Actor
from tests.simulation.oracle import Oracle, Row, Violation
from tests.simulation.stage import Stage
from windlass import App
from windlass.clock import ManualClock
from windlass.core.fetch.claim import Only
from windlass.core.task.store import task as task_store
from windlass.errors import DuplicateKey
from windlass.rolling import engine

MOST_OPEN_ROWS = 14
MOST_VISITED = 5
CODES = [f"code-{number}" for number in range(6)]
KEYS = [f"key-{number}" for number in range(4)]


class Users:
    """Enqueue, cancel, replace, add, remove, hurry, visit, and switch kinds off and on.

    Each answers False if it could not be done.
    """

    stage: Stage
    app: App
    clock: ManualClock
    oracle: Oracle
    actors: list[Actor]
    _late: list[tuple[Any, Row]]
    _held_back: set[str]

    def _add_actor(self, new: Actor) -> None:
        raise NotImplementedError

    def _enqueue(self, actor: Actor, rng: random.Random) -> bool | None:
        if len(self.oracle.open_rows()) >= MOST_OPEN_ROWS:
            return False
        name = rng.choice(("job", "quick", "rare", "job", "named"))
        if name == "named":
            return self._enqueue_named(rng, "raise")
        kind = getattr(self.stage, name).using(priority=rng.choice((0, 0, 1)))
        self._note(kind.enqueue().id, Row(name))
        return None

    def _replace(self, actor: Actor, rng: random.Random) -> bool | None:
        return self._enqueue_named(rng, "replace")

    def _enqueue_named(self, rng: random.Random, on_conflict: str) -> bool | None:
        kind = self.stage.named.using(key=rng.choice(KEYS), on_conflict=on_conflict)
        try:
            number = kind.enqueue(rng.randrange(1000)).id
        except DuplicateKey:
            return False
        row = self.oracle.rows.get(number)
        if row is None:
            self._note(number, Row("named"))
            return None
        row.cycle += 1
        row.is_ended = row.is_cancelled = row.is_counted = False
        return None

    def _poison(self, actor: Actor, rng: random.Random) -> bool | None:
        if len(self.oracle.open_rows()) >= MOST_OPEN_ROWS:
            return False
        self._note(self.stage.job.enqueue().id, Row("job", is_poison=True))
        return None

    def _enqueue_late(self, actor: Actor, rng: random.Random) -> bool | None:
        """A user's transaction has taken its time, and will commit later."""
        if len(self._late) > 3 or len(self.oracle.open_rows()) >= MOST_OPEN_ROWS:
            return False
        self._late.append((make_rows(self.app, "job", 1), Row("job")))
        return None

    def _commit_late(self, actor: Actor, rng: random.Random) -> bool | None:
        if not self._late:
            return False
        rows, row = self._late.pop(rng.randrange(len(self._late)))
        database = self.app.database
        database.write(lambda connection: task_store.insert(connection, database.dialect, rows))
        self._note(rows[0].id, row)
        return None

    def _add(self, actor: Actor, rng: random.Random) -> bool | None:
        code = rng.choice(CODES)
        if not self.stage.item.add([code]):
            return False
        self._note(self._item(code), Row("item", is_item=True))
        return None

    def _remove(self, actor: Actor, rng: random.Random) -> bool | None:
        code = rng.choice(CODES)
        number = self._item(code)
        if number is None or not self.stage.item.remove([code]):
            return False
        if self._item(code) is None:
            self.oracle.rows[number].is_removed = True
        else:
            # It goes when its run ends; if that is added again before, it stays.
            self.oracle.rows[number].is_removed = False
            self.stage.item.add([code])
        return None

    def _hurry(self, actor: Actor, rng: random.Random) -> bool | None:
        code = rng.choice(CODES)
        if self._item(code) is None:
            return False
        engine.hurry(self.app.fleet.shards[0], self.app.registry.get("item"), [code])
        return None

    def _visit(self, actor: Actor, rng: random.Random) -> bool | None:
        """Somebody joins for one item, as callers do who see nobody else."""
        number = self._item(rng.choice(CODES))
        if number is None or sum(actor.is_here for actor in self.actors) >= MOST_VISITED:
            return False
        self._add_actor(
            Actor(self.stage, len(self.actors), ["item"], only=Only(number, is_rested=False))
        )
        return None

    def _cancel(self, actor: Actor, rng: random.Random) -> bool | None:
        open_rows = [each for each in self.oracle.open_rows() if not self.oracle.rows[each].is_item]
        if not open_rows:
            return False
        number = rng.choice(open_rows)
        if not self.app.cancel(number):
            raise Violation(f"S3 row {number} is open and cannot be cancelled")
        row = self.oracle.rows[number]
        row.is_cancelled, row.is_counted = True, False
        runs = (run for each in self.actors for run in each.running if run.task.id == number)
        self.oracle.excuse(runs)
        return None

    def _retry(self, actor: Actor, rng: random.Random) -> bool | None:
        """Let a row run again that was cancelled."""
        rows = [number for number, row in self.oracle.rows.items() if row.is_cancelled]
        if not rows:
            return False
        number = rng.choice(rows)
        now = self.clock.now()
        self.app.database.write(lambda connection: task_store.retry(connection, [number], now=now))
        row = self.oracle.rows[number]
        row.cycle += 1
        row.is_cancelled = row.is_ended = False
        return None

    def _switch(self, actor: Actor, rng: random.Random) -> None:
        """Switch a kind off, or on again."""
        kind = rng.choice(("job", "item"))
        if kind in self._held_back:
            self._held_back.remove(kind)
            self.app.resume(kind)
        else:
            self._held_back.add(kind)
            self.app.pause(kind)

    def _note(self, number: int | None, row: Row) -> None:
        assert number is not None
        self.oracle.rows[number] = row

    def _item(self, code: str) -> int | None:
        query = "select id from windlass_task where kind = 'item' and task_key = ?"
        found = self.stage.ask(query, code)
        return found[0][0] if found else None
