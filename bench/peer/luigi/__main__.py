"""Luigi: its local scheduler, one worker in its own process, a target file for every node."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import luigi

from bench.flow import journal
from bench.flow.contract import Declare, Run, folder, main
from bench.flow.shape import Shape, named


class Node(luigi.Task):
    """A node of a run; it is complete when its target is there, as Luigi has it."""

    shape = luigi.Parameter()
    number = luigi.IntParameter()
    place = luigi.Parameter()

    def requires(self) -> list[Node]:
        return [self.clone(number=parent) for parent in SHAPES[self.shape].parents[self.number]]

    def output(self) -> luigi.LocalTarget:
        return luigi.LocalTarget(Path(self.place, str(self.number)))

    def run(self) -> None:
        journal.note(self.number)
        with self.output().open("w"):
            """An empty target says all there is to say."""


SHAPES: dict[str, Shape] = {}


@contextmanager
def run_luigi() -> Iterator[Declare]:
    # The scheduler hands out a node when its parents are done; looking again costs a file each.
    luigi.configuration.get_config().set("worker", "check_unfulfilled_deps", "false")
    yield _declare


def _declare(shape: Shape) -> Run:
    SHAPES[shape.name] = named(shape.name)

    def run() -> None:
        place = tempfile.mkdtemp(dir=folder())
        ends = [Node(shape=shape.name, number=number, place=place) for number in shape.ends]
        # More workers fork a process for every node, which takes longer than the node.
        if not luigi.build(ends, local_scheduler=True, workers=1, log_level="ERROR"):
            raise RuntimeError("Luigi says that nodes have failed")

    return run


if __name__ == "__main__":
    main(run_luigi)
