"""Dask in memory, as a reference: nothing outlives its scheduler."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager

from distributed import Client, LocalCluster

from bench.flow import journal
from bench.flow.contract import Declare, Run, folder, main
from bench.flow.shape import Shape


def node(number: int, *_parents: None) -> None:
    journal.note(number)


@contextmanager
def run_dask() -> Iterator[Declare]:
    # Two processes of one thread take twice as long: nodes that do nothing are all messages.
    cluster = LocalCluster(
        processes=False,
        n_workers=1,
        threads_per_worker=2,
        dashboard_address=None,
        local_directory=str(folder()),
    )
    numbers = itertools.count()
    with cluster, Client(cluster) as client:

        def declare(shape: Shape) -> Run:
            def run() -> None:
                name = f"{shape.name}-{next(numbers)}"
                graph = {
                    f"{name}-{number}": (node, number, *(f"{name}-{each}" for each in parents))
                    for number, parents in enumerate(shape.parents)
                }
                ends = [f"{name}-{number}" for number in shape.ends]
                # Left as it is: an optimised chain would be a single task.
                client.get(graph, ends, optimize_graph=False)

            return run

        yield declare


if __name__ == "__main__":
    main(run_dask)
