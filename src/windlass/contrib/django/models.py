"""The tables of Windlass as Django's models, to be read: lists in the admin, results, tests.

Windlass makes and changes the tables. Moments are microseconds since the epoch, in UTC.
"""

from __future__ import annotations

import json
from typing import Any, ClassVar

from django.db import models

from windlass.value.status import Status


class Document(models.TextField):
    """A column with JSON, decoded."""

    def from_db_value(self, value: Any, _expression: object, connection: Any) -> Any:
        # The driver of PostgreSQL decodes it.
        is_text = connection.vendor != "postgresql" and value is not None
        return json.loads(value) if is_text else value


class Task(models.Model):
    """A task: a row of work."""

    id = models.BigIntegerField(primary_key=True)
    kind = models.CharField(max_length=100)
    task_key = models.CharField("key", max_length=255, null=True)
    status = models.SmallIntegerField(choices=[(each.value, str(each)) for each in Status])
    priority = models.SmallIntegerField()
    due_at = models.BigIntegerField(null=True)
    attempt = models.IntegerField()
    worker = models.BigIntegerField(null=True)
    created_at = models.BigIntegerField()
    started_at = models.BigIntegerField(null=True)
    finished_at = models.BigIntegerField(null=True)
    payload = Document()
    result = Document(null=True)
    remark = models.TextField(null=True)

    class Meta:
        managed = False
        db_table = "windlass_task"
        ordering: ClassVar = ["-id"]
        permissions: ClassVar = [("operate", "Can act in the console of Windlass")]

    def __str__(self) -> str:
        return f"{self.kind} {self.id}"


class Failure(models.Model):
    """An error of a task."""

    id = models.BigIntegerField(primary_key=True)
    task_id = models.BigIntegerField()
    kind = models.CharField(max_length=100)
    attempt = models.IntegerField()
    worker = models.BigIntegerField(null=True)
    failed_at = models.BigIntegerField()
    error = models.TextField()
    trace = models.TextField()

    class Meta:
        managed = False
        db_table = "windlass_failure"
        ordering: ClassVar = ["-id"]

    def __str__(self) -> str:
        return f"{self.kind} {self.task_id}: {self.error:.80}"


class Worker(models.Model):
    """A worker, alive or left."""

    id = models.BigIntegerField(primary_key=True)
    host = models.CharField(max_length=255)
    pid = models.IntegerField()
    joined_at = models.BigIntegerField()
    lease_until = models.BigIntegerField()
    left_at = models.BigIntegerField(null=True)
    left_why = models.TextField(null=True)

    class Meta:
        managed = False
        db_table = "windlass_worker"
        ordering: ClassVar = ["-id"]

    def __str__(self) -> str:
        return f"{self.host} {self.pid}"
