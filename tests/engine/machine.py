"""State machines of Hypothesis over a database: a few walks in passing, or a long campaign."""

import os
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

PHASES = [Phase.explicit, Phase.reuse, Phase.generate]


def walk(
    machine: type[Any], engine: str, url: str, *, examples: int, steps: int, shrinks: bool = False
) -> None:
    """Run a machine whose `url` says where. In SQLite nothing is forced to the disk."""
    where = url + "?synchronous=OFF" if engine == "sqlite" else url
    run_state_machine_as_test(
        type(machine.__name__, (machine,), {"url": where}),
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            # Making a failure shorter takes minutes: the long campaign does it.
            phases=[*PHASES, Phase.shrink] if shrinks else PHASES,
            suppress_health_check=list(HealthCheck),
            print_blob=True,
        ),
    )


def campaign(machine: type[Any], engine: str, url: str, *, steps: int, walks: int = 200) -> None:
    """Many walks, fewer of them where each costs round trips."""
    most = int(os.environ.get("WINDLASS_MODEL_EXAMPLES", walks))
    examples = most if engine == "sqlite" else most // 5
    walk(machine, engine, url, examples=examples, steps=steps, shrinks=True)
