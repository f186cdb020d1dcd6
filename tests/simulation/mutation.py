"""Guards taken away one at a time, to see that the simulation notices."""

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import text, update

from tests.simulation.stage import Stage
from windlass.core.fetch import owner as read
from windlass.core.fetch import store as fetch_store
from windlass.core.fetch.owner import BucketReader
from windlass.core.ring import ring
from windlass.core.ring import store as ring_store
from windlass.core.ring.ring import write_down
from windlass.core.run.in_flight import InFlight, KnownRows
from windlass.database.dialect.base import Stamp
from windlass.database.dialect.statement import ABANDONED, AS_TAKEN
from windlass.database.schema import bucket as bucket_table

Mutation = Callable[[pytest.MonkeyPatch, Stage], None]


def the_dead_may_write(patch: pytest.MonkeyPatch, stage: Stage) -> None:
    dialect = stage.app.database.dialect
    patch.setattr(dialect, "lock_worker", dialect.alive)
    patch.setattr(dialect, "alive", lambda *_asked, **_options: True)


def an_outcome_counts_whatever_became_of_its_row(patch: pytest.MonkeyPatch, stage: Stage) -> None:
    check_less(patch, stage, as_taken="0 <")


def an_outcome_counts_whenever_its_row_is_due(patch: pytest.MonkeyPatch, stage: Stage) -> None:
    check_less(patch, stage, as_taken="+t.status = 0 and t.batch is null and 0 <")


def check_less(patch: pytest.MonkeyPatch, stage: Stage, *, as_taken: str) -> None:
    """Have outcomes written if `as_taken` is true of rows that were read."""
    dialect: Any = stage.app.database.dialect
    for statements in (dialect._change, dialect._remove):
        said = statements[True].text
        assert AS_TAKEN[True] in said
        patch.setitem(statements, True, text(said.replace(AS_TAKEN[True], as_taken)))


def what_still_runs_is_not_marked_when_its_bucket_goes(
    patch: pytest.MonkeyPatch, stage: Stage
) -> None:
    def forgetful(database: Any, hold: Any, runs: Any, stamp: Any, **options: Any) -> None:
        write_down(database, hold, [] if options else runs, stamp, **options)

    patch.setattr(ring, "write_down", forgetful)


def what_has_ended_is_not_marked_when_its_bucket_goes(
    patch: pytest.MonkeyPatch, stage: Stage
) -> None:
    def forgetful(database: Any, hold: Any, runs: Any, stamp: Any, **options: Any) -> None:
        running = [run for run in runs if run.task.id in hold.running]
        write_down(database, hold, running if options else runs, stamp, **options)

    patch.setattr(ring, "write_down", forgetful)


def what_has_not_begun_is_kept_when_its_bucket_goes(
    patch: pytest.MonkeyPatch, stage: Stage
) -> None:
    patch.setattr(InFlight, "forget_reads", lambda _hold, _is_meant: None)


def nobody_is_careful_after_a_death(patch: pytest.MonkeyPatch, stage: Stage) -> None:
    patch.setattr(
        ring_store,
        "abandon_buckets",
        lambda connection, worker, now: ring_store.leave_buckets(connection, worker),
    )


def the_buckets_of_the_dead_stay_theirs(patch: pytest.MonkeyPatch, stage: Stage) -> None:
    patch.setattr(ring_store, "abandon_buckets", lambda _connection, _worker, now: None)


def the_cursor_never_starts_over(patch: pytest.MonkeyPatch, stage: Stage) -> None:
    patch.setattr(BucketReader, "start_over", lambda _self, **_asked: False)
    patch.setattr(read, "JUST_NOW", 0)
    patch.setattr(read, "A_MOMENT", 0)


def a_bucket_is_taken_from_its_owner(patch: pytest.MonkeyPatch, stage: Stage) -> None:
    def acquire(connection: Any, worker: int, wanted: range) -> None:
        if wanted:
            mine = bucket_table.c.bucket.between(wanted[0], wanted[-1])
            connection.execute(update(bucket_table).where(mine).values(owner=worker))

    patch.setattr(ring_store, "acquire", acquire)


def a_lapsed_claim_is_anybodys(patch: pytest.MonkeyPatch, stage: Stage) -> None:
    dialect: Any = stage.app.database.dialect
    lapsed = ABANDONED.replace("where left_at is not null", "where left_at is not null or 1")

    def abandoned(
        connection: Any, kinds: Any, *, now: int, limit: int, lock: bool = True
    ) -> list[Any]:
        listed, parameters = dialect.texts(kinds)
        statement = text(lapsed.format(hint=dialect.hint, lock="", kinds=listed))
        asked = {"now": now, "limit": limit, **parameters}
        return list(connection.execute(statement, asked).fetchall())

    patch.setattr(dialect, "abandoned", abandoned)


def claims_whose_answer_was_lost_are_not_handed_back(
    patch: pytest.MonkeyPatch, stage: Stage
) -> None:
    hand_back = ring_store.hand_back

    def only_at_the_exit(connection: Any, **options: Any) -> int:
        return 0 if "unless" in options else hand_back(connection, **options)

    patch.setattr(ring_store, "hand_back", only_at_the_exit)


def what_runs_is_offered(patch: pytest.MonkeyPatch, stage: Stage) -> None:
    patch.setattr(KnownRows, "ids", property(lambda _hold: set()))
    patch.setattr(KnownRows, "__len__", lambda _rows: 0)


def what_is_held_is_read_again(patch: pytest.MonkeyPatch, stage: Stage) -> None:
    patch.setattr(KnownRows, "new", lambda _hold, tasks: list(tasks))


def a_visit_takes_what_its_owner_may_run(patch: pytest.MonkeyPatch, stage: Stage) -> None:
    patch.setattr(fetch_store, "_is_read_by_owner", lambda *_asked: False)


def the_share_of_a_former_life_is_read(patch: pytest.MonkeyPatch, stage: Stage) -> None:
    def stamp(self: BucketReader, _share: Any) -> Stamp:
        now = self._clock.now()
        return Stamp(None, self._in_flight.owner or 0, now, now)

    patch.setattr(BucketReader, "_stamp", stamp)


# Those that are found within some walks, and those that take many.
SOON: list[Mutation] = [
    the_dead_may_write,
    an_outcome_counts_whatever_became_of_its_row,
    what_has_not_begun_is_kept_when_its_bucket_goes,
    nobody_is_careful_after_a_death,
    the_buckets_of_the_dead_stay_theirs,
    a_bucket_is_taken_from_its_owner,
    a_lapsed_claim_is_anybodys,
    what_is_held_is_read_again,
]
LATER: list[Mutation] = [
    what_runs_is_offered,
    an_outcome_counts_whenever_its_row_is_due,
    what_still_runs_is_not_marked_when_its_bucket_goes,
    what_has_ended_is_not_marked_when_its_bucket_goes,
    the_cursor_never_starts_over,
    claims_whose_answer_was_lost_are_not_handed_back,
    a_visit_takes_what_its_owner_may_run,
    the_share_of_a_former_life_is_read,
]
