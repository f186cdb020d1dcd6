"""Airflow by `dag.test()`: its metadata in PostgreSQL, its tasks one by one in this process.

That is the least of Airflow that runs a graph: no scheduler to wait for, and no
process for every task.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.contract import url
from bench.flow.contract import WARM_SHAPE, Declare, Run, folder, main
from bench.flow.shape import Shape

# A DAG has to be in a file that Airflow finds by itself.
DAG_FILE = """# DAGs of Airflow
from bench.peer.airflow.graph import draw

dags = [draw(name) for name in {names!r}]
for dag in dags:
    globals()[dag.dag_id] = dag
"""


@contextmanager
def run_airflow() -> Iterator[Declare]:
    home = folder()
    (home / "dags").mkdir()
    (home / "dags" / "flow.py").write_text(DAG_FILE.format(names=[WARM_SHAPE, *sys.argv[1:]]))
    os.environ |= {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(home / "dags"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "false",
        "AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT": "300",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": url().replace("://", "+psycopg2://"),
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "ERROR",
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "false",
        "PYTHONPATH": os.pathsep.join([str(Path.cwd()), os.environ.get("PYTHONPATH", "")]),
    }
    program = str(Path(sys.executable).with_name("airflow"))
    subprocess.run([program, "db", "migrate"], check=True, stdout=sys.stderr)
    yield _declare


def _declare(shape: Shape) -> Run:
    # Its settings are read from the environment at the import.
    from bench.peer.airflow.graph import draw

    dag = draw(shape.name)

    def run() -> None:
        ended = dag.test()
        if ended.state != "success":
            raise RuntimeError(f"Airflow says that the run is {ended.state}")

    return run


if __name__ == "__main__":
    main(run_airflow)
