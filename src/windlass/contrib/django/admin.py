"""The admin: lists to read, whose rows lead to the console."""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar

from django.contrib import admin
from django.core.paginator import Paginator
from django.urls import NoReverseMatch, reverse
from django.utils import timezone
from django.utils.functional import cached_property
from django.utils.html import format_html

from windlass.clock import to_datetime
from windlass.contrib.django.begin import the_app
from windlass.contrib.django.models import Failure, Task, Worker

MOST_COUNTED = 10_000


class BoundedPaginator(Paginator):
    """Counts only so far: a list of ten million tasks opens as quickly as one of ten."""

    @cached_property
    def count(self) -> int:
        return int(self.object_list[:MOST_COUNTED].count())


def moment(field: str, title: str) -> Any:
    """A column that shows microseconds since the epoch as a time."""

    @admin.display(description=title, ordering=field)
    def shown(row: Any) -> datetime | None:
        given = getattr(row, field)
        return None if given is None else timezone.localtime(to_datetime(given))

    return shown


class ReadOnlyAdmin(admin.ModelAdmin):
    """A list of rows that only Windlass changes."""

    paginator = BoundedPaginator
    show_full_result_count = False
    list_per_page = 50
    actions = None

    def get_queryset(self, request: Any) -> Any:
        return super().get_queryset(request).using(the_app().alias)

    def has_add_permission(self, request: Any, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: Any, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: Any, obj: Any = None) -> bool:
        return False


def console_link(path: str, text: str) -> Any:
    """A link to a page of the console; empty if the project does not mount it."""
    try:
        root = reverse("windlass:console")
    except NoReverseMatch:
        return ""
    return format_html('<a href="{}{}">{}</a>', root, path, text)


@admin.register(Task)
class TaskAdmin(ReadOnlyAdmin):
    """Tasks, newest first."""

    list_display: ClassVar[Any] = (
        "id", "kind", "task_key", "status", "attempt", moment("created_at", "enqueued"),
        moment("due_at", "due"), moment("finished_at", "finished"), "remark", "console",
    )  # fmt: skip
    list_filter: ClassVar[Any] = ("status",)
    search_fields: ClassVar[Any] = ("=id", "=kind", "=task_key")
    search_help_text = "An id, a kind or a key, in full."

    @admin.display(description="console")
    def console(self, row: Task) -> Any:
        return console_link(f"tasks/{row.id}", "open")


@admin.register(Failure)
class FailureAdmin(ReadOnlyAdmin):
    """The last errors of tasks."""

    list_display: ClassVar[Any] = (
        "id", "kind", "attempt", moment("failed_at", "failed"), "error", "console",
    )  # fmt: skip
    search_fields: ClassVar[Any] = ("=task_id", "=kind")
    search_help_text = "The id of a task, or a kind, in full."

    @admin.display(description="console")
    def console(self, row: Failure) -> Any:
        return console_link(f"tasks/{row.task_id}", "open")


@admin.register(Worker)
class WorkerAdmin(ReadOnlyAdmin):
    """Workers, those that have left too."""

    list_display: ClassVar[Any] = (
        "id", "host", "pid", moment("joined_at", "joined"), moment("left_at", "left"),
        "left_why", "console",
    )  # fmt: skip

    @admin.display(description="console")
    def console(self, _row: Worker) -> Any:
        return console_link("ring", "open")
