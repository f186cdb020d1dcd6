"""A shape as an Airflow DAG."""

from __future__ import annotations

from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import DAG

from bench.flow import journal
from bench.flow.shape import named


def draw(name: str) -> DAG:
    with DAG(name, schedule=None, catchup=False) as dag:
        nodes: list[PythonOperator] = []
        for number, parents in enumerate(named(name).parents):
            node = PythonOperator(
                task_id=f"n{number}", python_callable=journal.note, op_args=[number]
            )
            node.set_upstream([nodes[parent] for parent in parents])
            nodes.append(node)
    return dag
