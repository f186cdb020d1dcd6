"""The fence around tracing: an error in it is logged once, and changes nothing else."""

from __future__ import annotations

from windlass import telemetry


class Fence:
    """Logs the first error. Those that follow have the same cause, and may be one for each run."""

    has_reported = False

    def report(self, problem: Exception) -> None:
        if not self.has_reported:
            self.has_reported = True
            error = f"{type(problem).__name__}: {problem}"
            telemetry.emit("trace.failed", problem, error=error)


FENCE = Fence()
