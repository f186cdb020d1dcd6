"""The backend of Windlass with what the tests ask of Django's two: of the one that only stores, its
list of results; of the one that runs tasks at once, that they have run.
"""

from windlass.contrib.django.backend import WindlassBackend
from windlass.contrib.django.begin import the_app
from windlass.contrib.django.models import Failure, Task


class StoringBackend(WindlassBackend):
    """In the place of `DummyBackend`."""

    @property
    def results(self):
        return [self.get_result(str(row.id)) for row in Task.objects.order_by("id")]

    def clear(self):
        Task.objects.all().delete()
        Failure.objects.all().delete()


class RunningBackend(WindlassBackend):
    """In the place of `ImmediateBackend`: a worker runs each task before `enqueue` returns."""

    def enqueue(self, task, args, kwargs):
        result = super().enqueue(task, args, kwargs)
        the_app().drain()
        result.refresh()
        return result
