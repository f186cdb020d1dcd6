"""The window of a carrier, against consumers that are only numbers."""

from collections import deque

import pytest

from windlass.queue.engine.carrier.window import CarryWindow

TICK = 0.25


class Consumers:
    """So many runs at once, each of so many seconds; and a queue that is always refilled."""

    def __init__(self, slots, seconds):
        self.window = CarryWindow()
        self.slots = slots
        self.seconds = seconds
        self.now = self.window._measured_at
        self.waiting = 0
        self.running = deque()

    @property
    def outstanding(self):
        return self.waiting + len(self.running)

    def tick(self):
        """A quarter of a second, in small steps."""
        for _ in range(50):
            self.now += TICK / 50
            while self.running and self.running[0] <= self.now:
                self.running.popleft()
                self.window.replied()
            self.waiting += max(0, self.window.size - self.outstanding)
            while self.waiting and len(self.running) < self.slots:
                self.waiting -= 1
                self.running.append(self.now + self.seconds)
        self.window.measure(outstanding=self.outstanding, waiting=self.waiting, now=self.now)

    def per_second(self):
        return self.slots / self.seconds


@pytest.mark.parametrize(
    ("slots", "seconds"), [(1, 0.05), (10, 0.01), (20, 0.1), (100, 0.5), (400, 1.0), (50, 20.0)]
)
def test_all_consumers_have_work_and_the_queue_has_that_of_a_few_seconds(slots, seconds):
    made = Consumers(slots, seconds)
    for _ in range(120):
        made.tick()

    depths, busy = [], []
    for _ in range(40):
        made.tick()
        depths.append(made.waiting)
        busy.append(len(made.running))

    assert min(busy) >= slots * 0.9
    assert max(depths) <= max(16, 4 * made.per_second())


def test_consumers_that_fill_up_leave_few_messages_behind():
    made = Consumers(500, 60.0)

    depths = []
    for _ in range(60):
        made.tick()
        depths.append(made.waiting)

    assert len(made.running) == 500
    # A quarter of what they have, not as much again.
    assert max(depths) <= 130


def test_without_consumers_it_stays_small():
    made = Consumers(0, 1.0)
    for _ in range(100):
        made.tick()

    assert (made.window.size, made.waiting) == (8, 8)


def test_it_shrinks_when_consumers_leave():
    made = Consumers(200, 0.1)
    for _ in range(40):
        made.tick()
    before = made.waiting

    # They answer 20 in a second now.
    made.slots = 2
    for _ in range(40):
        made.tick()
    soon = made.waiting
    for _ in range(400):
        made.tick()

    # What is in the queue is not taken back. Little is added to it until it is short again.
    assert soon < before * 1.2
    assert made.waiting <= 80
