"""Workers are killed in the middle of a flow: every node still runs after its parents."""

import re
from pathlib import Path

import pytest

from tests.wait import eventually
from windlass import Status

MOST_BYTES = 400 * 1024 * 1024
LAYERS = 10
WIDTH = 100


def layered(crew, *, seconds=0.01, layers=LAYERS, width=WIDTH):
    """Starts a run whose nodes wait for three of the layer before; the run, and its edges."""
    edges = {}

    @crew.jobs.app.flow
    def layers_of_naps(flow):
        before = []
        for layer in range(layers):
            now = []
            for index in range(width):
                parents = [before[(index + away) % width] for away in (0, 1, 7)] if before else []
                node = flow.add(crew.jobs.nap, seconds, after=parents, name=f"{layer}-{index}")
                edges[node.name] = {parent.name for parent in parents}
                now.append(node)
            before = now

    return layers_of_naps.start(), edges


def check_order(crew, run, edges):
    """Every node began after all its parents had ended."""
    names = {node.id: node.name for node in run.nodes()}
    began, ended = {}, {}
    for place, effect in enumerate(crew.effects.all()):
        seen = began if effect.what == "begin" else ended
        seen.setdefault(names[effect.task_id], place)
    assert began.keys() == ended.keys() == edges.keys()
    early = {
        name for name, parents in edges.items() if any(ended[p] > began[name] for p in parents)
    }
    assert early == set()


@pytest.mark.mostly("postgresql")
def test_a_run_of_a_thousand_nodes_survives_the_death_of_workers(crew):
    workers = crew.start_many(3, "--concurrency", "20")
    run, edges = layered(crew)
    eventually(lambda: run.progress().done > 150, 30, what="a run that is under way")

    workers[0].kill()
    eventually(lambda: run.progress().done > 500, 40, what="a run that goes on")
    workers[1].kill()

    assert run.wait(timeout=60) is Status.SUCCEEDED
    assert run.progress().done == LAYERS * WIDTH
    check_order(crew, run, edges)
    # Only what the dead had begun was begun again.
    begun = {}
    for effect in crew.effects.all():
        if effect.what == "begin":
            begun.setdefault(effect.task_id, []).append(effect.pid)
    before = {pid for pids in begun.values() for pid in pids[:-1]}
    assert before <= {worker.pid for worker in workers[:2]}


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_run_of_fifty_thousand_nodes_ends_within_memory(postgresql_crew):
    crew = postgresql_crew

    @crew.jobs.app.flow
    def large(flow):
        before = []
        for layer in range(500):
            parents = before
            before = [
                flow.add(
                    crew.jobs.quick,
                    index,
                    after=[parents[index], parents[(index + 1) % 100]] if parents else [],
                    name=f"{layer}-{index}",
                )
                for index in range(100)
            ]

    run = large.start()
    workers = crew.start_many(2)

    assert run.wait(timeout=500) is Status.SUCCEEDED
    assert run.progress().total == 50_000
    assert all(peak_bytes(worker.pid) < MOST_BYTES for worker in workers)


def peak_bytes(pid):
    """The most memory that a process ever had."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) * 1024
