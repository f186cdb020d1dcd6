"""An external system that remembers what it was asked, and does as it is told."""

import windlass
from windlass import External, Running


class Spark(External):
    """A system in memory that remembers what it was asked."""

    def __init__(self):
        self.submitted = []
        self.asked = []
        self.answers = {}
        self.cancelled = []
        self.is_down = False

    def submit(self, job: str) -> str:
        if self.is_down:
            raise ConnectionError("nobody there")
        self.submitted.append((windlass.context().submission, job))
        return f"handle-{windlass.context().submission}"

    def poll(self, handles):
        if self.is_down:
            raise ConnectionError("nobody there")
        self.asked.append(sorted(handles))
        return {handle: self.answers.get(handle, Running()) for handle in handles}

    def cancel(self, handle):
        self.cancelled.append(handle)
