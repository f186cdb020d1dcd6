"""Several worker processes on one SQLite file."""

import pytest

from tests.fault.crew import check_accounts, ids_of


@pytest.mark.parametrize("processes", [2, 4])
def test_workers_share_one_file_under_load_without_a_locked_database(sqlite_crew, processes):
    crew = sqlite_crew
    workers = crew.start_many(processes, "--concurrency", "50")

    ids = ids_of(crew.jobs.nap.enqueue_many([{"seconds": 0.05}] * 1_000))
    for _ in range(60):
        ids += ids_of(crew.jobs.quick.enqueue_many([{"number": 1}] * 40))
        ids.append(crew.jobs.nap.enqueue(0.01).id)
    rows = crew.wait_done(ids, 60.0)

    assert {(row.attempt, row.lost) for row in rows.values()} == {(1, 0)}
    assert crew.effects.count("begin") == dict.fromkeys(ids, 1)
    check_accounts(crew, ids)
    assert len({effect.pid for effect in crew.effects.all()}) > 1
    for worker in workers:
        assert "locked" not in worker.log
        assert worker.events("database.failed") == worker.events("worker.lost") == []
        assert worker.terminate() == 0
