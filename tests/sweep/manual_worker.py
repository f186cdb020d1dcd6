"""Workers that walk over ranges of whole numbers, each statement moved by hand."""

from collections.abc import Sequence

from tests.core.fetch.manual_worker import Hand
from windlass import App
from windlass.source.contract import decode_key, encode_key
from windlass.sweep.model import Range, RangeOrder, Tile, tiles
from windlass.sweep.store import failed_item
from windlass.sweep.store import range as ranges
from windlass.sweep.store import sweep as rounds
from windlass.sweep.store.failed_item import FailedItem
from windlass.sweep.store.range import Claim, ClaimRequest, Completed, Save
from windlass.value.status import Status

SWEEP = "offer"


def key(number: int | None) -> str | None:
    return None if number is None else encode_key(number)


def number(text: str | None) -> int:
    return 0 if text is None else decode_key(text)


class Owner:
    """What a worker believes of a range that it claimed."""

    def __init__(self, claim: Claim, last: int) -> None:
        self.claimed = claim.range
        self.poison = claim.poison
        self.end = claim.range.end
        self.last = last
        self.breakpoint = number(claim.range.breakpoint)
        self.read_to = self.breakpoint
        self.begun = self.breakpoint
        self.again_to = claim.range.again_to
        self.is_careful = claim.range.is_careful
        self.todo: list[int] = []
        self.done: set[int] = set()
        self.failures: list[FailedItem] = []

    @property
    def until(self) -> int:
        """The last key that it may hold, as far as it knows."""
        return self.last if self.end is None else number(self.end)

    def run(self, item: int) -> None:
        self.todo.remove(item)
        self.done.add(item)
        while self.breakpoint + 1 in self.done:
            self.breakpoint += 1

    def save(self) -> Save:
        return Save(
            id=self.claimed.id,
            batch=self.claimed.batch,
            breakpoint=key(self.breakpoint) if self.breakpoint else self.claimed.breakpoint,
            done=self.claimed.done + self.breakpoint - self.begun,
            failed=self.claimed.failed,
            repeated=self.claimed.repeated,
            again_to=self.again_to,
            is_careful=self.is_careful,
            failures=self.failures,
        )


class SweepHand(Hand):
    """One life of a worker, with ranges over the keys from 1 to `last`."""

    def __init__(self, app: App, last: int) -> None:
        super().__init__(app)
        self.last = last

    def claim(self, *, order: RangeOrder = RangeOrder.ASC, is_alone: bool = True) -> Owner | None:
        batch = self.numbers.take()[0]
        return self.claim_again(batch, order=order, is_alone=is_alone)

    def claim_again(self, batch: int, **wish) -> Owner | None:
        wish = {"order": RangeOrder.ASC, "is_alone": True, **wish}
        numbers = self.numbers.take(2)
        request = ClaimRequest(
            sweep=SWEEP,
            max_lost=3,
            batch=batch,
            worker=self.id,
            now=self.app.clock.now(),
            numbers=numbers,
            **wish,
        )
        found = self.database.write_as(
            self.id, lambda connection: ranges.claim(connection, request), lost=None
        )
        return None if found is None else Owner(found, self.last)

    def reserve(self, owner: Owner, count: int) -> bool:
        """Reserve the next keys, and know them; if the end has moved, know that instead."""
        wanted = min(owner.read_to + count, owner.until)
        if owner.again_to is not None:
            wanted = min(wanted, number(owner.again_to))

        def work(connection):
            assert owner.claimed.batch is not None
            seen = owner.claimed._replace(end=owner.end, again_to=owner.again_to)
            return ranges.reserve(connection, seen, key(wanted))

        if not self.database.write(work):
            found = look(self.app, owner.claimed.id)
            if found is not None:
                owner.end = found.end
            return False
        owner.todo += range(owner.read_to + 1, wanted + 1)
        owner.read_to = wanted
        return True

    def save(self, owner: Owner) -> bool:
        if owner.again_to is not None and owner.breakpoint >= number(owner.again_to):
            owner.again_to, owner.is_careful = None, False

        def work(connection):
            now = self.app.clock.now()
            return ranges.save(connection, owner.save(), sweep=SWEEP, now=now)

        is_saved = self.database.write_as(self.id, work, lost=False)
        if is_saved:
            owner.failures = []
        return is_saved

    def complete(self, owner: Owner) -> Completed:
        def work(connection):
            now = self.app.clock.now()
            return ranges.complete(connection, owner.save(), sweep=SWEEP, end=owner.end, now=now)

        return self.database.write_as(self.id, work, lost=Completed(False))


def begin(app: App, bounds: Sequence[int], last: int, *, redo: int | None = None) -> list[Range]:
    """A round over the keys from 1 to `last`, cut at these keys."""
    app.prepare()
    cut: list[Tile] = tiles([key(bound) for bound in bounds], last)
    numbers = SweepHand(app, last).numbers.take(len(cut))

    def work(connection):
        now = app.clock.now()
        dialect = app.database.dialect
        rounds.declare(
            connection, dialect, SWEEP, ranges=len(cut), redo=redo, source="numbers", now=now
        )
        before = rounds.get(connection, SWEEP)
        return rounds.open_round(connection, before, cut, numbers=numbers, rows=last, now=now)

    app.database.write(work)
    return listing(app)


def listing(app: App) -> list[Range]:
    return app.database.read(lambda connection: ranges.listing(connection, SWEEP))


def look(app: App, id_: int) -> Range | None:
    return app.database.read(lambda connection: ranges.get(connection, id_))


def row(app: App) -> rounds.SweepRow:
    return app.database.read(lambda connection: rounds.get(connection, SWEEP))


def history(app: App):
    return app.database.read(lambda connection: rounds.rounds(connection, SWEEP))


def split(app: App, seen: Range, middle: int) -> bool:
    number_ = SweepHand(app, 0).numbers.take()[0]
    return app.database.write(
        lambda connection: ranges.split(connection, seen, middle=key(middle), number=number_)
    )


def merge(app: App, one: Range, other: Range) -> bool:
    return app.database.write(lambda connection: ranges.merge(connection, one, other))


def failures(app: App):
    return app.database.read(lambda connection: failed_item.listing(connection, SWEEP, limit=1_000))


def open_ranges(app: App) -> list[Range]:
    return [each for each in listing(app) if each.status is not Status.SUCCEEDED]
