"""Dagster: a job of ops that wait for each other, run in its process, every event in PostgreSQL."""

# Without the import that leaves annotations as text: Dagster reads them.

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from dagster import (
    DagsterInstance,
    DependencyDefinition,
    GraphDefinition,
    In,
    MultiDependencyDefinition,
    NodeInvocation,
    Nothing,
    OpExecutionContext,
    Out,
    op,
)

from bench.contract import url
from bench.flow import journal
from bench.flow.contract import Declare, Run, folder, main
from bench.flow.shape import Shape

# Captured output costs files for every op; telemetry and logs on the terminal cost time, too.
SETTINGS = """
storage:
  postgres:
    postgres_url: {url}
compute_logs:
  module: dagster._core.storage.noop_compute_log_manager
  class: NoOpComputeLogManager
telemetry:
  enabled: false
python_logs:
  python_log_level: ERROR
"""


@op(out=Out(Nothing))
def root(context: OpExecutionContext) -> None:
    journal.note(_number(context))


@op(ins={"parents": In(Nothing)}, out=Out(Nothing))
def node(context: OpExecutionContext) -> None:
    journal.note(_number(context))


@contextmanager
def run_dagster() -> Iterator[Declare]:
    os.environ["DAGSTER_HOME"] = str(folder())
    (folder() / "dagster.yaml").write_text(SETTINGS.format(url=url()))
    warnings.simplefilter("ignore")
    with DagsterInstance.get() as instance:

        def declare(shape: Shape) -> Run:
            job = _graph(shape).to_job()

            def run() -> None:
                if not job.execute_in_process(instance=instance).success:
                    raise RuntimeError("Dagster says that ops have failed")

            return run

        yield declare


def _graph(shape: Shape) -> GraphDefinition:
    return GraphDefinition(
        name=shape.name.replace("-", "_"),
        node_defs=[root, node],
        dependencies={
            NodeInvocation("node" if parents else "root", alias=f"n{number}"): {
                "parents": MultiDependencyDefinition(
                    [DependencyDefinition(f"n{parent}", "result") for parent in parents]
                )
            }
            if parents
            else {}
            for number, parents in enumerate(shape.parents)
        },
    )


def _number(context: OpExecutionContext) -> int:
    return int(context.op_handle.name[1:])


if __name__ == "__main__":
    main(run_dagster)
