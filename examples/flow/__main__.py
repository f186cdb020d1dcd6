"""`python -m examples.flow`: a graph runs, a node fails, a person cures it, and it goes on."""

import time

from examples.flow import shop
from windlass import FlowRun


def main() -> None:
    """Start a night, watch it fail, fill the printer, and retry."""
    run = shop.nightly.using(key="2026-11-16").start(["north", "south", "west"])
    print(f"run {run.id} has {run.progress().total} nodes")

    work(run)
    print(f"it has {run.status()}:")
    show(run)

    shop.is_out_of_paper = False
    print(f"the printer is filled; {run.retry()} node begins again")
    work(run)
    print(f"it has {run.status()}:")
    show(run)
    shop.app.close()


def work(run: FlowRun) -> None:
    """What a worker does, until the run has ended."""
    while str(run.status()) == "running":
        shop.app.drain()
        time.sleep(0.05)


def show(run: FlowRun) -> None:
    for node in run.nodes():
        print(f"  {node.name:<14} {node.status!s:<10} {node.error or node.result or ''}")


if __name__ == "__main__":
    main()
