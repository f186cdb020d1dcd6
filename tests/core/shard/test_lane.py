"""A lane is in one shard, whatever is enqueued from where."""

import pytest

from windlass import BadInput


@pytest.fixture
def seen():
    return []


@pytest.fixture
def note(sharded, seen):
    @sharded.task(lane=lambda name: name.split("-")[0])
    def note(name: str) -> None:
        seen.append(name)

    return note


def shards_of(app) -> list[set[str]]:
    """The lanes in each shard."""
    query = "select distinct lane from windlass_task where lane is not null"
    return [
        shard.database.read(lambda connection: set(connection.exec_driver_sql(query).scalars()))
        for shard in app.fleet.shards
    ]


def test_all_rows_of_a_lane_go_to_one_shard_and_run_in_order(sharded, note, seen):
    lanes = [f"lane{number}" for number in range(12)]
    note.enqueue_many([{"name": f"{lane}-{row}"} for row in range(3) for lane in lanes])
    for lane in lanes:
        note.enqueue(f"{lane}-3")

    found = shards_of(sharded)
    sharded.drain()

    assert sum(map(len, found)) == len(lanes)
    assert len([each for each in found if each]) > 1
    for lane in lanes:
        rows = [name for name in seen if name.startswith(f"{lane}-")]
        assert rows == [f"{lane}-{row}" for row in range(4)]


def test_a_key_and_a_lane_are_refused_with_several_shards(sharded, note):
    with pytest.raises(BadInput, match="may belong to different shards"):
        note.using(key="k").enqueue("a-1")
