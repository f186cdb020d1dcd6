"""The warehouse: another system that executes jobs. Here it is a folder; a job is a file in it."""

from __future__ import annotations

import json
from pathlib import Path

import windlass

FOLDER = Path("warehouse")


class Warehouse(windlass.External):
    """What Windlass needs to know of it: how to submit a job, and how to ask for many at once."""

    def submit(self, table: str) -> str:
        """Start a job; the handle is its file.

        It is named by the submission, which is the same when a worker died after it had submitted
        and before that was written down: so the job is there once.
        """
        FOLDER.mkdir(exist_ok=True)
        job = FOLDER / f"{windlass.context().submission}.json"
        if not job.exists():
            job.write_text(json.dumps({"table": table, "asked": 0}))
        return job.name

    def poll(self, handles: list[str]) -> dict[str, windlass.Running | windlass.Done]:
        """How the jobs are going; each is done when it is asked for the second time."""
        return {handle: self._state(FOLDER / handle) for handle in handles}

    def _state(self, job: Path) -> windlass.Running | windlass.Done:
        known = json.loads(job.read_text())
        known["asked"] += 1
        job.write_text(json.dumps(known))
        if known["asked"] < 2:
            return windlass.Running()
        return windlass.Done({"table": known["table"], "rows": 100})
